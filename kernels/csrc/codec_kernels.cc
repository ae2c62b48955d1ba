// The loops of codec.h, written for the compiler's vectoriser; packing has intrinsics (codec_pack.h), the kinds have
// a header each. Compiled several times with other -m flags, like reduce.cc and under the same rules (halves.h).
//
// A block is worked on in a copy in the first-level cache, which is padded with zeros to a whole one: loops have fixed
// lengths and no tails, and who changes elements or bytes meanwhile can spoil values, but nothing is read or written
// elsewhere. Arithmetic is in an order that does not depend on the vectors' length, so that all variants give the same
// bytes.
#include "codec.h"

#include "codec_codes.h"
#include "codec_thresholds.h"
#include "codec_types.h"
#include "halves.h"

#ifndef AUTOTUNE_VARIANT
#define AUTOTUNE_VARIANT baseline
#endif
#define AUTOTUNE_TABLE_(variant) codec_kernels_##variant
#define AUTOTUNE_TABLE(variant) AUTOTUNE_TABLE_(variant)
#define AUTOTUNE_NAME_(variant) #variant
#define AUTOTUNE_NAME(variant) AUTOTUNE_NAME_(variant)

namespace autotune {
namespace {

template <class Wide>
inline Wide if_finite(Wide value) {
  return value - value == 0 ? value : 0;
}

template <class E>
void collect(const void* before, const void* after, double weight, void* residual, size_t elements) {
  using Bits = typename E::Bits;
  using Wide = typename E::Wide;
  const auto* old_bits = static_cast<const char*>(before);
  const auto* new_bits = static_cast<const char*>(after);
  auto* sums = static_cast<Loose<Wide>*>(residual);
  const auto by = static_cast<Wide>(weight);
  alignas(64) Bits block[kCodecBlock];
  alignas(64) Wide was[kCodecBlock], is[kCodecBlock];
  for (size_t first = 0; first < elements; first += kCodecBlock) {
    const size_t n = block_length(elements - first);
    load_block(block, old_bits + first * sizeof(Bits), n);
    E::widen_all(was, block, kCodecBlock);
    load_block(block, new_bits + first * sizeof(Bits), n);
    E::widen_all(is, block, kCodecBlock);
    for (size_t i = 0; i < n; i++) sums[first + i].value += if_finite(by * (was[i] - is[i]));
  }
}

template <class E>
void correct(const void* values, void* residual, void* corrected, size_t elements) {
  using Bits = typename E::Bits;
  using Wide = typename E::Wide;
  const auto* source = static_cast<const char*>(values);
  auto* target = static_cast<char*>(corrected);
  auto* left = static_cast<Loose<Wide>*>(residual);
  alignas(64) Bits block[kCodecBlock];
  alignas(64) Wide sum[kCodecBlock], rounded[kCodecBlock];
  for (size_t first = 0; first < elements; first += kCodecBlock) {
    const size_t n = block_length(elements - first);
    load_block(block, source + first * sizeof(Bits), n);
    E::widen_all(sum, block, kCodecBlock);
    // The addition's own rounding error is a number, too (Knuth, The Art of Computer Programming 2, section 4.2.2).
    for (size_t i = 0; i < n; i++) {
      const Wide a = sum[i], b = left[first + i].value, s = a + b, b_seen = s - a;
      sum[i] = s;
      left[first + i].value = (a - (s - b_seen)) + (b - b_seen);
    }
    E::narrow_all(block, sum, kCodecBlock);
    E::widen_all(rounded, block, kCodecBlock);
    for (size_t i = 0; i < n; i++)
      left[first + i].value = if_finite(left[first + i].value + (sum[i] - rounded[i]));
    store_block(target + first * sizeof(Bits), block, n);
  }
}

}  // namespace

#define AUTOTUNE_TYPES(function, ...) \
  { function<F32 __VA_ARGS__>, function<F64 __VA_ARGS__>, function<F16 __VA_ARGS__>, function<BF16 __VA_ARGS__> }
#define AUTOTUNE_WITH(argument) , argument

// The order of the rows is that of CodecKind, the order inside a row that of DType.
extern const CodecKernels AUTOTUNE_TABLE(AUTOTUNE_VARIANT);
const CodecKernels AUTOTUNE_TABLE(AUTOTUNE_VARIANT) = {
    AUTOTUNE_NAME(AUTOTUNE_VARIANT),
    {AUTOTUNE_TYPES(encode_threshold, AUTOTUNE_WITH(true)), AUTOTUNE_TYPES(encode_threshold, AUTOTUNE_WITH(false)),
     AUTOTUNE_TYPES(encode_codes, AUTOTUNE_WITH(127)), AUTOTUNE_TYPES(encode_codes, AUTOTUNE_WITH(7))},
    {AUTOTUNE_TYPES(decode_threshold), AUTOTUNE_TYPES(decode_threshold),
     AUTOTUNE_TYPES(decode_codes, AUTOTUNE_WITH(127)), AUTOTUNE_TYPES(decode_codes, AUTOTUNE_WITH(7))},
    AUTOTUNE_TYPES(collect),
    AUTOTUNE_TYPES(correct),
};

}  // namespace autotune
