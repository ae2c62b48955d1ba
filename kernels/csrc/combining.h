// One element of a plain type. For reduce.cc alone, under its rules.
#pragma once

#include <stdint.h>

#include "elements.h"

namespace autotune {
namespace {

// Integers are combined as unsigned, so that overflow wraps instead of being undefined.
template <class T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<int8_t> {
  using type = uint8_t;
};
template <>
struct Wrapping<int32_t> {
  using type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using type = uint64_t;
};

template <Op op, class T>
inline T combine(T a, T b) {
  using U = typename Wrapping<T>::type;
  if constexpr (op == Op::Sum) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  // uint8_t * uint8_t is an int multiplication and cannot overflow; the wider types multiply unsigned.
  else if constexpr (op == Op::Prod) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  // a != a only for NaN: a NaN operand is the result, the first one if both are.
  else if constexpr (op == Op::Max) return (a > b || a != a) ? a : b;
  else return (a < b || a != a) ? a : b;
}

}  // namespace
}  // namespace autotune
