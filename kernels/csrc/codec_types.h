// The element types of the codecs, and blocks of them: how elements are stored, and what is computed in.
//
// For codec_kernels.cc only, see halves.h on why everything is in an anonymous namespace.
#pragma once

#include "codec.h"
#include "halves.h"

namespace autotune {
namespace {

// Bits: the stored element. Wide: what codes and residuals are computed in. Sum: what squares are summed in.
template <class T, class B>
struct Native {
  using Bits = B;
  using Wide = T;
  using Sum = double;
  static inline void widen_all(T* dst, const B* src, size_t count) { memcpy(dst, src, count * sizeof(T)); }
  static inline void narrow_all(B* dst, const T* src, size_t count) { memcpy(dst, src, count * sizeof(T)); }
  static inline T widen(B bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  static inline B narrow(double value) {
    const T rounded = static_cast<T>(value);
    B bits;
    memcpy(&bits, &rounded, sizeof bits);
    return bits;
  }
};
struct F32 : Native<float, uint32_t> {
  static constexpr uint32_t kInfinity = 0x7F800000u;
  static constexpr float kLeastPeak = 0x1p-110f;
};
struct F64 : Native<double, uint64_t> {
  static constexpr uint64_t kInfinity = 0x7FF0000000000000u;
  static constexpr float kLeastPeak = 0x1p-110f;
};
template <class Half>
struct Halves {
  using Bits = uint16_t;
  using Wide = float;
  using Sum = float;
  static inline void widen_all(float* dst, const uint16_t* src, size_t count) {
    Half::widen_all(reinterpret_cast<Loose<float>*>(dst), reinterpret_cast<const Loose<uint16_t>*>(src), count);
  }
  static inline void narrow_all(uint16_t* dst, const float* src, size_t count) {
    Half::narrow_all(reinterpret_cast<Loose<uint16_t>*>(dst), reinterpret_cast<const Loose<float>*>(src), count);
  }
  static inline float widen(uint16_t bits) { return Half::widen(bits); }
  static inline uint16_t narrow(double value) { return Half::narrow(static_cast<float>(value)); }
};
struct F16 : Halves<Float16> {
  static constexpr uint16_t kInfinity = 0x7C00u;
  static constexpr float kLeastPeak = 0x1p-14f;  // below it all entries are subnormal, and codes would be no better
};
struct BF16 : Halves<BFloat16> {
  static constexpr uint16_t kInfinity = 0x7F80u;
  static constexpr float kLeastPeak = 0x1p-110f;
};

constexpr float kPeakLimit = 0x1p127f;  // below it, no code is decoded to Inf

inline size_t block_length(size_t left) { return left < kCodecBlock ? left : kCodecBlock; }

// Copies of a block in plain loops, which the compiler vectorises: a call of memcpy takes as long as the rest.
template <class Bits>
inline void load_block(Bits* block, const char* from, size_t n) {
  const auto* source = reinterpret_cast<const Loose<Bits>*>(from);
  if (n == kCodecBlock) {
    for (size_t i = 0; i < kCodecBlock; i++) block[i] = source[i].value;
  } else {
    memset(block, 0, kCodecBlock * sizeof(Bits));
    memcpy(block, from, n * sizeof(Bits));
  }
}

template <class Bits>
inline void store_block(char* to, const Bits* block, size_t n) {
  auto* target = reinterpret_cast<Loose<Bits>*>(to);
  if (n == kCodecBlock) {
    for (size_t i = 0; i < kCodecBlock; i++) target[i].value = block[i];
  } else {
    memcpy(to, block, n * sizeof(Bits));
  }
}

inline char* put_word(char* at, uint32_t word) {
  memcpy(at, &word, sizeof word);
  return at + sizeof word;
}

template <class Bits>
inline char* put_dense(char* at, const Bits* block, size_t n) {
  at = put_word(at, kDense);
  store_block(at, block, n);
  return at + n * sizeof(Bits);
}

}  // namespace
}  // namespace autotune
