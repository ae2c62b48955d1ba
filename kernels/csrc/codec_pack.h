// Bitmaps of 64 entries: which magnitudes are above a cutoff, taking the marked entries out, and putting them back.
//
// Entries are the bits of IEEE numbers, of which magnitudes compare like unsigned integers, NaN and Inf above all
// others. For codec_kernels.cc only, see halves.h on why. The portable form comes first; the intrinsics below it give
// the same bytes. Compressing straight to memory is avoided: it is very slow on some CPUs (AMD Zen 4).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace autotune {
namespace {

// All bits of a number but its sign.
template <class Bits>
constexpr Bits kMagnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);

struct Portable {
  // Bit i: the magnitude of x[i] is above the cutoff.
  template <class Bits>
  static inline uint64_t above(const Bits* x, Bits cutoff) {
    uint8_t keep[64];
    for (size_t i = 0; i < 64; i++) keep[i] = static_cast<Bits>(x[i] & kMagnitude<Bits>) > cutoff;
    uint64_t word = 0;
    for (size_t i = 0; i < 64; i += 8) {
      uint64_t eight;
      memcpy(&eight, keep + i, 8);
      // Eight bytes of 0 or 1 become the top byte of the product, the first one its lowest bit.
      word |= eight * 0x0102040810204080u >> 56 << i;
    }
    return word;
  }

  // Writes the marked entries of x and returns their end. A vector form may write up to 64 bytes more.
  template <class Bits>
  static inline char* pack(const Bits* x, uint64_t word, char* to) {
    for (; word; word &= word - 1, to += sizeof(Bits)) memcpy(to, x + __builtin_ctzll(word), sizeof(Bits));
    return to;
  }

  // All of x: the marked entries from `from` on, zeros between them. Returns the end of what it took.
  template <class Bits>
  static inline const char* unpack(const char* from, uint64_t word, Bits* x) {
    memset(x, 0, 64 * sizeof(Bits));
    for (; word; word &= word - 1, from += sizeof(Bits)) memcpy(x + __builtin_ctzll(word), from, sizeof(Bits));
    return from;
  }
};

#if defined(__AVX512BW__) && defined(__AVX512VL__)

