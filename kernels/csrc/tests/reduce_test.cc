// Every variant of the arithmetic that runs here: small whole numbers against plain loops, any bits against each other.
// What the bits of floats must be, tests/kernels/test_arithmetic.py checks against NumPy.
#include "reduce.h"

#include <cstring>
#include <memory>
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
  int in_place;       // number of the source that is the destination, or -1
};

// Sources in memory of exactly their size; the destination is one of them or has its own.
std::vector<char> combined(const Arithmetic& arithmetic, const Case& c, const std::vector<std::vector<char>>& sources) {
  const std::size_t bytes = c.count * item_bytes(c.dtype);
  std::vector<std::unique_ptr<char[]>> memory;
  std::vector<const void*> pointers;
  for (const std::vector<char>& source : sources) {
    memory.emplace_back(new char[c.shift + bytes]);
    if (bytes) std::memcpy(memory.back().get() + c.shift, source.data(), bytes);
    pointers.push_back(memory.back().get() + c.shift);
  }
  memory.emplace_back(new char[c.shift + bytes]);
  char* const target = memory[c.in_place < 0 ? sources.size() : static_cast<std::size_t>(c.in_place)].get() + c.shift;
  arithmetic.reduce[static_cast<int>(c.dtype)][static_cast<int>(c.op)](target, pointers.data(), c.sources, c.count,
                                                                       c.op == Op::Avg ? c.sources : 1);
  return {target, target + bytes};
}

std::string describe(const Arithmetic& arithmetic, const Case& c) {
  return std::string(arithmetic.name) + ", dtype " + std::to_string(static_cast<int>(c.dtype)) + ", op " +
         std::to_string(static_cast<int>(c.op)) + ", sources " + std::to_string(c.sources) + ", count " +
         std::to_string(c.count) + ", shift " + std::to_string(c.shift);
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

void check_any_bits(const Arithmetic& arithmetic, const Case& c, Random& random) {
  std::vector<std::vector<char>> sources;
  for (int rank = 0; rank < c.sources; rank++) {
    sources.emplace_back(c.count * item_bytes(c.dtype));
    for (char& byte : sources.back()) byte = static_cast<char>(random());
  }
  CHECK(combined(arithmetic, c, sources) == combined(*arithmetic_named("baseline"), c, sources),
        describe(arithmetic, c));
}

void check_stream_copy(const Arithmetic& arithmetic) {
  for (std::size_t bytes : {0, 1, 15, 16, 63, 64, 65, 1000})
    for (std::size_t from = 0; from < 3; from++)
      for (std::size_t to = 0; to < 66; to++) {
        std::vector<char> source(from + bytes + 1), target(to + bytes + 1), wanted(to + bytes + 1);
        for (std::size_t i = 0; i < bytes; i++) wanted[to + i] = source[from + i] = static_cast<char>(i + 1);
        arithmetic.stream_copy(target.data() + to, source.data() + from, bytes);
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
            Case c{static_cast<DType>(dtype), static_cast<Op>(op), sources, count, 0, -1};
            if (between(random, 0, 2) == 0) c.shift = between(random, 0, 63);
            if (between(random, 0, 1) == 0) c.in_place = static_cast<int>(between(random, 0, c.sources - 1u));
            if (sources <= 5) check_whole_numbers(*arithmetic, c, seed);
            check_any_bits(*arithmetic, c, random);
          }
  }
  CHECK(arithmetic_named("no such variant") == nullptr, "an unknown name");
}

}  // namespace autotune::test
