// The loops of codec.h, written for the compiler's vectoriser; packing has intrinsics (codec_pack.h). Compiled several
// times with other -m flags, like reduce.cc and under the same rules (halves.h).
//
// A block is worked on in a copy in the first-level cache, which is padded with zeros to a whole one: loops have fixed
// lengths and no tails, and who changes elements or bytes meanwhile can spoil values, but nothing is read or written
// elsewhere. Arithmetic is in an order that does not depend on the vectors' length, so that all variants give the same
// bytes.
#include "codec.h"

#include "codec_pack.h"
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

constexpr size_t kWords = kCodecBlock / 64;
static_assert(kCodecBlock % 64 == 0, "bitmaps are made 64 entries at a time");

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

// ---- thresholds

// Bytes of a vector of partial sums: of one register, or of two where GCC then converts to double better (measured).
#if defined(__AVX512F__)
template <class Sum>
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX__)
template <class Sum>
constexpr size_t kVectorBytes = sizeof(Sum) == 8 ? 64 : 32;
#else
template <class Sum>
constexpr size_t kVectorBytes = 16;
#endif

// The sum of the squares of a block. 128 bytes of partial sums, which are then folded in halves: in as many vectors as
// that takes on a CPU, but always in the same order.
template <class Sum, class Wide>
inline double sum_of_squares(const Wide* x) {
  constexpr size_t kVectors = 128 / kVectorBytes<Sum>, kLanes = kVectorBytes<Sum> / sizeof(Sum);
  typedef Wide From __attribute__((vector_size(kLanes * sizeof(Wide))));
  typedef Sum To __attribute__((vector_size(kVectorBytes<Sum>)));
  To sums[kVectors] = {};
  for (size_t i = 0; i < kCodecBlock; i += kVectors * kLanes)
    for (size_t v = 0; v < kVectors; v++) {
      From entries;
      memcpy(&entries, x + i + v * kLanes, sizeof entries);
      const To wide = __builtin_convertvector(entries, To);
      sums[v] += wide * wide;
    }
  for (size_t half = kVectors / 2; half; half /= 2)
    for (size_t v = 0; v < half; v++) sums[v] += sums[v + half];
  Sum lanes[kLanes];
  memcpy(lanes, &sums[0], sizeof lanes);
  for (size_t half = kLanes / 2; half; half /= 2)
    for (size_t i = 0; i < half; i++) lanes[i] += lanes[i + half];
  return static_cast<double>(lanes[0]);
}

// The bits of the largest number of the type that is not above `value`, which is at least 0.
template <class E>
inline typename E::Bits largest_up_to(double value) {
  using Bits = typename E::Bits;
  constexpr Bits kLargest = E::kInfinity - 1;
  if (!(value < static_cast<double>(E::widen(kLargest)))) return kLargest;
  const Bits nearest = E::narrow(value);
  return static_cast<double>(E::widen(nearest)) > value ? static_cast<Bits>(nearest - 1) : nearest;
}

template <class E>
inline typename E::Bits relative_cutoff(double t, const char* from, size_t n) {
  alignas(64) typename E::Bits block[kCodecBlock];
  alignas(64) typename E::Wide wide[kCodecBlock];
  load_block(block, from, n);
  E::widen_all(wide, block, kCodecBlock);
  const double sum = sum_of_squares<typename E::Sum>(wide);
  if (!(sum - sum == 0)) return 0;  // not finite: only zeros are dropped
  return largest_up_to<E>(t * __builtin_sqrt(sum / static_cast<double>(n)));
}

