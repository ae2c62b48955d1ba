/* Inputs whose results are exact, and the check of outputs: element i of rank r's input in batch b is
 * (i + 13 r + 5 b) mod 61, as in kernels/csrc/pattern.h; for products 1 or 2, by whether that is even. Whole numbers wrap.
 * Buffers are filled and compared a period at a time. */
#ifndef AUTOTUNE_MPI_INPUTS_H
#define AUTOTUNE_MPI_INPUTS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sampler.h"

enum { MODULUS = 61, TILE = MODULUS * 134, LARGEST_ITEM = 8 }; /* 32 KiB of floats */

static size_t item_bytes(enum element element) {
  switch (element) {
    case INT8:
    case UINT8: return 1;
    case FLOAT32:
    case INT32: return 4;
    case FLOAT64:
    case INT64: return 8;
  }
  return 0;
}

/* Element number `at`, combined over ranks [from, to). Exact in a double as far as floats are concerned. */
static double combined(enum reduction reduction, int from, int to, size_t at, int batch) {
  double result = reduction == PROD ? 1 : 0;
  for (int r = from; r < to; r++) {
    const double value = (double)((at + 13 * (size_t)r + 5 * (size_t)batch) % MODULUS);
    if (reduction == SUM) result += value;
    else if (reduction == PROD) result *= 1 + (size_t)value % 2;
    else if (value > result) result = value;
  }
  return result;
}

static void store(void *items, size_t at, enum element element, double value) {
  switch (element) {
    case FLOAT32: ((float *)items)[at] = (float)value; break;
    case FLOAT64: ((double *)items)[at] = value; break;
    case INT8:
    case UINT8: ((uint8_t *)items)[at] = (uint8_t)(uint64_t)value; break;
    case INT32: ((uint32_t *)items)[at] = (uint32_t)(uint64_t)value; break;
    case INT64: ((uint64_t *)items)[at] = (uint64_t)value; break;
  }
}

static double load(const void *items, size_t at, enum element element) {
  switch (element) {
    case FLOAT32: return (double)((const float *)items)[at];
    case FLOAT64: return ((const double *)items)[at];
    case INT8: return (double)((const int8_t *)items)[at];
    case UINT8: return (double)((const uint8_t *)items)[at];
    case INT32: return (double)((const int32_t *)items)[at];
    case INT64: return (double)((const int64_t *)items)[at];
  }
  return 0;
}

/* What a buffer holds: a tile of elements `first`, `first + 1` ... combined over ranks [from, to). */
struct pattern {
  enum element element;
  enum reduction reduction;
  int batch;
};

static void make_tile(char *tile, struct pattern pattern, int from, int to, size_t first) {
  for (size_t i = 0; i < MODULUS; i++)
    store(tile, i, pattern.element, combined(pattern.reduction, from, to, first + i, pattern.batch));
  const size_t period = MODULUS * item_bytes(pattern.element);
  for (size_t at = period; at < TILE / MODULUS * period; at += period) memcpy(tile + at, tile, period);
}

static void fill(char *data, size_t count, struct pattern pattern, int rank) {
  _Alignas(LARGEST_ITEM) char tile[TILE * LARGEST_ITEM];
  const size_t item = item_bytes(pattern.element);
  make_tile(tile, pattern, rank, rank + 1, 0);
  for (size_t at = 0; at < count; at += TILE)
    memcpy(data + at * item, tile, (count - at < TILE ? count - at : TILE) * item);
}

/* Whether data holds the pattern; if not, says where in `words`. */
static int is_right(const char *data, size_t count, struct pattern pattern, int from, int to, size_t first, char *words,
                    size_t room) {
  _Alignas(LARGEST_ITEM) char tile[TILE * LARGEST_ITEM];
  const size_t item = item_bytes(pattern.element);
  make_tile(tile, pattern, from, to, first);
  for (size_t at = 0; at < count; at += TILE) {
    const size_t length = count - at < TILE ? count - at : TILE;
    const char *const part = data + at * item;
    if (memcmp(part, tile, length * item) == 0) continue;
    for (size_t i = 0; i < length; i++)
      if (memcmp(part + i * item, tile + i * item, item) != 0) {
        snprintf(words, room, "element %zu of ranks %d to %d is %g, expected %g", first + at + i, from, to - 1,
                 load(part, i, pattern.element), load(tile, i, pattern.element));
        return 0;
      }
  }
  return 1;
}

/* Whether a rank's output of a collective is right. */
static int output_is_right(enum collective collective, const char *out, size_t count, struct pattern pattern, int rank,
                           int ranks, char *words, size_t room) {
  const size_t mine = (size_t)rank * count;
  switch (collective) {
    case ALL_REDUCE: return is_right(out, count, pattern, 0, ranks, 0, words, room);
    case REDUCE: return rank != 0 || is_right(out, count, pattern, 0, ranks, 0, words, room);
    case REDUCE_SCATTER: return is_right(out, count, pattern, 0, ranks, mine, words, room);
    case BROADCAST: return is_right(out, count, pattern, 0, 1, 0, words, room);
    case ALL_GATHER:
    case ALL_TO_ALL:
      for (int r = 0; r < ranks; r++)
        if (!is_right(out + (size_t)r * count * item_bytes(pattern.element), count, pattern, r, r + 1,
                      collective == ALL_TO_ALL ? mine : 0, words, room))
          return 0;
      return 1;
    case COLLECTIVES: break;
  }
  return 0;
}

#endif
