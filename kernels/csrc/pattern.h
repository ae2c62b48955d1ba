// Inputs whose right answer is known exactly, and the check of outputs against them, at the speed of memory.
//
// In: a buffer, a type, who and when. Out: filled, or the index of the first wrong element. Knows nothing of groups.
//
// Element i of rank r's input in batch b is (i + 13 r + 5 b) mod m, with m prime and so small that the sum of all
// ranks is exact in the element type (autotune.measure chooses it). The value repeats every m elements, and no power of
// two is a multiple of m, so that blocks in the wrong place do not look right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "elements.h"

namespace autotune {

struct Pattern {
  DType dtype;
  int modulus;  // m; 1 makes every element 0
  int batch;

  // data[i] = element first + i of that rank's input.
  void fill(void* data, std::size_t count, int rank, std::size_t first) const;
  // Bytes that are no sum of inputs, so that an output that was never written is seen.
  static void poison(void* data, std::size_t bytes);
  // Index of the first element of data that is not the sum over `ranks` of element first + i of their inputs, or -1.
  std::int64_t first_wrong(const void* data, std::size_t count, const std::vector<int>& ranks, std::size_t first) const;
  // That sum, for messages.
  double expected(std::size_t index, const std::vector<int>& ranks) const;
  // An element of a buffer, for messages.
  double value(const void* data, std::size_t index) const;

 private:
  std::vector<char> period(const std::vector<int>& ranks, std::size_t first, std::size_t& elements) const;
};

}  // namespace autotune
