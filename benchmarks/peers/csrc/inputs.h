/* Inputs whose sums are exact, and the check of outputs: element i of rank r's input in batch b is
 * (i + 13 r + 5 b) mod 61, as in kernels/csrc/pattern.h. Buffers are filled and compared a period at a time. */
#ifndef AUTOTUNE_PEERS_INPUTS_H
#define AUTOTUNE_PEERS_INPUTS_H

#include <stdio.h>
#include <string.h>

#include "sampler.h"

enum { MODULUS = 61, TILE = MODULUS * 134 }; /* 32 KiB of floats */

/* The sum over ranks [from, to) of elements first, first + 1 ... of their inputs, as one tile. */
static void make_tile(float *tile, int from, int to, size_t first, int batch) {
  for (size_t i = 0; i < MODULUS; i++) {
    size_t sum = 0;
    for (int r = from; r < to; r++) sum += (first + i + 13 * (size_t)r + 5 * (size_t)batch) % MODULUS;
    tile[i] = (float)sum;
  }
  for (size_t i = MODULUS; i < TILE; i++) tile[i] = tile[i - MODULUS];
}

static void fill(float *data, size_t count, int rank, int batch) {
  float tile[TILE];
  make_tile(tile, rank, rank + 1, 0, batch);
  for (size_t at = 0; at < count; at += TILE)
    memcpy(data + at, tile, (count - at < TILE ? count - at : TILE) * sizeof(float));
}

/* Whether data holds that sum; if not, says where in `words`. */
static int is_right(const float *data, size_t count, int from, int to, size_t first, int batch, char *words,
                    size_t room) {
  float tile[TILE];
  make_tile(tile, from, to, first, batch);
  for (size_t at = 0; at < count; at += TILE) {
    const size_t length = count - at < TILE ? count - at : TILE;
    if (memcmp(data + at, tile, length * sizeof(float)) == 0) continue;
    for (size_t i = 0; i < length; i++)
      if (data[at + i] != tile[i]) {
        snprintf(words, room, "element %zu of ranks %d to %d is %g, expected %g", first + at + i, from, to - 1,
                 (double)data[at + i], (double)tile[i]);
        return 0;
      }
  }
  return 1;
}

/* Whether a rank's output of a collective is right. */
static int output_is_right(enum collective collective, const float *out, size_t count, int rank, int ranks, int batch,
                           char *words, size_t room) {
  const size_t mine = (size_t)rank * count;
  switch (collective) {
    case ALL_REDUCE: return is_right(out, count, 0, ranks, 0, batch, words, room);
    case REDUCE: return rank != 0 || is_right(out, count, 0, ranks, 0, batch, words, room);
    case REDUCE_SCATTER: return is_right(out, count, 0, ranks, mine, batch, words, room);
    case BROADCAST: return is_right(out, count, 0, 1, 0, batch, words, room);
    case ALL_GATHER:
    case ALL_TO_ALL:
      for (int r = 0; r < ranks; r++)
        if (!is_right(out + (size_t)r * count, count, r, r + 1, collective == ALL_TO_ALL ? mine : 0, batch, words, room))
          return 0;
      return 1;
    case COLLECTIVES: break;
  }
  return 0;
}

#endif
