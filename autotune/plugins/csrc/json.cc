// See json.h. The grammar is RFC 8259's.
#include "json.h"

#include <charconv>
#include <cmath>
#include <set>

namespace autotune::plugin {
namespace {

constexpr std::size_t kShown = 40;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void Json::fail(const std::string& what) const {
  std::size_t line = 1, start = 0;
  for (std::size_t i = 0; i < at_ && i < text_.size(); ++i)
    if (text_[i] == '\n') ++line, start = i + 1;
  throw Fault("line " + std::to_string(line) + ", column " + std::to_string(at_ - start + 1) + ": " + what);
}

char Json::peek() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

void Json::expect(char wanted) {
  if (peek() != wanted) fail(std::string("expected '") + wanted + "'" + (at_ == text_.size() ? ", found the end" : ""));
  ++at_;
}

bool Json::word(std::string_view wanted) {
  peek();
  if (text_.substr(at_, wanted.size()) != wanted) return false;
  at_ += wanted.size();
  return true;
}

void Json::list(char open, char close, const std::function<void()>& item) {
  expect(open);
  if (peek() == close) {
    ++at_;
    return;
  }
  for (;;) {
    item();
    if (peek() != ',') break;
    ++at_;
  }
  expect(close);
}

void Json::array(const std::function<void()>& item) { list('[', ']', item); }

void Json::entries(const std::function<void(const std::string&)>& entry) {
  std::set<std::string> seen;
  list('{', '}', [&] {
    const std::string name = text();
    if (!seen.insert(name).second) fail("a name stands there twice: " + name.substr(0, kShown));
    expect(':');
    entry(name);
  });
}

void Json::object(std::initializer_list<std::string_view> names, const std::function<void(std::string_view)>& member,
                  std::initializer_list<std::string_view> may_have) {
  std::uint32_t seen = 0;
  list('{', '}', [&] {
    const std::string name = text();
    std::uint32_t bit = 1;
    std::string_view known;
    for (const auto& group : {names, may_have})
      for (const std::string_view candidate : group) {
        if (known.empty() && candidate == name) known = candidate;
        if (known.empty()) bit <<= 1;
      }
    if (known.empty()) fail("unknown name: " + name.substr(0, kShown));
    if (seen & bit) fail("a name stands there twice: " + name);
    seen |= bit;
    expect(':');
    member(known);
  });
  std::uint32_t bit = 1;
  for (const std::string_view name : names) {
    if (!(seen & bit)) fail("missing: " + std::string(name));
    bit <<= 1;
  }
}

bool Json::comes_text() { return peek() == '"'; }

std::string Json::text() {
  expect('"');
  std::string found;
  for (;;) {
    if (at_ == text_.size()) fail("a text does not end");
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c == '"') {
      ++at_;
      return found;
    }
    if (c == '\\') {
      ++at_;
      const char escape = at_ < text_.size() ? text_[at_++] : '\0';
      if (escape == '"' || escape == '\\' || escape == '/') found += escape;
      else if (escape == 'u') code_point(found, escaped());
      else fail("a control character, or no escape");
    } else if (c < 0x20 || c == 0x7f) {
      fail("a control character in a text");
    } else if (c < 0x80) {
      found += static_cast<char>(c);
      ++at_;
    } else {
      utf8(found);
    }
  }
}

unsigned Json::escaped() {
  unsigned value = 0;
  if (at_ + 4 > text_.size()) fail("\\u without four digits");
  const char* const first = text_.data() + at_;
  const auto [last, error] = std::from_chars(first, first + 4, value, 16);
  if (error != std::errc() || last != first + 4) fail("\\u without four digits");
  at_ += 4;
  return value;
}

void Json::code_point(std::string& to, unsigned value) {
  if (value >= 0xd800 && value < 0xdc00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const unsigned low = escaped();
    if (low < 0xdc00 || low >= 0xe000) fail("a lone surrogate");
    value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
  }
  if (value < 0x20 || value == 0x7f) fail("a control character in a text");
  if (value >= 0xd800 && value < 0xe000) fail("a lone surrogate");
  if (value < 0x80) {
    to += static_cast<char>(value);
  } else if (value < 0x800) {
    to += static_cast<char>(0xc0 | value >> 6);
    to += static_cast<char>(0x80 | (value & 0x3f));
  } else if (value < 0x10000) {
    to += static_cast<char>(0xe0 | value >> 12);
    to += static_cast<char>(0x80 | (value >> 6 & 0x3f));
    to += static_cast<char>(0x80 | (value & 0x3f));
  } else {
    to += static_cast<char>(0xf0 | value >> 18);
    to += static_cast<char>(0x80 | (value >> 12 & 0x3f));
    to += static_cast<char>(0x80 | (value >> 6 & 0x3f));
    to += static_cast<char>(0x80 | (value & 0x3f));
  }
}

void Json::utf8(std::string& to) {
  const auto byte = [&](std::size_t i) { return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0u; };
  const unsigned first = byte(0);
  const std::size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  unsigned value = first & (0xffu >> (n + 1));
  bool good = first >= 0xc2 && first < 0xf5;
  for (std::size_t i = 1; i < n; ++i) {
    good = good && (byte(i) & 0xc0) == 0x80;
    value = value << 6 | (byte(i) & 0x3f);
  }
  // Overlong forms, surrogates and what lies beyond Unicode.
  good = good && value >= (n == 4 ? 0x10000u : n == 3 ? 0x800u : 0x80u) && value < 0x110000 && (value < 0xd800 || value >= 0xe000);
  if (!good) fail("not UTF-8");
  to.append(text_.substr(at_, n));
  at_ += n;
}

std::string_view Json::digits(bool& is_whole) {
  peek();
  const std::size_t start = at_;
  const auto c = [&] { return at_ < text_.size() ? text_[at_] : '\0'; };
  const auto run = [&] {
    if (!is_digit(c())) fail("expected a number");
    while (is_digit(c())) ++at_;
  };
  is_whole = true;
  if (c() == '-') ++at_;
  if (c() == '0') ++at_;
  else run();
  if (c() == '.') {
    ++at_, is_whole = false;
    run();
  }
  if (c() == 'e' || c() == 'E') {
    ++at_, is_whole = false;
    if (c() == '+' || c() == '-') ++at_;
    run();
  }
  return text_.substr(start, at_ - start);
}

std::int64_t Json::whole(std::int64_t low, std::int64_t high) {
  bool is_whole = false;
  const std::string_view found = digits(is_whole);
  std::int64_t value = 0;
  const auto [last, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  if (!is_whole || error != std::errc() || last != found.data() + found.size() || value < low || value > high)
    fail("expected a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value;
}

double Json::number() {
  bool is_whole = false;
  const std::string_view found = digits(is_whole);
  double value = 0.0;
  const auto [last, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  // Of a number too small for a double, what remains is 0: strtod's rule, and Python's.
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(found).c_str(), nullptr);
  else if (error != std::errc() || last != found.data() + found.size()) fail("expected a number");
  if (!std::isfinite(value) || (is_whole && found.size() > 20)) fail("a number beyond 64 bits");
  return value;
}

bool Json::truth() {
  if (word("true")) return true;
  if (word("false")) return false;
  fail("expected true or false");
}

bool Json::null() { return word("null"); }

void Json::end() {
  if (peek() != '\0' || at_ != text_.size()) fail("something follows the end");
}

}  // namespace autotune::plugin
