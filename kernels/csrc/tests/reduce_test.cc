// Every variant of the arithmetic that runs here: small whole numbers against plain loops, any bits against each other.
// What the bits of floats must be, tests/kernels/test_arithmetic.py checks against NumPy.
#include "reduce.h"

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "check.h"
#include "tests.h"
#include "values.h"

namespace autotune::test {
namespace {

constexpr const char* kVariants[] = {"baseline", "avx2", "avx512"};

struct Case {
  DType dtype;
  Op op;
  int sources;
  std::size_t count;
  std::size_t shift;  // bytes from aligned memory
  int in_place;       // number of the source that is the destination, or the first of them, or -1
  std::size_t first;  // element from which on `reduce` combines
  int targets;        // of `reduce_to_all` and `reduce_streamed`
  bool alike;         // targets begin at the same place of a line

  int divisor() const { return op == Op::Avg ? sources : 1; }
};

// Sources in memory of exactly their size, and places for the result: one of them may be a source.
class Memory {
 public:
  Memory(const Case& c, const std::vector<std::vector<char>>& sources) : bytes_(sources[0].size()) {
    for (const std::vector<char>& source : sources) {
      char* const at = add(c.shift);
      if (bytes_) std::memcpy(at, source.data(), bytes_);
      from.push_back(at);
    }
    for (int m = 0; m < c.targets; m++)
      to.push_back(m == 0 && c.in_place >= 0 ? memory_[static_cast<std::size_t>(c.in_place)].get() + c.shift
                                             : add(c.alike ? c.shift : (c.shift * 3 + static_cast<std::size_t>(m) * 5) % 64));
  }

  std::vector<char> target(std::size_t number) const {
    const char* const at = static_cast<const char*>(to[number]);
    return {at, at + bytes_};
  }

  std::vector<const void*> from;
  std::vector<void*> to;

 private:
  char* add(std::size_t shift) {
    memory_.emplace_back(static_cast<char*>(operator new[](shift + bytes_, kLine)));
    return memory_.back().get() + shift;
  }

  static constexpr std::align_val_t kLine{64};
  struct Delete {
    void operator()(char* memory) const { operator delete[](memory, kLine); }
  };
  std::size_t bytes_;
  std::vector<std::unique_ptr<char, Delete>> memory_;
};

// By `reduce`, which combines the elements before `first` in a call of their own.
std::vector<char> combined(const Arithmetic& arithmetic, const Case& c, const std::vector<std::vector<char>>& sources) {
  const Memory memory(c, sources);
  const ReduceFn reduce = arithmetic.reduce[static_cast<int>(c.dtype)][static_cast<int>(c.op)];
  char* const target = static_cast<char*>(memory.to[0]);
  reduce(target, memory.from.data(), c.sources, 0, c.first, c.divisor());
  reduce(target + c.first * item_bytes(c.dtype), memory.from.data(), c.sources, c.first, c.count - c.first, c.divisor());
  return memory.target(0);
}

std::string describe(const Arithmetic& arithmetic, const Case& c) {
  return std::string(arithmetic.name) + ", dtype " + std::to_string(static_cast<int>(c.dtype)) + ", op " +
         std::to_string(static_cast<int>(c.op)) + ", sources " + std::to_string(c.sources) + ", count " +
         std::to_string(c.count) + ", shift " + std::to_string(c.shift) + ", first " + std::to_string(c.first) +
         ", targets " + std::to_string(c.targets) + (c.alike ? " alike" : "") + ", in place " + std::to_string(c.in_place);
}

void check_whole_numbers(const Arithmetic& arithmetic, const Case& c, std::uint64_t seed) {
  const std::size_t item = item_bytes(c.dtype);
  std::vector<std::vector<char>> sources;
  for (int rank = 0; rank < c.sources; rank++) {
    sources.emplace_back(c.count * item);
    for (std::size_t i = 0; i < c.count; i++)
      put(&sources.back()[i * item], c.dtype, input_value(c.op, c.sources, seed, rank, i));
  }
  std::vector<char> wanted(c.count * item);
  for (std::size_t i = 0; i < c.count; i++)
    put(&wanted[i * item], c.dtype, combined_value(c.op, c.sources, seed, i));
  CHECK(combined(arithmetic, c, sources) == wanted, describe(arithmetic, c));
}

// Which NaN comes of two is the compiler's choice, in one loop this way and in another that way: all become one.
std::vector<char> with_one_nan(std::vector<char> bytes, DType dtype) {
  std::uint64_t sign = 0, infinity = 0;
  switch (dtype) {
    case DType::Float32: sign = 1ull << 31, infinity = 0xFFull << 23; break;
    case DType::Float64: sign = 1ull << 63, infinity = 0x7FFull << 52; break;
    case DType::Float16: sign = 1ull << 15, infinity = 0x1Full << 10; break;
    case DType::BFloat16: sign = 1ull << 15, infinity = 0xFFull << 7; break;
    default: return bytes;
  }
  const std::size_t item = item_bytes(dtype);
  for (std::size_t at = 0; at < bytes.size(); at += item) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &bytes[at], item);
    if ((bits & ~sign) <= infinity) continue;
    bits = infinity | 1;
    std::memcpy(&bytes[at], &bits, item);
  }
  return bytes;
}