template <class E, bool relative>
char* encode_threshold(double t, const void* from, size_t elements, char* wire) {
  using Bits = typename E::Bits;
  const char* source = static_cast<const char*>(from);
  const Bits absolute = largest_up_to<E>(t);
  // Cutoffs are computed a few blocks ahead: each is a long chain of operations, and chains overlap.
  constexpr size_t kAhead = 2;
  Bits cutoffs[kAhead];
  alignas(64) Bits block[kCodecBlock];
  for (size_t number = 0; elements; number++) {
    const size_t n = block_length(elements);
    if (relative && number % kAhead == 0)
      for (size_t i = 0, at = 0; i < kAhead && at < elements; i++, at += kCodecBlock)
        cutoffs[i] = relative_cutoff<E>(t, source + at * sizeof(Bits), block_length(elements - at));
    load_block(block, source, n);
    const Bits cutoff = relative ? cutoffs[number % kAhead] : absolute;
    uint64_t map[kWords];
    size_t kept = 0;
    for (size_t w = 0; w < kWords; w++) {
      map[w] = Vectors::above(block + 64 * w, cutoff);
      kept += static_cast<size_t>(__builtin_popcountll(map[w]));
    }
    const size_t map_bytes = (n + 7) / 8;
    if (map_bytes + kept * sizeof(Bits) < n * sizeof(Bits)) {
      wire = put_word(wire, static_cast<uint32_t>(kept));
      memcpy(wire, map, map_bytes);
      wire += map_bytes;
      for (size_t w = 0; w < kWords; w++)
        if (map[w]) wire = Vectors::pack(block + 64 * w, map[w], wire);
    } else {
      wire = put_dense(wire, block, n);
    }
    source += n * sizeof(Bits);
    elements -= n;
  }
  return wire;
}

template <class E>
const char* decode_threshold(const char* wire, const char* end, size_t elements, void* to) {
  using Bits = typename E::Bits;
  char* target = static_cast<char*>(to);
  alignas(64) Bits block[kCodecBlock];
  while (elements) {
    const size_t n = block_length(elements), bytes = n * sizeof(Bits), map_bytes = (n + 7) / 8;
    uint32_t kept;
    if (static_cast<size_t>(end - wire) < sizeof kept) return nullptr;
    memcpy(&kept, wire, sizeof kept);
    wire += sizeof kept;
    const auto left = static_cast<size_t>(end - wire);
    if (kept == kDense) {
      if (left < bytes) return nullptr;
      memcpy(target, wire, bytes);
      wire += bytes;
    } else {
      if (kept > n || left < map_bytes + kept * sizeof(Bits)) return nullptr;
      uint64_t map[kWords] = {};
      memcpy(map, wire, map_bytes);
      wire += map_bytes;
      size_t marked = 0;
      for (size_t w = 0; w < kWords; w++) marked += static_cast<size_t>(__builtin_popcountll(map[w]));
      if (marked != kept || (n % 8 && map[n / 64] >> n % 64)) return nullptr;
      for (size_t w = 0; w < kWords; w++)
        wire = static_cast<size_t>(end - wire) >= 64 * sizeof(Bits) && map[w]
                   ? Vectors::unpack(wire, map[w], block + 64 * w)
                   : Portable::unpack(wire, map[w], block + 64 * w);
      store_block(target, block, n);
    }
    target += bytes;
    elements -= n;
  }
  return wire;
}

// ---- codes

// Adding it leaves the nearest whole number, ties to even, in the lowest bits; for numbers far below its size.
template <class Wide>
constexpr Wide kRounder = sizeof(Wide) == 4 ? static_cast<Wide>(0x1.8p23) : static_cast<Wide>(0x1.8p52);

template <class Wide>
struct BitsOf {
  using type = uint32_t;
};
template <>
struct BitsOf<double> {
  using type = uint64_t;
};

