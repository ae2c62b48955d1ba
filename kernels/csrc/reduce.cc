// The loops of reduce.h, written for the compiler's vectoriser. Compiled several times with other -m flags; everything
// here therefore lives in an anonymous namespace and uses no inline function of the standard library, which the linker
// could otherwise share with code that must run on every CPU.
#include "reduce.h"

#include <string.h>

#include "combining.h"
#include "half_sums.h"
#include "streamed.h"

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

template <bool first, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
};

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
  static void reduce(void* out, const void* const* in, int k, size_t first, size_t count, int divisor) {
    auto* dst = static_cast<Loose<T>*>(out);
    const Loose<T>* part[4];
    if (k <= 4) {
      for (int j = 0; j < k; j++) part[j] = static_cast<const Loose<T>*>(in[j]) + first;
      combine_up_to_4<op, T>(dst, part, k, count, divisor);
      return;
    }
    alignas(64) Loose<T> sum[kTile];
    for (size_t at = 0; at < count; at += kTile) {
      const size_t length = count - at < kTile ? count - at : kTile;
      for (int j = 0; j < 4; j++) part[j] = static_cast<const Loose<T>*>(in[j]) + first + at;
      combine_up_to_4<op, T>(sum, part, 4, length, 1);
      // dst is written by the last round only, so that a source that is dst is still whole when its turn comes.
      for (int next = 4; next < k; next += 3) {
        const int more = k - next < 3 ? k - next : 3;
        const bool last = next + more == k;
        part[0] = sum;
        for (int j = 0; j < more; j++) part[j + 1] = static_cast<const Loose<T>*>(in[next + j]) + first + at;
        combine_up_to_4<op, T>(last ? dst + at : sum, part, more + 1, length, last ? divisor : 1);
      }
    }
  }
};

// The result to several places. Pieces are small, so that the reads of the next one overlap with the stores of this one:
// over symmetric memory both go to lines that another core holds, and a pass of its own for each would wait twice. A piece
// of a plain type and up to four sources stays in registers (measured: 2x over pieces of 1 KiB on the stack); with more
// sources the accumulator is on the stack, and 4 KiB are 1.2x over 1 KiB.
template <Op op, class T, int K>
inline size_t combine_to_all(void* const* out, int m, const void* const* in, size_t count) {
  constexpr size_t kPiece = 256 / sizeof(T);
  const auto* s0 = static_cast<const Loose<T>*>(in[0]);
  const auto* s1 = static_cast<const Loose<T>*>(in[1]);
  const auto* s2 = static_cast<const Loose<T>*>(in[K > 2 ? 2 : 0]);
  const auto* s3 = static_cast<const Loose<T>*>(in[K > 3 ? 3 : 0]);
  size_t at = 0;
  for (; at + kPiece <= count; at += kPiece) {
    T piece[kPiece];
    for (size_t i = 0; i < kPiece; i++) {
      T value = combine<op>(s0[at + i].value, s1[at + i].value);
      if (K > 2) value = combine<op>(value, s2[at + i].value);
      if (K > 3) value = combine<op>(value, s3[at + i].value);
      piece[i] = value;
    }
    for (int j = 0; j < m; j++) memcpy(static_cast<Loose<T>*>(out[j]) + at, piece, sizeof piece);
  }
  return at;
}

// Two ranks: one pass, two stores an element.
template <Op op, class T>
inline void combine_pair_to_both(void* const* out, const void* const* in, size_t count) {
  auto *d0 = static_cast<Loose<T>*>(out[0]), *d1 = static_cast<Loose<T>*>(out[1]);
  const auto *s0 = static_cast<const Loose<T>*>(in[0]), *s1 = static_cast<const Loose<T>*>(in[1]);
#pragma GCC ivdep
  for (size_t i = 0; i < count; i++) {
    const T value = combine<op>(s0[i].value, s1[i].value);
    d0[i].value = value;
    d1[i].value = value;
  }
}

template <class Kind, class T, Op op, bool plain>
void reduce_to_all(void* const* out, int m, const void* const* in, int k, size_t count, int divisor) {
  size_t at = 0;
  if constexpr (plain) {
    if (k == 2 && m == 2 && divisor == 1) return combine_pair_to_both<op, T>(out, in, count);
    if (k == 2 && divisor == 1) at = combine_to_all<op, T, 2>(out, m, in, count);
    if (k == 3 && divisor == 1) at = combine_to_all<op, T, 3>(out, m, in, count);
    if (k == 4 && divisor == 1) at = combine_to_all<op, T, 4>(out, m, in, count);
  }
  constexpr size_t kPiece = 4096 / sizeof(T);
  Loose<T> piece[kPiece];
  for (; at < count; at += kPiece) {
    const size_t length = count - at < kPiece ? count - at : kPiece;
    Kind::template reduce<op>(piece, in, k, at, length, divisor);
    for (int j = 0; j < m; j++) memcpy(static_cast<Loose<T>*>(out[j]) + at, piece, length * sizeof(T));
  }
}

}  // namespace

#define AUTOTUNE_ROW(Kind, T, plain)                                                                          \
  {                                                                                                           \
    Kind::template reduce<Op::Sum>, Kind::template reduce<Op::Prod>, Kind::template reduce<Op::Max>,          \
        Kind::template reduce<Op::Min>, Kind::template reduce<Op::Sum>                                        \
  }
#define AUTOTUNE_ROW_TO_ALL(Kind, T, plain)                                                                   \
  {                                                                                                           \
    reduce_to_all<Kind, T, Op::Sum, plain>, reduce_to_all<Kind, T, Op::Prod, plain>,                          \
        reduce_to_all<Kind, T, Op::Max, plain>, reduce_to_all<Kind, T, Op::Min, plain>,                       \
        reduce_to_all<Kind, T, Op::Sum, plain>                                                                \
  }

#define AUTOTUNE_ROW_STREAMED(Kind, T, plain)                                                                 \
  {                                                                                                           \
    reduce_streamed<Kind, T, Op::Sum, plain>, reduce_streamed<Kind, T, Op::Prod, plain>,                      \
        reduce_streamed<Kind, T, Op::Max, plain>, reduce_streamed<Kind, T, Op::Min, plain>,                   \
        reduce_streamed<Kind, T, Op::Sum, plain>                                                              \
  }
#define AUTOTUNE_ROWS(ROW)                                                                                    \
  {                                                                                                           \
    ROW(Plain<float>, float, true), ROW(Plain<double>, double, true), ROW(Widened<Float16>, uint16_t, false), \
        ROW(Widened<BFloat16>, uint16_t, false), ROW(Plain<int8_t>, int8_t, true),                            \
        ROW(Plain<uint8_t>, uint8_t, true), ROW(Plain<int32_t>, int32_t, true),                               \
        ROW(Plain<int64_t>, int64_t, true)                                                                    \
  }

// The order of the rows is that of DType, the order inside a row that of Op.
extern const Arithmetic AUTOTUNE_TABLE(AUTOTUNE_VARIANT);
const Arithmetic AUTOTUNE_TABLE(AUTOTUNE_VARIANT) = {
    AUTOTUNE_NAME(AUTOTUNE_VARIANT),
    AUTOTUNE_ROWS(AUTOTUNE_ROW), AUTOTUNE_ROWS(AUTOTUNE_ROW_TO_ALL), AUTOTUNE_ROWS(AUTOTUNE_ROW_STREAMED),
    stream_copy,
};

}  // namespace autotune
