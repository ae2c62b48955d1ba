/* See sampler.h. A request is one line:
 *
 *   sample COLLECTIVE COUNT fresh|steady BATCH REPEATS CALLS BUFFERS KEEP_BYTES CONFIG
 *
 * REPEATS timings of CALLS back-to-back calls each, going round BUFFERS pairs of buffers, each timing between barriers.
 * fresh: every timing follows a rewrite of the inputs; steady: only the first. Outputs are checked after the last one.
 * Answers: "us T1 T2 ..." (microseconds of one timing, this rank), "absent", "wrong WORDS", "refused WORDS". */
#define _GNU_SOURCE
#include "sampler.h"

#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "inputs.h"

enum { MOST_BUFFERS = 8, LINE = 4096, PAGE = 4096, ORPHAN_S = 20 };

static const char *const kCollectiveNames[COLLECTIVES] = {"all_reduce", "all_gather", "reduce_scatter",
                                                          "broadcast",  "reduce",     "all_to_all"};
struct region {
  char *at;
  size_t bytes;
};
static struct region regions[2][MOST_BUFFERS];

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void drop(struct region *region) {
  if (region->at) munmap(region->at, region->bytes);
  *region = (struct region){NULL, 0};
}

static float *buffer(const struct library *lib, int is_output, int index, size_t bytes) {
  float *const given = lib->buffer ? lib->buffer(is_output, index, bytes) : NULL;
  if (given) return given;
  struct region *region = &regions[is_output][index];
  if (region->bytes < bytes) {
    drop(region);
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    *region = (struct region){at, bytes};
  }
  return (float *)region->at;
}

struct sample {
  enum collective collective;
  size_t count;
  int fresh, batch, repeats, buffers;
  long calls;
};

static struct pattern pattern_of(const struct library *lib, int batch) {
  return (struct pattern){lib->element, lib->reduction, batch};
}

static void rewrite(const struct library *lib, const struct sample *s, float **in, float **out, size_t in_count,
                    size_t out_count) {
  for (int b = 0; b < s->buffers; b++) {
    const struct pattern pattern = pattern_of(lib, s->batch + b);
    memset(out[b], 0xA5, out_count * item_bytes(lib->element));
    if (s->collective != BROADCAST) fill((char *)in[b], in_count, pattern, lib->rank);
    else if (lib->rank == 0) fill((char *)out[b], out_count, pattern, 0);
  }
}

// The barrier at the end keeps a rank that is through from what comes next, which would take a core from those that are not.
static double timed(const struct library *lib, const struct sample *s, float **in, float **out) {
  const operation run = lib->run[s->collective];
  lib->barrier();
  lib->barrier();
  const double start = now_us();
  int b = 0;
  for (long i = 0; i < s->calls; i++) {
    run(in[b], out[b], s->count);
    if (++b == s->buffers) b = 0;
  }
  const double taken = now_us() - start;
  lib->barrier();
  return taken;
}

static int take(const struct library *lib, const struct sample *s, char *answer, size_t room) {
  const size_t parts = (size_t)lib->ranks, count = s->count, item = item_bytes(lib->element);
  const int gathers = s->collective == ALL_GATHER, scatters = s->collective == REDUCE_SCATTER;
  const size_t in_count = scatters || s->collective == ALL_TO_ALL ? count * parts : count;
  const size_t out_count = gathers || s->collective == ALL_TO_ALL ? count * parts : count;
  float *in[MOST_BUFFERS], *out[MOST_BUFFERS];
  for (int b = 0; b < s->buffers; b++) {
    in[b] = buffer(lib, 0, b, in_count * item);
    out[b] = buffer(lib, 1, b, out_count * item);
    if (!in[b] || !out[b]) return snprintf(answer, room, "refused no memory for buffers\n");
  }
  int length = snprintf(answer, room, "us");
  for (int k = 0; k < s->repeats; k++) {
    if (k == 0 || s->fresh) rewrite(lib, s, in, out, in_count, out_count);
    length += snprintf(answer + length, room - (size_t)length, " %.4f", timed(lib, s, in, out));
  }
  const int checked = !lib->results_are_sums || lib->results_are_sums();
  for (int b = 0; checked && b < s->buffers && b < s->calls; b++) {
    char words[160];
    if (!output_is_right(s->collective, (const char *)out[b], count, pattern_of(lib, s->batch + b), lib->rank, lib->ranks,
                         words, sizeof words))
      return snprintf(answer, room, "wrong %s\n", words);
  }
  return length + snprintf(answer + length, room - (size_t)length, "\n");
}

static int answer_to(const struct library *lib, char *line, char *answer, size_t room) {
  char name[32], kind[16];
  size_t keep_bytes;
  int config_at = 0;
  struct sample s;
  line[strcspn(line, "\n")] = 0;
  if (sscanf(line, "sample %31s %zu %15s %d %d %ld %d %zu %n", name, &s.count, kind, &s.batch, &s.repeats, &s.calls,
             &s.buffers, &keep_bytes, &config_at) != 8 ||
      s.buffers < 1 || s.buffers > MOST_BUFFERS || s.repeats < 1 || s.repeats > 64)
    return snprintf(answer, room, "refused the line is not a request: %s\n", line);
  int which = 0;
  while (which < COLLECTIVES && strcmp(name, kCollectiveNames[which]) != 0) which++;
  if (which == COLLECTIVES) return snprintf(answer, room, "refused %s is not a collective\n", name);
  s.collective = (enum collective)which;
  s.fresh = strcmp(kind, "fresh") == 0;
  if (!lib->run[which]) return snprintf(answer, room, "absent\n");
  const char *wrong = lib->configure ? lib->configure(line + config_at, s.collective, s.count) : NULL;
  if (wrong) return snprintf(answer, room, "refused %s\n", wrong);
  const int length = take(lib, &s, answer, room);
  for (int role = 0; role < 2; role++)
    for (int b = 0; b < MOST_BUFFERS; b++)
      if (regions[role][b].bytes > keep_bytes) drop(&regions[role][b]);
  return length;
}

/* The driver or the launcher has died: its socket is closed, which lets a rank leave its library in good order and take
 * its shared memory with it. One that hangs is ended after a while. */
static void on_orphaned(int number) {
  (void)number;
  alarm(ORPHAN_S);
}

static void mind_the_parent(void) {
  struct sigaction action = {.sa_handler = on_orphaned, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
}

static int pin(const char *cores, int rank) {
  int listed[1024], n = 0;
  for (const char *at = cores; *at && n < 1024; at += *at == ',') listed[n++] = (int)strtol(at, (char **)&at, 10);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(listed[rank % n], &set);
  return sched_setaffinity(0, sizeof set, &set);
}

int serve(const struct library *lib, const char *socket_name, const char *cores) {
  mind_the_parent();
  if (pin(cores, lib->rank) != 0) return perror("pinning"), 2;
  struct sockaddr_un address = {.sun_family = AF_UNIX}; /* abstract: sun_path[0] is 0, nothing to unlink */
  strncpy(address.sun_path + 1, socket_name, sizeof address.sun_path - 2);
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(socket_name));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, size) != 0) return perror("driver's socket"), 2;
  FILE *requests = fdopen(fd, "r");
  static char line[LINE], answer[LINE];
  int length = snprintf(answer, sizeof answer, "hello %d %d %s\n", lib->rank, (int)getpid(), lib->version);
  while (requests && send(fd, answer, (size_t)length, MSG_NOSIGNAL) == length && fgets(line, sizeof line, requests))
    length = answer_to(lib, line, answer, sizeof answer);
  return 0;
}