// The largest magnitude of a block as bits of Wide: those of Inf or above if an entry is not finite.
template <class Wide>
inline typename BitsOf<Wide>::type largest_magnitude(const Wide* x) {
  using Bits = typename BitsOf<Wide>::type;
  Bits largest = 0;
  for (size_t i = 0; i < kCodecBlock; i++) {
    Bits bits;
    memcpy(&bits, x + i, sizeof bits);
    bits &= kMagnitude<Bits>;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

template <int levels>
inline size_t code_bytes(size_t n) {
  return levels > 7 ? n : (n + 1) / 2;
}

// codes[i] = code i as a signed byte, or plus 8 for Int4.
template <int levels, class Wide>
inline void quantise(uint8_t* codes, const Wide* x, Wide scale) {
  constexpr uint8_t kOffset = levels > 7 ? 0 : 8;
  for (size_t i = 0; i < kCodecBlock; i++) {
    const Wide shifted = x[i] * scale + kRounder<Wide>;
    typename BitsOf<Wide>::type bits;
    memcpy(&bits, &shifted, sizeof bits);
    codes[i] = static_cast<uint8_t>(static_cast<uint8_t>(bits) + kOffset);
  }
}

template <class E, int levels>
char* encode_codes(double, const void* from, size_t elements, char* wire) {
  using Bits = typename E::Bits;
  using Wide = typename E::Wide;
  const char* source = static_cast<const char*>(from);
  alignas(64) Bits block[kCodecBlock];
  alignas(64) Wide wide[kCodecBlock];
  alignas(64) uint8_t codes[kCodecBlock];
  while (elements) {
    const size_t n = block_length(elements);
    load_block(block, source, n);
    E::widen_all(wide, block, kCodecBlock);
    const auto largest = largest_magnitude(wide);
    Wide magnitude;
    memcpy(&magnitude, &largest, sizeof magnitude);
    const float peak = static_cast<float>(magnitude);
    if (largest == 0) {
      wire = put_word(wire, 0);
    } else if (!(peak >= E::kLeastPeak && peak < kPeakLimit)) {  // NaN too
      wire = put_dense(wire, block, n);
    } else {
      uint32_t word;
      memcpy(&word, &peak, sizeof word);
      wire = put_word(wire, word);
      quantise<levels>(codes, wide, static_cast<Wide>(levels) / static_cast<Wide>(peak));
      if constexpr (levels <= 7) {
        const auto pair_up = [&](size_t half) {
          for (size_t i = 0; i < half; i++) codes[i] |= static_cast<uint8_t>(codes[i + half] << 4);
        };
        if (n == kCodecBlock) pair_up(kCodecBlock / 2);  // a fixed length is vectorised better
        else pair_up((n + 1) / 2);
      }
      memcpy(wire, codes, code_bytes<levels>(n));
      wire += code_bytes<levels>(n);
    }
    source += n * sizeof(Bits);
    elements -= n;
  }
  return wire;
}

template <class E, int levels>
const char* decode_codes(const char* wire, const char* end, size_t elements, void* to) {
  using Bits = typename E::Bits;
  using Wide = typename E::Wide;
  char* target = static_cast<char*>(to);
  alignas(64) Bits block[kCodecBlock];
  alignas(64) Wide wide[kCodecBlock];
  alignas(64) int8_t codes[kCodecBlock];
  while (elements) {
    const size_t n = block_length(elements), bytes = n * sizeof(Bits);
    uint32_t word;
    if (static_cast<size_t>(end - wire) < sizeof word) return nullptr;
    memcpy(&word, wire, sizeof word);
    wire += sizeof word;
    const auto left = static_cast<size_t>(end - wire);
    if (word == kDense) {
      if (left < bytes) return nullptr;
      memcpy(target, wire, bytes);
      wire += bytes;
    } else if (word == 0) {
      memset(target, 0, bytes);
    } else {
      float peak;
      memcpy(&peak, &word, sizeof peak);
      if (!(peak >= E::kLeastPeak && peak < kPeakLimit) || left < code_bytes<levels>(n)) return nullptr;
      if constexpr (levels > 7) {
        memcpy(codes, wire, n);
      } else {
        uint8_t packed[kCodecBlock / 2];
        memcpy(packed, wire, code_bytes<levels>(n));
        const auto spread = [&](size_t half) {
          for (size_t i = 0; i < half; i++) codes[i] = static_cast<int8_t>((packed[i] & 15) - 8);
          for (size_t i = 0; i < half; i++) codes[i + half] = static_cast<int8_t>((packed[i] >> 4) - 8);
        };
        if (n == kCodecBlock) spread(kCodecBlock / 2);
        else spread((n + 1) / 2);
      }
      wire += code_bytes<levels>(n);
      // The outermost code is multiplied by exactly 1, so that the largest magnitude stays what it is (codec.h).
      constexpr Wide kPart = static_cast<Wide>(1) / levels;
      static_assert(kPart * levels == 1);
      if (n < kCodecBlock) memset(codes + n, 0, kCodecBlock - n);
      for (size_t i = 0; i < kCodecBlock; i++)
        wide[i] = static_cast<Wide>(codes[i]) * kPart * static_cast<Wide>(peak);
      E::narrow_all(block, wide, kCodecBlock);
      store_block(target, block, n);
    }
    target += bytes;
    elements -= n;
  }
  return wire;
}

// ---- residuals

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
