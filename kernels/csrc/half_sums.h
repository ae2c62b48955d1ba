// Combining 16-bit floats: widened to float32 in registers, combined, rounded once to nearest even.
//
// In: up to eight sources, and sums of earlier sources where there are more. Out: halves, or float32 sums for the next
// pass. For reduce.cc alone, under the rules of halves.h.
//
// The sums need no care for NaN when they are rounded: a NaN that comes of halves has its low 16 bits clear, like the
// halves, and stays as it is when they are rounded away. x86 and Arm pass an operand's NaN on with its payload, and
// the NaN they make themselves has no low bits either (Intel SDM vol. 1, 4.8.3.5; Arm ARM, A1.5.5).
#pragma once

#include "halves.h"

namespace autotune {
namespace {

// Bytes ahead of a pass at which operands are fetched: its loop is long, so few of a peer's lines would be under way at once.
constexpr int kAhead = 1024;

template <Op op, class V>
inline V combine_wide(V a, V b) {
  if constexpr (op == Op::Sum) return a + b;
  else if constexpr (op == Op::Prod) return a * b;
  else if constexpr (op == Op::Max) return ((a > b) | (a != a)) ? a : b;
  else return ((a < b) | (a != a)) ? a : b;
}

// One pass over `count` elements: `K` sources behind the sums of earlier ones, if `after` sums; `last` rounds them into
// dst, otherwise they become the new sums, in the order that suits the type. dst may be a source.
template <class Half, Op op, int K, bool after, bool last>
struct Pass;

// bfloat16 in pairs: the two halves of a 32-bit word are floats after a shift and after a mask, and come back together
// with as little, while widening 16-bit elements one by one costs shuffles across the vector (measured: half the speed).
template <Op op, int K, bool after, bool last>
struct Pass<BFloat16, op, K, after, last> {
  static inline float number(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  // The bits of the nearest bfloat16 in the upper half; below lies what was rounded away.
  static inline uint32_t rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits + 0x7FFFu + ((bits >> 16) & 1u);
  }

  template <bool divides>
  static void run(Loose<uint16_t>* dst, Loose<float>* sums, const Loose<uint16_t>* const* src, size_t count, float by) {
    const size_t words = count / 2;
    auto* const to = reinterpret_cast<Loose<uint32_t>*>(dst);
    const Loose<uint32_t>* from[K];
    for (int k = 0; k < K; k++) from[k] = reinterpret_cast<const Loose<uint32_t>*>(src[k]);
    Loose<float>* const odd = sums + words;
    size_t done = 0;
#if defined(__AVX512BW__)
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
    const auto words_of = [&](int k) { return _mm512_loadu_si512(from[k] + done); };
    const auto low_of = [&](__m512i both) { return _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)); };
    const auto high_of = [&](__m512i both) { return _mm512_castsi512_ps(_mm512_and_si512(both, upper)); };
    // As rounded(): half of the last place less one, and one more where that place is odd, by a mask instead of a sum.
    const auto nearest = [](__m512 value) {
      const __m512i bits = _mm512_castps_si512(value);
      const __mmask16 is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
      const __m512i even = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
      return _mm512_mask_add_epi32(even, is_odd, bits, _mm512_set1_epi32(0x8000));
    };
    for (; done + 16 <= words; done += 16) {
#pragma GCC unroll 8
      for (int k = 0; k < K; k++) __builtin_prefetch(reinterpret_cast<const char*>(from[k] + done) + kAhead);
      __m512 low = low_of(words_of(0)), high = high_of(words_of(0));
      if constexpr (after) {
        low = combine_wide<op>(_mm512_loadu_ps(sums + done), low);
        high = combine_wide<op>(_mm512_loadu_ps(odd + done), high);
      }
#pragma GCC unroll 8
      for (int k = 1; k < K; k++) {
        low = combine_wide<op>(low, low_of(words_of(k)));
        high = combine_wide<op>(high, high_of(words_of(k)));
      }
      if constexpr (divides) {
        low /= by;
        high /= by;
      }
      if constexpr (last) {
        const __m512i lower = _mm512_srli_epi32(nearest(low), 16);
        _mm512_storeu_si512(to + done, _mm512_mask_blend_epi16(0xAAAAAAAAu, lower, nearest(high)));
      } else {
        _mm512_storeu_ps(sums + done, low);
        _mm512_storeu_ps(odd + done, high);
      }
    }
#endif
#pragma GCC ivdep
    for (size_t i = done; i < words; i++) {
      float low = number(from[0][i].value << 16), high = number(from[0][i].value & 0xFFFF0000u);
      if constexpr (after) {
        low = combine_wide<op>(sums[i].value, low);
        high = combine_wide<op>(odd[i].value, high);
      }
#pragma GCC unroll 8
      for (int k = 1; k < K; k++) {
        const uint32_t word = from[k][i].value;
        low = combine_wide<op>(low, number(word << 16));
        high = combine_wide<op>(high, number(word & 0xFFFF0000u));
      }
      if constexpr (divides) {
        low /= by;
        high /= by;
      }
      if constexpr (last) {
        to[i].value = (rounded(low) >> 16) | (rounded(high) & 0xFFFF0000u);
      } else {
        sums[i].value = low;
        odd[i].value = high;
      }
    }
    if (count % 2) {
      const size_t i = count - 1;
      float value = BFloat16::widen(src[0][i].value);
      if constexpr (after) value = combine_wide<op>(sums[i].value, value);
      for (int k = 1; k < K; k++) value = combine_wide<op>(value, BFloat16::widen(src[k][i].value));
      if constexpr (divides) value /= by;
      if constexpr (last) dst[i].value = static_cast<uint16_t>(rounded(value) >> 16);
      else sums[i].value = value;
    }
  }
};

