// See values.h.
#include "values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace autotune::test {
namespace {

// Any IEEE format from a number that it holds exactly.
std::uint16_t half_bits(double value, int exponent_bits, int fraction_bits) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent) * 2;  // in [1, 2)
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int stored = static_cast<int>(std::ldexp(fraction - 1, fraction_bits));
  return static_cast<std::uint16_t>((value < 0) << 15 | (exponent - 1 + bias) << fraction_bits | stored);
}

}  // namespace

void put(char* at, DType dtype, long value) {
  const auto store = [&](auto element) { std::memcpy(at, &element, sizeof element); };
  switch (dtype) {
    case DType::Float32: store(static_cast<float>(value)); return;
    case DType::Float64: store(static_cast<double>(value)); return;
    case DType::Float16: store(half_bits(static_cast<double>(value), 5, 10)); return;
    case DType::BFloat16: store(half_bits(static_cast<double>(value), 8, 7)); return;
    case DType::Int8: store(static_cast<std::int8_t>(value)); return;
    case DType::UInt8: store(static_cast<std::uint8_t>(value)); return;
    case DType::Int32: store(static_cast<std::int32_t>(value)); return;
    case DType::Int64: store(static_cast<std::int64_t>(value)); return;
  }
}

long input_value(Op op, int n, std::uint64_t seed, int rank, std::size_t i) {
  std::uint64_t hash = (seed * 31 + static_cast<std::uint64_t>(rank)) * 0x9E3779B97F4A7C15ull + i;
  hash = (hash ^ (hash >> 29)) * 0xBF58476D1CE4E5B9ull;
  const long digit = static_cast<long>(hash >> 40) % 5;
  switch (op) {
    case Op::Prod: return digit % 3 == 0 ? 2 : 1;
    case Op::Avg: return digit * n;  // so that the average is whole; the sum is at most 100, which an int8 holds
    case Op::Sum:
    case Op::Max:
    case Op::Min: return digit;
  }
  return 0;
}

long combined_value(Op op, int n, std::uint64_t seed, std::size_t i) {
  long result = input_value(op, n, seed, 0, i);
  for (int rank = 1; rank < n; rank++) {
    const long next = input_value(op, n, seed, rank, i);
    switch (op) {
      case Op::Sum:
      case Op::Avg: result += next; break;
      case Op::Prod: result *= next; break;
      case Op::Max: result = std::max(result, next); break;
      case Op::Min: result = std::min(result, next); break;
    }
  }
  return op == Op::Avg ? result / n : result;
}

std::vector<char> input_of(Collective collective, DType dtype, Op op, int n, int rank, std::size_t count,
                           std::uint64_t seed) {
  const bool parts = collective == Collective::ReduceScatter || collective == Collective::Scatter ||
                     collective == Collective::AllToAll;
  const std::size_t item = item_bytes(dtype), elements = parts ? count * static_cast<std::size_t>(n) : count;
  std::vector<char> bytes(elements * item);
  for (std::size_t i = 0; i < elements; i++) put(&bytes[i * item], dtype, input_value(op, n, seed, rank, i));
  return bytes;
}

std::vector<char> output_of(Collective collective, DType dtype, Op op, int n, int rank, int root, std::size_t count,
                            std::uint64_t seed) {
  const std::size_t item = item_bytes(dtype), part = count * static_cast<std::size_t>(rank);
  std::vector<char> bytes;
  const auto append = [&](std::size_t elements, auto value) {
    const std::size_t start = bytes.size();
    bytes.resize(start + elements * item);
    for (std::size_t i = 0; i < elements; i++) put(&bytes[start + i * item], dtype, value(i));
  };
  const auto from = [&](int source, std::size_t first) {
    append(count, [=](std::size_t i) { return input_value(op, n, seed, source, first + i); });
  };
  const auto combined = [&](std::size_t first) {
    append(count, [=](std::size_t i) { return combined_value(op, n, seed, first + i); });
  };
  switch (collective) {
    case Collective::AllReduce: combined(0); break;
    case Collective::Reduce:
      if (rank == root) combined(0);
      break;
    case Collective::ReduceScatter: combined(part); break;
    case Collective::Broadcast: from(root, 0); break;
    case Collective::Scatter: from(root, part); break;
    case Collective::AllGather:
      for (int source = 0; source < n; source++) from(source, 0);
      break;
    case Collective::Gather:
      for (int source = 0; source < n && rank == root; source++) from(source, 0);
      break;
    case Collective::AllToAll:
      for (int source = 0; source < n; source++) from(source, part);
      break;
  }
  return bytes;
}

}  // namespace autotune::test
