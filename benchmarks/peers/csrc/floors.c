/* What the hardware allows two ranks, as a library of sampler.h: loops for this one case, without a schedule, checks,
 * time-outs or sleep. Floats and sums.
 * Usage: floors SOCKET_NAME CORES
 *
 * A config names one way. Each but the first is an all_reduce's, done by both ranks at once, its parts one after the other
 * in one timed operation:
 *   pieces     any collective, piece by piece through a ring of shared memory that stays in the caches: put a piece there,
 *              flag; take the peer's piece from the other core's cache and copy or add it
 *   private    copy S into shared staging, where the peer's was before; flag; read the peer's S from the other core's cache
 *              and add (S: message)
 *   symmetric  flag; read half of the peer's buffer and add; flag
 *   dram       copy S past the caches: 2 S of traffic a core, 4 S in all, for messages that no cache holds
 *   copy       the same as the C library copies
 *   flag       one flag, whatever the message
 * pieces and private are real collectives, and their results are checked like any other. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { RANKS = 2, BUFFERS = 8, SLOTS = 4, PIECE = 16384 /* floats; together 256 KiB */ };
/* Addresses only: pages appear when they are touched, and the largest message is never staged. */
static const size_t kPastCachesBytes = (size_t)16 << 20; /* of a message: outputs go past the caches from here on */
static const size_t kStageBytes = (size_t)64 << 20, kBufferBytes = (size_t)64 << 20;

struct flag {
  _Alignas(128) atomic_ulong at;
};
struct shared {
  struct flag arrived[RANKS], put[RANKS], taken[RANKS]; /* the last two: pieces, since the start */
  float ring[RANKS][SLOTS][PIECE];
};

static int rank;
static struct shared *shared;
static char *stages[RANKS], *buffers[RANKS];
static unsigned long calls, put, taken;
static void (*way)(const float *, float *, size_t);
static enum collective way_of;

static void await(struct flag *flag, unsigned long least) {
  while (atomic_load_explicit(&flag->at, memory_order_acquire) < least) {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
}

static void meet(void) {
  const unsigned long mine = atomic_load_explicit(&shared->arrived[rank].at, memory_order_relaxed) + 1;
  atomic_store_explicit(&shared->arrived[rank].at, mine, memory_order_release);
  await(&shared->arrived[1 - rank], mine);
}

static void add(float *restrict out, const float *restrict a, const float *restrict b, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] = a[i] + b[i];
}

/* out = a, or a + b, past the caches. */
static void store_past_caches(float *out, const float *a, const float *b, size_t count) {
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    const __m512 left = _mm512_loadu_ps(a + i);
    _mm512_stream_ps(out + i, b ? _mm512_add_ps(left, _mm512_loadu_ps(b + i)) : left);
  }
  _mm_sfence();
#elif defined(__AVX__)
  for (; i + 8 <= count; i += 8) {
    const __m256 left = _mm256_loadu_ps(a + i);
    _mm256_stream_ps(out + i, b ? _mm256_add_ps(left, _mm256_loadu_ps(b + i)) : left);
  }
  _mm_sfence();
#endif
  for (; i < count; i++) out[i] = b ? a[i] + b[i] : a[i];
}

static void store(float *out, const float *a, const float *b, size_t count, int past_caches) {
  if (past_caches) store_past_caches(out, a, b, count);
  else if (b) add(out, a, b, count);
  else memcpy(out, a, count * sizeof(float));
}

/* Where the piece of that number lies. Pieces that are answered by others go where the rank has read the last one: those
 * lines are in its own cache, and nobody else looks there. */
static float *slot(int sender, unsigned long number, int answered) {
  const int area = answered ? (sender + (int)(number / SLOTS)) & 1 : sender;
  return shared->ring[area][number % SLOTS];
}

static size_t piece_at(size_t count, size_t at) { return at >= count ? 0 : count - at < PIECE ? count - at : PIECE; }

/* Sends so many floats to the peer and takes as many from it as `take` says, which are added to `own` if that is given. */
static void pass(const float *send, size_t n_send, const float *own, float *out, size_t take, int past_caches) {
  const int answered = n_send && take;
  struct flag *const here = &shared->put[rank], *const there = &shared->put[1 - rank], *const read = &shared->taken[rank];
  if (!answered) atomic_store_explicit(&read->at, taken, memory_order_release);
  for (size_t at = 0; at < n_send || at < take; at += PIECE) {
    const size_t to_put = piece_at(n_send, at), to_take = piece_at(take, at);
    if (to_put) {
      if (!answered && put >= SLOTS) await(&shared->taken[1 - rank], put - SLOTS + 1);
      memcpy(slot(rank, put, answered), send + at, to_put * sizeof(float));
      atomic_store_explicit(&here->at, ++put, memory_order_release);
    }
    if (to_take) {
      await(there, ++taken);
      const float *peers = slot(1 - rank, taken - 1, answered);
      store(out + at, own ? own + at : peers, own ? peers : NULL, to_take, past_caches);
      if (!answered) atomic_store_explicit(&read->at, taken, memory_order_release);
    }
  }
  put = taken = put > taken ? put : taken; /* both ranks count alike, whoever sent */
}