// Vector forms of unpack() may read up to 64 entries from `from` on.
struct Vectors {
  static inline uint64_t above(const uint16_t* x, uint16_t cutoff) {
    const __m512i magnitude = _mm512_set1_epi16(0x7FFF), limit = _mm512_set1_epi16(static_cast<short>(cutoff));
    uint64_t word = 0;
    for (int i = 0; i < 64; i += 32)
      word |= static_cast<uint64_t>(
                  _mm512_cmpgt_epu16_mask(_mm512_and_si512(_mm512_loadu_si512(x + i), magnitude), limit))
              << i;
    return word;
  }
  static inline uint64_t above(const uint32_t* x, uint32_t cutoff) {
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF), limit = _mm512_set1_epi32(static_cast<int>(cutoff));
    uint64_t word = 0;
    for (int i = 0; i < 64; i += 16)
      word |= static_cast<uint64_t>(
                  _mm512_cmpgt_epu32_mask(_mm512_and_si512(_mm512_loadu_si512(x + i), magnitude), limit))
              << i;
    return word;
  }
  static inline uint64_t above(const uint64_t* x, uint64_t cutoff) {
    const __m512i magnitude = _mm512_set1_epi64(0x7FFFFFFFFFFFFFFF);
    const __m512i limit = _mm512_set1_epi64(static_cast<long long>(cutoff));
    uint64_t word = 0;
    for (int i = 0; i < 64; i += 8)
      word |= static_cast<uint64_t>(
                  _mm512_cmpgt_epu64_mask(_mm512_and_si512(_mm512_loadu_si512(x + i), magnitude), limit))
              << i;
    return word;
  }

  static inline char* pack(const uint16_t* x, uint64_t word, char* to) {  // 16-bit compression needs VBMI2: widened
    for (int i = 0; i < 64; i += 16) {
      const auto mask = static_cast<__mmask16>(word >> i);
      const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(mask, wide)));
      to += 2 * __builtin_popcount(mask);
    }
    return to;
  }
  static inline char* pack(const uint32_t* x, uint64_t word, char* to) {
    for (int i = 0; i < 64; i += 16) {
      const auto mask = static_cast<__mmask16>(word >> i);
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, _mm512_loadu_si512(x + i)));
      to += 4 * __builtin_popcount(mask);
    }
    return to;
  }
  static inline char* pack(const uint64_t* x, uint64_t word, char* to) {
    for (int i = 0; i < 64; i += 8) {
      const auto mask = static_cast<__mmask8>(word >> i);
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(mask, _mm512_loadu_si512(x + i)));
      to += 8 * __builtin_popcount(mask);
    }
    return to;
  }

  static inline const char* unpack(const char* from, uint64_t word, uint16_t* x) {
    for (int i = 0; i < 64; i += 16) {
      const auto mask = static_cast<__mmask16>(word >> i);
      const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(x + i),
                          _mm512_cvtepi32_epi16(_mm512_maskz_expand_epi32(mask, wide)));
      from += 2 * __builtin_popcount(mask);
    }
    return from;
  }
  static inline const char* unpack(const char* from, uint64_t word, uint32_t* x) {
    for (int i = 0; i < 64; i += 16) {
      const auto mask = static_cast<__mmask16>(word >> i);
      _mm512_storeu_si512(x + i, _mm512_maskz_expand_epi32(mask, _mm512_loadu_si512(from)));
      from += 4 * __builtin_popcount(mask);
    }
    return from;
  }
  static inline const char* unpack(const char* from, uint64_t word, uint64_t* x) {
    for (int i = 0; i < 64; i += 8) {
      const auto mask = static_cast<__mmask8>(word >> i);
      _mm512_storeu_si512(x + i, _mm512_maskz_expand_epi64(mask, _mm512_loadu_si512(from)));
      from += 8 * __builtin_popcount(mask);
    }
    return from;
  }
};

#elif defined(__AVX2__)

// For each byte of a bitmap: the places of its ones, and for each place how many ones are before it.
struct Places {
  uint8_t ones[256][8];
  uint8_t before[256][8];
};
constexpr Places kPlaces = [] {
  Places places{};
  for (int mask = 0; mask < 256; mask++)
    for (int i = 0, n = 0; i < 8; i++) {
      places.before[mask][i] = static_cast<uint8_t>(n);
      if (mask >> i & 1) places.ones[mask][n++] = static_cast<uint8_t>(i);
    }
  return places;
}();

struct Vectors {
  static inline __m256i load(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }

