// See pattern.h. Buffers are filled and compared a period at a time, by memcpy and memcmp.
#include "pattern.h"

#include <algorithm>
#include <cstring>

namespace autotune {
namespace {

constexpr std::size_t kPeriodBytes = 32 << 10;

void put(char* at, DType type, long value) {
  const auto store = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (type) {
    case DType::Float32: store(static_cast<float>(value)); return;
    case DType::Float64: store(static_cast<double>(value)); return;
    case DType::Int8: store(static_cast<std::int8_t>(value)); return;
    case DType::UInt8: store(static_cast<std::uint8_t>(value)); return;
    case DType::Int32: store(static_cast<std::int32_t>(value)); return;
    case DType::Int64: store(static_cast<std::int64_t>(value)); return;
    case DType::BFloat16: {  // exact by the choice of the modulus: the low half of the float is zero
      const float wide = static_cast<float>(value);
      std::uint32_t bits;
      std::memcpy(&bits, &wide, sizeof bits);
      store(static_cast<std::uint16_t>(bits >> 16));
      return;
    }
    case DType::Float16: {  // a whole number below 2^11: shift it up until its leading bit is the implicit one
      std::uint16_t bits = 0;
      if (value > 0) {
        int exponent = 10;
        long mantissa = value;
        while (mantissa < 1024) mantissa <<= 1, exponent--;
        bits = static_cast<std::uint16_t>((exponent + 15) << 10 | (mantissa & 1023));
      }
      store(bits);
      return;
    }
  }
}

template <class T>
double load(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof value, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

std::vector<char> Pattern::period(const std::vector<int>& ranks, std::size_t first, std::size_t& elements) const {
  const std::size_t item = item_bytes(dtype);
  const auto m = static_cast<std::size_t>(modulus);
  elements = std::max<std::size_t>(1, kPeriodBytes / item / m) * m;
  std::vector<char> bytes(elements * item);
  for (std::size_t i = 0; i < m; i++) put(&bytes[i * item], dtype, static_cast<long>(expected(first + i, ranks)));
  for (std::size_t filled = m * item; filled < bytes.size();) {
    const std::size_t more = std::min(filled, bytes.size() - filled);
    std::memcpy(&bytes[filled], bytes.data(), more);
    filled += more;
  }
  return bytes;
}

void Pattern::fill(void* data, std::size_t count, int rank, std::size_t first) const {
  std::size_t elements = 0;
  const std::vector<char> tile = period({rank}, first, elements);
  const std::size_t item = item_bytes(dtype);
  for (std::size_t at = 0; at < count; at += elements)
    std::memcpy(static_cast<char*>(data) + at * item, tile.data(), std::min(elements, count - at) * item);
}

void Pattern::poison(void* data, std::size_t bytes) { std::memset(data, 0xA5, bytes); }

std::int64_t Pattern::first_wrong(const void* data, std::size_t count, const std::vector<int>& ranks,
                                  std::size_t first) const {
  std::size_t elements = 0;
  const std::vector<char> tile = period(ranks, first, elements);
  const std::size_t item = item_bytes(dtype);
  const char* bytes = static_cast<const char*>(data);
  for (std::size_t at = 0; at < count; at += elements) {
    const std::size_t length = std::min(elements, count - at);
    if (std::memcmp(bytes + at * item, tile.data(), length * item) == 0) continue;
    for (std::size_t i = 0; i < length; i++)
      if (std::memcmp(bytes + (at + i) * item, &tile[i * item], item) != 0) return static_cast<std::int64_t>(at + i);
  }
  return -1;
}

double Pattern::expected(std::size_t index, const std::vector<int>& ranks) const {
  const auto m = static_cast<std::size_t>(modulus);
  std::size_t sum = 0;
  for (int rank : ranks)
    sum += (index % m + 13 * static_cast<std::size_t>(rank) + 5 * static_cast<std::size_t>(batch)) % m;
  return static_cast<double>(sum);
}

double Pattern::value(const void* data, std::size_t index) const {
  switch (dtype) {
    case DType::Float32: return load<float>(data, index);
    case DType::Float64: return load<double>(data, index);
    case DType::Int8: return load<std::int8_t>(data, index);
    case DType::UInt8: return load<std::uint8_t>(data, index);
    case DType::Int32: return load<std::int32_t>(data, index);
    case DType::Int64: return load<std::int64_t>(data, index);
    case DType::BFloat16:
    case DType::Float16: return load<std::uint16_t>(data, index);  // as bits: messages say so
  }
  return 0;
}

}  // namespace autotune
