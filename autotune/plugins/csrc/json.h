// A strict JSON text, read in one pass by somebody who knows what has to come: no tree, so that memory is bounded by what
// the caller keeps. Refuses what autotune.table.reader refuses: repeated names, NaN, numbers beyond 64 bits, control
// characters and lone surrogates in texts, bytes that are not UTF-8, anything after the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace autotune::plugin {

// What is wrong with a text, and where: "line 3, column 7: ...".
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Json {
 public:
  explicit Json(std::string_view text) : text_(text) {}

  // An object with these names and no others, each at most once; `member` is told which one and reads its value.
  // Names of `may_have` may be missing, those of `names` may not. At most 32 names in all.
  void object(std::initializer_list<std::string_view> names, const std::function<void(std::string_view)>& member,
              std::initializer_list<std::string_view> may_have = {});
  // An object with any names, each once.
  void entries(const std::function<void(const std::string&)>& entry);
  void array(const std::function<void()>& item);

  std::string text();
  std::int64_t whole(std::int64_t low, std::int64_t high);
  double number();  // finite
  bool truth();
  bool null();                 // takes null, if it is what comes
  bool comes_text();           // whether a text comes
  void end();                  // nothing but white space is left
  [[noreturn]] void fail(const std::string& what) const;

 private:
  char peek();  // the next character that is not white space; NUL at the end
  void expect(char wanted);
  bool word(std::string_view wanted);
  std::string_view digits(bool& is_whole);
  unsigned escaped();                       // four hexadecimal digits
  void code_point(std::string& to, unsigned value);
  void utf8(std::string& to);               // one character outside ASCII
  void list(char open, char close, const std::function<void()>& item);

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace autotune::plugin