  static inline uint64_t above(const uint16_t* x, uint16_t cutoff) {
    const __m256i magnitude = _mm256_set1_epi16(0x7FFF), limit = _mm256_set1_epi16(static_cast<short>(cutoff));
    uint64_t word = 0;
    for (int i = 0; i < 64; i += 32) {
      const __m256i low = _mm256_cmpgt_epi16(_mm256_and_si256(load(x + i), magnitude), limit);
      const __m256i high = _mm256_cmpgt_epi16(_mm256_and_si256(load(x + i + 16), magnitude), limit);
      const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
      word |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(both))) << i;
    }
    return word;
  }
  static inline uint64_t above(const uint32_t* x, uint32_t cutoff) {
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF), limit = _mm256_set1_epi32(static_cast<int>(cutoff));
    uint64_t word = 0;
    for (int i = 0; i < 64; i += 8) {
      const __m256i kept = _mm256_cmpgt_epi32(_mm256_and_si256(load(x + i), magnitude), limit);
      word |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(kept)))) << i;
    }
    return word;
  }
  static inline uint64_t above(const uint64_t* x, uint64_t cutoff) {
    const __m256i magnitude = _mm256_set1_epi64x(0x7FFFFFFFFFFFFFFF);
    const __m256i limit = _mm256_set1_epi64x(static_cast<long long>(cutoff));
    uint64_t word = 0;
    for (int i = 0; i < 64; i += 4) {
      const __m256i kept = _mm256_cmpgt_epi64(_mm256_and_si256(load(x + i), magnitude), limit);
      word |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(kept)))) << i;
    }
    return word;
  }

  static inline __m128i bytes(const uint8_t* eight) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(eight)); }
  // Byte shuffles of 16-bit places, and 32-bit permutations of 64-bit ones.
  static inline __m128i pairs(const uint8_t* places) {
    return _mm_add_epi16(_mm_mullo_epi16(_mm_cvtepu8_epi16(bytes(places)), _mm_set1_epi16(0x0202)),
                         _mm_set1_epi16(0x0100));
  }
  static inline __m256i doubles(const uint8_t* places) {
    const __m256i wide = _mm256_cvtepu8_epi64(bytes(places));
    return _mm256_add_epi64(_mm256_add_epi64(_mm256_slli_epi64(wide, 1), _mm256_slli_epi64(wide, 33)),
                            _mm256_set1_epi64x(1LL << 32));
  }

  static inline char* pack(const uint16_t* x, uint64_t word, char* to) {
    for (int i = 0; i < 64; i += 8) {
      const unsigned mask = word >> i & 0xFF;
      const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(all, pairs(kPlaces.ones[mask])));
      to += 2 * __builtin_popcount(mask);
    }
    return to;
  }
  static inline char* pack(const uint32_t* x, uint64_t word, char* to) {
    for (int i = 0; i < 64; i += 8) {
      const unsigned mask = word >> i & 0xFF;
      const __m256i places = _mm256_cvtepu8_epi32(bytes(kPlaces.ones[mask]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(load(x + i), places));
      to += 4 * __builtin_popcount(mask);
    }
    return to;
  }
  static inline char* pack(const uint64_t* x, uint64_t word, char* to) {
    for (int i = 0; i < 64; i += 4) {
      const unsigned mask = word >> i & 0xF;
      const __m256i places = doubles(kPlaces.ones[mask]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(load(x + i), places));
      to += 8 * __builtin_popcount(mask);
    }
    return to;
  }

  static inline const char* unpack(const char* from, uint64_t word, uint16_t* x) {
    const __m128i bits = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128);
    for (int i = 0; i < 64; i += 8) {
      const unsigned mask = word >> i & 0xFF;
      const __m128i spread = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)),
                                              pairs(kPlaces.before[mask]));
      const __m128i kept = _mm_cmpeq_epi16(_mm_and_si128(_mm_set1_epi16(static_cast<short>(mask)), bits), bits);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(x + i), _mm_and_si128(spread, kept));
      from += 2 * __builtin_popcount(mask);
    }
    return from;
  }
  static inline const char* unpack(const char* from, uint64_t word, uint32_t* x) {
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int i = 0; i < 64; i += 8) {
      const unsigned mask = word >> i & 0xFF;
      const __m256i places = _mm256_cvtepu8_epi32(bytes(kPlaces.before[mask]));
      const __m256i kept = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(mask)), bits), bits);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(x + i),
                          _mm256_and_si256(_mm256_permutevar8x32_epi32(load(from), places), kept));
      from += 4 * __builtin_popcount(mask);
    }
    return from;
  }
  static inline const char* unpack(const char* from, uint64_t word, uint64_t* x) {
    const __m256i bits = _mm256_setr_epi64x(1, 2, 4, 8);
    for (int i = 0; i < 64; i += 4) {
      const unsigned mask = word >> i & 0xF;
      const __m256i kept = _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(mask), bits), bits);
      const __m256i spread = _mm256_permutevar8x32_epi32(load(from), doubles(kPlaces.before[mask]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(x + i), _mm256_and_si256(spread, kept));
      from += 8 * __builtin_popcount(mask);
    }
    return from;
  }
};

#else

using Vectors = Portable;

#endif

}  // namespace
}  // namespace autotune