// To all but the last target past the caches, to that one as a message.
void check_streamed(const Arithmetic& arithmetic, const Case& c, const std::vector<std::vector<char>>& sources,
                    const std::vector<char>& wanted) {
  const Memory memory(c, sources);
  const bool sends = c.targets > 1;
  arithmetic.reduce_streamed[static_cast<int>(c.dtype)][static_cast<int>(c.op)](
      memory.to.data(), c.targets - sends, sends ? memory.to.back() : nullptr, memory.from.data(), c.sources, c.count,
      c.divisor(), sends ? memory.from[0] : nullptr);
  store_fence();
  for (std::size_t m = 0; m < memory.to.size(); m++)
    CHECK(with_one_nan(memory.target(m), c.dtype) == wanted, describe(arithmetic, c) + ", streamed, at " + std::to_string(m));
}

void check_any_bits(const Arithmetic& arithmetic, const Case& c, Random& random) {
  std::vector<std::vector<char>> sources;
  for (int rank = 0; rank < c.sources; rank++) {
    sources.emplace_back(c.count * item_bytes(c.dtype));
    for (char& byte : sources.back()) byte = static_cast<char>(random());
  }
  const std::vector<char> wanted = with_one_nan(combined(*arithmetic_named("baseline"), c, sources), c.dtype);
  CHECK(with_one_nan(combined(arithmetic, c, sources), c.dtype) == wanted, describe(arithmetic, c));
  const Memory memory(c, sources);
  arithmetic.reduce_to_all[static_cast<int>(c.dtype)][static_cast<int>(c.op)](
      memory.to.data(), c.targets, memory.from.data(), c.sources, c.count, c.divisor());
  for (std::size_t m = 0; m < memory.to.size(); m++)
    CHECK(with_one_nan(memory.target(m), c.dtype) == wanted, describe(arithmetic, c) + ", to all, at " + std::to_string(m));
  check_streamed(arithmetic, c, sources, wanted);
}

void check_stream_copy(const Arithmetic& arithmetic) {
  for (std::size_t bytes : {0, 1, 15, 16, 63, 64, 65, 1000})
    for (std::size_t from = 0; from < 3; from++)
      for (std::size_t to = 0; to < 66; to++) {
        std::vector<char> source(from + bytes + 1), target(to + bytes + 1), wanted(to + bytes + 1);
        for (std::size_t i = 0; i < bytes; i++) wanted[to + i] = source[from + i] = static_cast<char>(i + 1);
        arithmetic.stream_copy(target.data() + to, source.data() + from, bytes, nullptr);
        store_fence();
        CHECK(target == wanted, std::string(arithmetic.name) + ", " + std::to_string(bytes) + " bytes");
      }
}

}  // namespace

void test_reduce(std::uint64_t seed) {
  Random random(seed);
  for (const char* name : kVariants) {
    const Arithmetic* arithmetic = arithmetic_named(name);
    if (!arithmetic) {
      std::printf("%s does not run here\n", name);
      continue;
    }
    check_stream_copy(*arithmetic);
    for (int dtype = 0; dtype < kDTypes; dtype++)
      for (int op = 0; op < kOps; op++)
        for (int sources = 2; sources <= 9; sources++)
          for (std::size_t count : {0, 1, 7, 33, 513, 2049}) {
            Case c{static_cast<DType>(dtype), static_cast<Op>(op), sources, count, 0, -1, 0, 1, false};
            if (between(random, 0, 2) == 0) c.shift = between(random, 0, 63);
            if (between(random, 0, 1) == 0) c.in_place = static_cast<int>(between(random, 0, c.sources - 1u));
            c.first = between(random, 0, count);
            c.targets = static_cast<int>(between(random, 1, 9));
            c.alike = between(random, 0, 1) == 0;
            if (sources <= 5) check_whole_numbers(*arithmetic, c, seed);
            check_any_bits(*arithmetic, c, random);
          }
  }
  CHECK(arithmetic_named("no such variant") == nullptr, "an unknown name");
}

}  // namespace autotune::test
