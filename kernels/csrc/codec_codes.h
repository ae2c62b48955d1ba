// int8 and int4: a block is its scale and a code for each entry, or the dense block where an entry is not finite.
//
// For codec_kernels.cc only, see halves.h on why everything is in an anonymous namespace.
#pragma once

#include "codec_pack.h"
#include "codec_types.h"

namespace autotune {
namespace {

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

}  // namespace
}  // namespace autotune
