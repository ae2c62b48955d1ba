// Element types and operations, numbered as Python passes them (kernels/calls.py). No behaviour.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autotune {

enum class DType : std::uint8_t { Float32, Float64, Float16, BFloat16, Int8, UInt8, Int32, Int64 };
inline constexpr int kDTypes = 8;

enum class Op : std::uint8_t { Sum, Prod, Max, Min, Avg };
inline constexpr int kOps = 5;

inline std::size_t item_bytes(DType type) {
  switch (type) {
    case DType::Float32:
    case DType::Int32: return 4;
    case DType::Float64:
    case DType::Int64: return 8;
    case DType::Float16:
    case DType::BFloat16: return 2;
    case DType::Int8:
    case DType::UInt8: return 1;
  }
  return 0;  // not reached: the switch is exhaustive and -Wswitch keeps it so
}

inline const char* name_of(DType type) {
  constexpr const char* names[kDTypes] = {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"};
  return names[static_cast<int>(type)];
}

}  // namespace autotune