// float16, by the CPU's conversions where it has them.
template <Op op, int K, bool after, bool last>
struct Pass<Float16, op, K, after, last> {
  template <bool divides>
  static void run(Loose<uint16_t>* dst, Loose<float>* sums, const Loose<uint16_t>* const* src, size_t count, float by) {
    size_t i = 0;
#if defined(__AVX512F__)
    const auto widened = [&](int k) {
      return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(src[k] + i)));
    };
    for (; i + 16 <= count; i += 16) {
#pragma GCC unroll 8
      for (int k = 0; k < K; k++) __builtin_prefetch(reinterpret_cast<const char*>(src[k] + i) + kAhead);
      __m512 value = widened(0);
      if constexpr (after) value = combine_wide<op>(_mm512_loadu_ps(sums + i), value);
#pragma GCC unroll 8
      for (int k = 1; k < K; k++) value = combine_wide<op>(value, widened(k));
      if constexpr (divides) value /= by;
      if constexpr (last)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i),
                            _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
      else
        _mm512_storeu_ps(sums + i, value);
    }
#elif defined(__F16C__)
    const auto widened = [&](int k) {
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src[k] + i)));
    };
    for (; i + 8 <= count; i += 8) {
      __m256 value = widened(0);
      if constexpr (after) value = combine_wide<op>(_mm256_loadu_ps(reinterpret_cast<const float*>(sums + i)), value);
#pragma GCC unroll 8
      for (int k = 1; k < K; k++) value = combine_wide<op>(value, widened(k));
      if constexpr (divides) value /= by;
      if constexpr (last)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i),
                         _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
      else
        _mm256_storeu_ps(reinterpret_cast<float*>(sums + i), value);
    }
#endif
#pragma GCC ivdep
    for (size_t rest = i; rest < count; rest++) {
      float value = Float16::widen(src[0][rest].value);
      if constexpr (after) value = combine_wide<op>(sums[rest].value, value);
#pragma GCC unroll 8
      for (int k = 1; k < K; k++) value = combine_wide<op>(value, Float16::widen(src[k][rest].value));
      if constexpr (divides) value /= by;
      if constexpr (last) dst[rest].value = Float16::narrow(value);
      else sums[rest].value = value;
    }
  }
};

template <class Half, Op op, int K, bool after, bool last>
inline void pass(Loose<uint16_t>* dst, Loose<float>* sums, const Loose<uint16_t>* const* src, size_t count, int divisor) {
  if constexpr (last && op == Op::Sum)
    if (divisor > 1)
      return Pass<Half, op, K, after, last>::template run<true>(dst, sums, src, count, static_cast<float>(divisor));
  Pass<Half, op, K, after, last>::template run<false>(dst, sums, src, count, 1.0f);
}

// `reduce` of reduce.h for 16-bit floats.
template <class Half>
struct Widened {
  static constexpr int kMost = 4;  // sources of a pass; or all 8 of a host of 8 ranks, whose sums then stay in registers

  template <Op op>
  static void reduce(void* out, const void* const* in, int k, size_t first, size_t count, int divisor) {
    auto* const dst = static_cast<Loose<uint16_t>*>(out);
    const Loose<uint16_t>* part[8];
    const auto take = [&](int from, int n, size_t at) {
      for (int j = 0; j < n; j++) part[j] = static_cast<const Loose<uint16_t>*>(in[from + j]) + first + at;
    };
    if (k <= kMost || k == 8) {
      take(0, k, 0);
      if (k == 8) return pass<Half, op, 8, false, true>(dst, nullptr, part, count, divisor);
      return last_pass<op, false>(dst, nullptr, part, k, count, divisor);
    }
    constexpr size_t kChunk = 2048;  // sums stay in the first-level cache
    alignas(64) Loose<float> sums[kChunk];
    for (size_t at = 0; at < count; at += kChunk) {
      const size_t length = count - at < kChunk ? count - at : kChunk;
      take(0, kMost, at);
      pass<Half, op, kMost, false, false>(nullptr, sums, part, length, 1);
      int next = kMost;
      for (; next + kMost < k; next += kMost) {
        take(next, kMost, at);
        pass<Half, op, kMost, true, false>(nullptr, sums, part, length, 1);
      }
      // dst is written by the last pass only, so that a source that is dst is still whole when its turn comes.
      take(next, k - next, at);
      last_pass<op, true>(dst + at, sums, part, k - next, length, divisor);
    }
  }

  template <Op op, bool after>
  static void last_pass(Loose<uint16_t>* dst, Loose<float>* sums, const Loose<uint16_t>* const* src, int k,
                        size_t count, int divisor) {
    switch (k) {
      case 1: return pass<Half, op, 1, after, true>(dst, sums, src, count, divisor);
      case 2: return pass<Half, op, 2, after, true>(dst, sums, src, count, divisor);
      case 3: return pass<Half, op, 3, after, true>(dst, sums, src, count, divisor);
      default: return pass<Half, op, 4, after, true>(dst, sums, src, count, divisor);
    }
  }
};

}  // namespace
}  // namespace autotune
