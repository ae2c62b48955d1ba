/* What the hardware allows an all_reduce of float sums at two ranks, as a library of sampler.h.
 * Usage: floors SOCKET_NAME CORES
 *
 * A config names one way, each done by both ranks at once, its parts one after the other in one timed operation:
 *   private    copy S into shared staging, where the peer's was before; flag; read the peer's S from the other core's cache
 *              and add (S: message)
 *   symmetric  flag; read half of the peer's buffer and add; flag
 *   dram       copy S past the caches: 2 S of traffic a core, 4 S in all, for messages that no cache holds
 *   copy       the same as the C library copies
 *   flag       one flag, whatever the message
 * private is a real all_reduce, and its result is checked like any other. */
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

enum { RANKS = 2, BUFFERS = 8 };
/* Addresses only: pages appear when they are touched, and the largest message is never staged. */
static const size_t kStageBytes = (size_t)64 << 20, kBufferBytes = (size_t)64 << 20;

struct flag {
  _Alignas(128) atomic_ulong at;
};
struct shared {
  struct flag arrived[RANKS];
};

static int rank;
static struct shared *shared;
static char *stages[RANKS], *buffers[RANKS];
static unsigned long calls;
static void (*way)(const float *, float *, size_t);

static void meet(void) {
  const unsigned long mine = atomic_load_explicit(&shared->arrived[rank].at, memory_order_relaxed) + 1;
  atomic_store_explicit(&shared->arrived[rank].at, mine, memory_order_release);
  while (atomic_load_explicit(&shared->arrived[1 - rank].at, memory_order_acquire) < mine) {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
}

static void add(float *restrict out, const float *restrict a, const float *restrict b, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] = a[i] + b[i];
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

static void copy_past_caches(const float *in, float *out, size_t count) {
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) _mm512_stream_ps(out + i, _mm512_loadu_ps(in + i));
  _mm_sfence();
#elif defined(__AVX__)
  for (; i + 8 <= count; i += 8) _mm256_stream_ps(out + i, _mm256_loadu_ps(in + i));
  _mm_sfence();
#endif
  memcpy(out + i, in + i, (count - i) * sizeof(float));
}

static void copy_as_usual(const float *in, float *out, size_t count) { memcpy(out, in, count * sizeof(float)); }

static void run(const float *in, float *out, size_t count) { way(in, out, count); }

static int results_are_sums(void) { return way == copy_and_add; }

static const char *configure(const char *config, enum collective collective, size_t count) {
  (void)collective;
  way = strcmp(config, "private") == 0     ? copy_and_add
        : strcmp(config, "symmetric") == 0 ? add_half
        : strcmp(config, "dram") == 0      ? copy_past_caches
        : strcmp(config, "copy") == 0      ? copy_as_usual
        : strcmp(config, "flag") == 0      ? only_meet
                                           : NULL;
  if (!way) return "the config is not private, symmetric, dram, copy or flag";
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
                                  .run = {[ALL_REDUCE] = run},
                                  .configure = configure,
                                  .buffer = buffer,
                                  .results_are_sums = results_are_sums};
  const int code = serve(&library, argv[1], argv[2]);
  if (child > 0) waitpid(child, NULL, 0);
  return code;
}
