// The loops of reduce.h, written for the compiler's vectoriser. Compiled several times with other -m flags; everything
// here therefore lives in an anonymous namespace and uses no inline function of the standard library, which the linker
// could otherwise share with code that must run on every CPU.
#include "reduce.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef AUTOTUNE_VARIANT
#define AUTOTUNE_VARIANT baseline
#endif
#define AUTOTUNE_TABLE_(variant) arithmetic_##variant
#define AUTOTUNE_TABLE(variant) AUTOTUNE_TABLE_(variant)
#define AUTOTUNE_NAME_(variant) #variant
#define AUTOTUNE_NAME(variant) AUTOTUNE_NAME_(variant)

namespace autotune {
namespace {

constexpr size_t kTile = 2048;  // elements accumulated at a time when there are more sources than one loop takes

// An element in a user's buffer, which may lie anywhere: not aligned, and written as whatever type the user sees.
template <class T>
struct __attribute__((packed, may_alias)) Loose {
  T value;
};

// ---- one element. Integers are combined as unsigned, so that overflow wraps instead of being undefined.
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

template <bool first, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
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

template <Op op, class T, int K>
inline void combine_loop(Loose<T>* dst, const Loose<T>* const* src, size_t count, int divisor) {
  const Loose<T>* s0 = src[0];
  const Loose<T>* s1 = src[1];
  const Loose<T>* s2 = K > 2 ? src[2] : s0;
  const Loose<T>* s3 = K > 3 ? src[3] : s0;
  if (divisor > 1) {
    // Integers divide as int or wider: 200 ranks do not fit an int8.
    using Divisor = typename Choose<static_cast<T>(0.5f) == static_cast<T>(0), int, T>::type;
    const Divisor by = static_cast<Divisor>(divisor);
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
      T value = combine<op>(s0[i].value, s1[i].value);
      if (K > 2) value = combine<op>(value, s2[i].value);
      if (K > 3) value = combine<op>(value, s3[i].value);
      dst[i].value = static_cast<T>(value / by);
    }
    return;
  }
  // dst may equal a source, but then at the same index only: iterations are independent.
#pragma GCC ivdep
  for (size_t i = 0; i < count; i++) {
    T value = combine<op>(s0[i].value, s1[i].value);
    if (K > 2) value = combine<op>(value, s2[i].value);
    if (K > 3) value = combine<op>(value, s3[i].value);
    dst[i].value = value;
  }
}

template <Op op, class T>
inline void combine_up_to_4(Loose<T>* dst, const Loose<T>* const* src, int k, size_t count, int divisor) {
  switch (k) {
    case 2: combine_loop<op, T, 2>(dst, src, count, divisor); return;
    case 3: combine_loop<op, T, 3>(dst, src, count, divisor); return;
    default: combine_loop<op, T, 4>(dst, src, count, divisor); return;
  }
}

template <class T>
struct Plain {
  template <Op op>
  static void reduce(void* out, const void* const* in, int k, size_t count, int divisor) {
    auto* dst = static_cast<Loose<T>*>(out);
    const Loose<T>* part[4];
    if (k <= 4) {
      for (int j = 0; j < k; j++) part[j] = static_cast<const Loose<T>*>(in[j]);
      combine_up_to_4<op, T>(dst, part, k, count, divisor);
      return;
    }
    alignas(64) Loose<T> sum[kTile];
    for (size_t at = 0; at < count; at += kTile) {
      const size_t length = count - at < kTile ? count - at : kTile;
      for (int j = 0; j < 4; j++) part[j] = static_cast<const Loose<T>*>(in[j]) + at;
      combine_up_to_4<op, T>(sum, part, 4, length, 1);
      // dst is written by the last round only, so that a source that is dst is still whole when its turn comes.
      for (int next = 4; next < k; next += 3) {
        const int more = k - next < 3 ? k - next : 3;
        const bool last = next + more == k;
        part[0] = sum;
        for (int j = 0; j < more; j++) part[j + 1] = static_cast<const Loose<T>*>(in[next + j]) + at;
        combine_up_to_4<op, T>(last ? dst + at : sum, part, more + 1, length, last ? divisor : 1);
      }
    }
  }
};

// ---- 16-bit floats: widened to float32, combined, rounded once.
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
    for (; i + 16 <= count; i += 16) {
      const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i));
      _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(half));
    }
