// Thresholds: a block is a bitmap of the entries that pass and these packed, or the dense block where that is smaller.
//
// For codec_kernels.cc only, see halves.h on why everything is in an anonymous namespace.
#pragma once

#include "codec_pack.h"
#include "codec_types.h"

namespace autotune {
namespace {

constexpr size_t kWords = kCodecBlock / 64;
static_assert(kCodecBlock % 64 == 0, "bitmaps are made 64 entries at a time");

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

}  // namespace
}  // namespace autotune
