// Elements as they lie in buffers, and the conversion of 16-bit floats: to float32 exactly, back to nearest even.
//
// For the files that are compiled once for each instruction set (reduce.cc, codec_kernels.cc) and no others: everything
// is in an anonymous namespace and uses no inline function of the standard library, which the linker could otherwise
// share with code that must run on every CPU.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace autotune {
namespace {

// An element in a user's buffer, which may lie anywhere: not aligned, and written as whatever type the user sees.
template <class T>
struct __attribute__((packed, may_alias)) Loose {
  T value;
};

// ---- 16-bit floats: widened to float32, computed with, rounded once.
struct BFloat16 {
  static inline float widen(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
  static inline uint16_t narrow(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    const uint32_t quiet = bits | 0x00400000u;  // a NaN stays one
    const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    return static_cast<uint16_t>((nan ? quiet : rounded) >> 16);
  }
  static inline void widen_all(Loose<float>* dst, const Loose<uint16_t>* src, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) dst[i].value = widen(src[i].value);
  }
  static inline void narrow_all(Loose<uint16_t>* dst, const Loose<float>* src, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) dst[i].value = narrow(src[i].value);
  }
};

struct Float16 {
  // IEEE 754 binary16 in integer arithmetic, for CPUs without conversion instructions.
  static inline float widen(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    // Scaling by 2^112 moves the exponent's bias and makes subnormals normal, exactly.
    const uint32_t shifted = magnitude << 13;
    float scaled;
    memcpy(&scaled, &shifted, sizeof scaled);
    scaled *= 0x1p112f;
    uint32_t wide;
    memcpy(&wide, &scaled, sizeof wide);
    const uint32_t special = 0x7F800000u | shifted | ((magnitude > 0x7C00u) ? 0x00400000u : 0u);
    wide = (magnitude >= 0x7C00u ? special : wide) | sign;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
  static inline uint16_t narrow(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    // Normal results: round to nearest even in integers, after moving the bias by 112.
    const uint32_t normal = (magnitude - 0x38000000u + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
    // Subnormal results: adding 0.5 lets the FPU round at the right bit.
    float small;
    memcpy(&small, &magnitude, sizeof small);
    small += 0.5f;
    uint32_t small_bits;
    memcpy(&small_bits, &small, sizeof small_bits);
    const uint32_t subnormal = small_bits - 0x3F000000u;
    uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477FF000u ? 0x7C00u : result;  // 65520 and above round to infinity
    result = magnitude > 0x7F800000u ? (0x7E00u | ((magnitude >> 13) & 0x1FFu)) : result;
    return static_cast<uint16_t>(result | sign);
  }
  static inline void widen_all(Loose<float>* dst, const Loose<uint16_t>* src, size_t count) {
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i < count / 16 * 16; i += 16) {
      const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i));
      _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(half));
    }
#elif defined(__F16C__)
    for (; i < count / 8 * 8; i += 8) {
      const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
      _mm256_storeu_ps(reinterpret_cast<float*>(dst + i), _mm256_cvtph_ps(half));
    }
#endif
    for (; i < count; i++) dst[i].value = widen(src[i].value);
  }
  static inline void narrow_all(Loose<uint16_t>* dst, const Loose<float>* src, size_t count) {
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i < count / 16 * 16; i += 16) {
      const __m256i half = _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), half);
    }
#elif defined(__F16C__)
    for (; i < count / 8 * 8; i += 8) {
      const __m256 wide = _mm256_loadu_ps(reinterpret_cast<const float*>(src + i));
      const __m128i half = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), half);
    }
#endif
    for (; i < count; i++) dst[i].value = narrow(src[i].value);
  }
};

}  // namespace
}  // namespace autotune