#elif defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
      const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
      _mm256_storeu_ps(reinterpret_cast<float*>(dst + i), _mm256_cvtph_ps(half));
    }
#endif
    for (; i < count; i++) dst[i].value = widen(src[i].value);
  }
  static inline void narrow_all(Loose<uint16_t>* dst, const Loose<float>* src, size_t count) {
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
      const __m256i half = _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), half);
    }
#elif defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
      const __m256 wide = _mm256_loadu_ps(reinterpret_cast<const float*>(src + i));
      const __m128i half = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), half);
    }
#endif
    for (; i < count; i++) dst[i].value = narrow(src[i].value);
  }
};

template <class Half>
struct Widened {
  template <Op op>
  static void reduce(void* out, const void* const* in, int k, size_t count, int divisor) {
    constexpr size_t kChunk = 512;  // sum and operand stay in the first-level cache
    alignas(64) Loose<float> sum[kChunk];
    alignas(64) Loose<float> operand[kChunk];
    auto* dst = static_cast<Loose<uint16_t>*>(out);
    for (size_t at = 0; at < count; at += kChunk) {
      const size_t length = count - at < kChunk ? count - at : kChunk;
      Half::widen_all(sum, static_cast<const Loose<uint16_t>*>(in[0]) + at, length);
      for (int j = 1; j < k; j++) {
        Half::widen_all(operand, static_cast<const Loose<uint16_t>*>(in[j]) + at, length);
        const Loose<float>* pair[2] = {sum, operand};
        combine_loop<op, float, 2>(sum, pair, length, j + 1 == k ? divisor : 1);
      }
      Half::narrow_all(dst + at, sum, length);
    }
  }
};

void stream_copy(void* dst, const void* src, size_t bytes) {
#if defined(__x86_64__)
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
  size_t head = (64 - (reinterpret_cast<uintptr_t>(to) & 63)) & 63;
  head = head < bytes ? head : bytes;
  memcpy(to, from, head);
  size_t at = head;
#if defined(__AVX512F__)
  for (; at + 64 <= bytes; at += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
#else
  for (; at + 16 <= bytes; at += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
#endif
  memcpy(to + at, from + at, bytes - at);
#else
  memcpy(dst, src, bytes);
#endif
}

}  // namespace

#define AUTOTUNE_ROW(Kind)                                                                                    \
  {                                                                                                           \
    Kind::template reduce<Op::Sum>, Kind::template reduce<Op::Prod>, Kind::template reduce<Op::Max>,          \
        Kind::template reduce<Op::Min>, Kind::template reduce<Op::Sum>                                        \
  }

// The order of the rows is that of DType, the order inside a row that of Op.
extern const Arithmetic AUTOTUNE_TABLE(AUTOTUNE_VARIANT);
const Arithmetic AUTOTUNE_TABLE(AUTOTUNE_VARIANT) = {
    AUTOTUNE_NAME(AUTOTUNE_VARIANT),
    {AUTOTUNE_ROW(Plain<float>), AUTOTUNE_ROW(Plain<double>), AUTOTUNE_ROW(Widened<Float16>),
     AUTOTUNE_ROW(Widened<BFloat16>), AUTOTUNE_ROW(Plain<int8_t>), AUTOTUNE_ROW(Plain<uint8_t>),
     AUTOTUNE_ROW(Plain<int32_t>), AUTOTUNE_ROW(Plain<int64_t>)},
    stream_copy,
};

}  // namespace autotune
