// Whole numbers as elements, and the right outputs by plain loops. Knows nothing of schedules.
#pragma once

#include <vector>

#include "elements.h"
#include "program.h"

namespace autotune::test {

// The element's bytes of a small whole number. Exact: |value| <= 256.
void put(char* at, DType dtype, long value);

// Element i of a rank's input in a call. Sums, products, maxima and averages of up to 5 of them are exact in all types.
long input_value(Op op, int n, std::uint64_t seed, int rank, std::size_t i);

// Their combination over ranks.
long combined_value(Op op, int n, std::uint64_t seed, std::size_t i);

// A rank's whole input, and the output that it must get; empty where it has none.
std::vector<char> input_of(Collective collective, DType dtype, Op op, int n, int rank, std::size_t count,
                           std::uint64_t seed);
std::vector<char> output_of(Collective collective, DType dtype, Op op, int n, int rank, int root, std::size_t count,
                            std::uint64_t seed);

}  // namespace autotune::test