/* count: as sampler.h has it. */
static void in_pieces(const float *in, float *out, size_t count) {
  const size_t mine = (size_t)rank * count, peers = (size_t)(1 - rank) * count;
  const int splits = way_of == ALL_GATHER || way_of == REDUCE_SCATTER || way_of == ALL_TO_ALL;
  const int past = count * (splits ? RANKS : 1) * sizeof(float) >= kPastCachesBytes;
  switch (way_of) {
    case ALL_REDUCE: pass(in, count, in, out, count, past); break;
    case REDUCE_SCATTER: pass(in + peers, count, in + mine, out, count, past); break;
    case BROADCAST: rank == 0 ? pass(out, count, NULL, NULL, 0, past) : pass(NULL, 0, NULL, out, count, past); break;
    case REDUCE: rank == 0 ? pass(NULL, 0, in, out, count, past) : pass(in, count, NULL, NULL, 0, past); break;
    case ALL_GATHER:
      pass(in, count, NULL, out + peers, count, past);
      store(out + mine, in, NULL, count, past);
      break;
    case ALL_TO_ALL:
      pass(in + peers, count, NULL, out + peers, count, past);
      store(out + mine, in + mine, NULL, count, past);
      break;
    default: break;
  }
}

static void copy_and_add(const float *in, float *out, size_t count) {
  const int mine = (rank + calls++) & 1; /* where this rank has read before: nobody else does, and the lines are here */
  memcpy(stages[mine], in, count * sizeof(float));
  meet();
  add(out, in, (const float *)stages[1 - mine], count);
}

static void add_half(const float *in, float *out, size_t count) {
  const size_t half = (count + 1) / 2, from = (size_t)rank * half, length = count - from < half ? count - from : half;
  const float *peers = (const float *)(buffers[1 - rank] + ((const char *)in - buffers[rank]));
  meet();
  add(out + from, in + from, peers + from, length);
  meet();
}

static void only_meet(const float *in, float *out, size_t count) {
  (void)in, (void)out, (void)count;
  meet();
}

static void copy_past_caches(const float *in, float *out, size_t count) { store_past_caches(out, in, NULL, count); }

static void copy_as_usual(const float *in, float *out, size_t count) { memcpy(out, in, count * sizeof(float)); }

static void run(const float *in, float *out, size_t count) { way(in, out, count); }

static int results_are_sums(void) { return way == copy_and_add || way == in_pieces; }

static const char *configure(const char *config, enum collective collective, size_t count) {
  way_of = collective;
  way = strcmp(config, "pieces") == 0      ? in_pieces
        : strcmp(config, "private") == 0   ? copy_and_add
        : strcmp(config, "symmetric") == 0 ? add_half
        : strcmp(config, "dram") == 0      ? copy_past_caches
        : strcmp(config, "copy") == 0      ? copy_as_usual
        : strcmp(config, "flag") == 0      ? only_meet
                                           : NULL;
  if (!way) return "the config is not pieces, private, symmetric, dram, copy or flag";
  if (way == in_pieces) return NULL;
  if (collective != ALL_REDUCE) return "this way is an all_reduce's";
  return way == copy_past_caches || way == copy_as_usual || count * sizeof(float) <= kStageBytes ? NULL : "the message is too large for it";
}

/* Inputs where the peer can read them; NULL: the sampler's own. */
static float *buffer(int is_output, int index, size_t bytes) {
  if (is_output || way != add_half || index >= BUFFERS || bytes > kBufferBytes) return NULL;
  return (float *)(buffers[rank] + (size_t)index * kBufferBytes);
}

static char *mapped(size_t bytes) {
  char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  shared = (struct shared *)mapped(sizeof *shared);
  for (int r = 0; r < RANKS; r++) {
    stages[r] = mapped(kStageBytes);
    buffers[r] = mapped(BUFFERS * kBufferBytes);
    if (!shared || !stages[r] || !buffers[r]) return 2;
  }
  const pid_t child = fork();
  if (child < 0) return 2;
  rank = child == 0;
  const struct library library = {.version = "floors",
                                  .rank = rank,
                                  .ranks = RANKS,
                                  .barrier = meet,
                                  .run = {run, run, run, run, run, run},
                                  .configure = configure,
                                  .buffer = buffer,
                                  .results_are_sums = results_are_sums};
  const int code = serve(&library, argv[1], argv[2]);
  if (child > 0) waitpid(child, NULL, 0);
  return code;
}
