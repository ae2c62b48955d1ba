// Results past the caches, in one pass: what is combined leaves at once for memory, and for a message through the caches.
//
// In: operands in any memory. Out: results in memory, which others see after a store_fence(). For reduce.cc alone, under its
// rules.
//
// A pass of its own over a tile that was combined before waits for memory twice: the reads of the next tile cannot start
// while the stores of this one fill the core's buffers. 2 ranks of an Intel Xeon, all_reduce of 16 and 64 MiB between private
// buffers: 1.2 times as fast in one pass (docs/peers.md).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "combining.h"
#include "halves.h"

namespace autotune {
namespace {

constexpr size_t kLine = 64;

inline size_t to_next_line(const void* at) { return (kLine - (reinterpret_cast<uintptr_t>(at) & (kLine - 1))) & (kLine - 1); }

// `bytes` is a multiple of a line, and `to` the start of one.
inline void stream_lines(char* to, const char* from, size_t bytes) {
#if defined(__AVX512F__)
  for (size_t at = 0; at < bytes; at += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
#elif defined(__x86_64__)
  for (size_t at = 0; at < bytes; at += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
#else
  memcpy(to, from, bytes);
#endif
}

// Into the second-level cache.
inline void fetch_lines(const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at, 0, 2);
}

inline void stream_copy(void* dst, const void* src, size_t bytes, const void* ahead) {
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
  const size_t head = to_next_line(to) < bytes ? to_next_line(to) : bytes;
  const size_t lines = (bytes - head) / kLine * kLine;
  memcpy(to, from, head);
  if (ahead) {
    for (size_t at = 0; at < lines; at += kLine) {
      fetch_lines(static_cast<const char*>(ahead) + at, kLine);
      stream_lines(to + head + at, from + head + at, kLine);
    }
  } else {
    stream_lines(to + head, from + head, lines);
  }
  memcpy(to + head + lines, from + head + lines, bytes - head - lines);
}

// The part of an instruction that is whole lines of every target, from element `at` on: up to four sources of a plain type,
// a piece at a time in registers. Returns how far it came.
template <Op op, class T, int K>
inline size_t combine_streamed(void* const* out, int m, void* message, const void* const* in, size_t at, size_t count,
                               const void* ahead) {
  constexpr size_t kPiece = 256 / sizeof(T);
  const auto* s0 = static_cast<const Loose<T>*>(in[0]);
  const auto* s1 = static_cast<const Loose<T>*>(in[1]);
  const auto* s2 = static_cast<const Loose<T>*>(in[K > 2 ? 2 : 0]);
  const auto* s3 = static_cast<const Loose<T>*>(in[K > 3 ? 3 : 0]);
  for (; at + kPiece <= count; at += kPiece) {
    alignas(kLine) T piece[kPiece];
    if (ahead) fetch_lines(static_cast<const char*>(ahead) + at * sizeof(T), sizeof piece);
    for (size_t i = 0; i < kPiece; i++) {
      T value = combine<op>(s0[at + i].value, s1[at + i].value);
      if (K > 2) value = combine<op>(value, s2[at + i].value);
      if (K > 3) value = combine<op>(value, s3[at + i].value);
      piece[i] = value;
    }
    for (int j = 0; j < m; j++)
      stream_lines(reinterpret_cast<char*>(static_cast<Loose<T>*>(out[j]) + at), reinterpret_cast<const char*>(piece), sizeof piece);
    if (message) memcpy(static_cast<Loose<T>*>(message) + at, piece, sizeof piece);
  }
  return at;
}

template <class Kind, class T, Op op, bool plain>
void reduce_streamed(void* const* out, int m, void* message, const void* const* in, int k, size_t count, int divisor,
                     const void* ahead) {
  size_t at = 0;
  const auto some = [&](size_t most) {  // any length, any place
    constexpr size_t kPiece = 4096 / sizeof(T);
    Loose<T> piece[kPiece];
    while (at < most) {
      const size_t length = most - at < kPiece ? most - at : kPiece;
      if (ahead) fetch_lines(static_cast<const char*>(ahead) + at * sizeof(T), length * sizeof(T));
      Kind::template reduce<op>(piece, in, k, at, length, divisor);
      for (int j = 0; j < m; j++) stream_copy(static_cast<Loose<T>*>(out[j]) + at, piece, length * sizeof(T), nullptr);
      if (message) memcpy(static_cast<Loose<T>*>(message) + at, piece, length * sizeof(T));
      at += length;
    }
  };
  if constexpr (plain) {
    bool alike = to_next_line(out[0]) % sizeof(T) == 0;
    for (int j = 1; j < m; j++) alike = alike && to_next_line(out[j]) == to_next_line(out[0]);
    if (alike && k <= 4 && divisor == 1) {
      const size_t head = to_next_line(out[0]) / sizeof(T);
      some(head < count ? head : count);
      if (k == 2) at = combine_streamed<op, T, 2>(out, m, message, in, at, count, ahead);
      if (k == 3) at = combine_streamed<op, T, 3>(out, m, message, in, at, count, ahead);
      if (k == 4) at = combine_streamed<op, T, 4>(out, m, message, in, at, count, ahead);
    }
  }
  some(count);
}

}  // namespace
}  // namespace autotune
