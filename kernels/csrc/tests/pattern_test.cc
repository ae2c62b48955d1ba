// The inputs of trials and their check, against the formula that pattern.h states.
#include "pattern.h"

#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "tests.h"
#include "values.h"

namespace autotune::test {
namespace {

long element(std::size_t i, int rank, int batch, int modulus) {
  return static_cast<long>((i + 13 * static_cast<std::size_t>(rank) + 5 * static_cast<std::size_t>(batch)) %
                           static_cast<std::size_t>(modulus));
}

void check_type(DType dtype, int modulus, std::size_t count, std::size_t first) {
  const std::size_t item = item_bytes(dtype);
  const Pattern pattern{dtype, modulus, 3};
  const std::string about = "dtype " + std::to_string(static_cast<int>(dtype)) + ", modulus " +
                            std::to_string(modulus) + ", count " + std::to_string(count);
  std::vector<char> filled(count * item), sums(count * item), wanted(count * item);
  pattern.fill(filled.data(), count, 2, first);
  for (std::size_t i = 0; i < count; i++) {
    put(&wanted[i * item], dtype, element(first + i, 2, 3, modulus));
    put(&sums[i * item], dtype, element(first + i, 0, 3, modulus) + element(first + i, 2, 3, modulus));
  }
  CHECK(filled == wanted, about);
  CHECK(pattern.first_wrong(filled.data(), count, {2}, first) == -1, about);
  CHECK(pattern.first_wrong(sums.data(), count, {0, 2}, first) == -1, about);
  if (!count) return;
  for (std::size_t wrong : {std::size_t{0}, count / 2, count - 1}) {  // one bit, in every byte of an element
    for (std::size_t byte = 0; byte < item; byte++) {
      sums[wrong * item + byte] = static_cast<char>(sums[wrong * item + byte] ^ 1);
      CHECK(pattern.first_wrong(sums.data(), count, {0, 2}, first) == static_cast<std::int64_t>(wrong), about);
      sums[wrong * item + byte] = static_cast<char>(sums[wrong * item + byte] ^ 1);
    }
    CHECK(pattern.expected(first + wrong, {0, 2}) ==
              static_cast<double>(element(first + wrong, 0, 3, modulus) + element(first + wrong, 2, 3, modulus)),
          about);
  }
  if (dtype != DType::Float16 && dtype != DType::BFloat16)  // their value() is the bits
    CHECK(pattern.value(filled.data(), count - 1) == static_cast<double>(element(first + count - 1, 2, 3, modulus)), about);
  Pattern::poison(filled.data(), filled.size());
  CHECK(pattern.first_wrong(filled.data(), count, {2}, first) == 0, about);
}

}  // namespace

void test_pattern() {
  for (int dtype = 0; dtype < kDTypes; dtype++)
    for (int modulus : {1, 2, 61})
      for (std::size_t count : {0, 1, 60, 61, 62, 40'000})
        for (std::size_t first : {std::size_t{0}, std::size_t{59}, std::size_t{1} << 33})
          check_type(static_cast<DType>(dtype), modulus, count, first);
}

}  // namespace autotune::test
