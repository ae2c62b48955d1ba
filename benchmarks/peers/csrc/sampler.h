/* One rank of a library under measurement: what a library must offer, and the loop that takes samples of it.
 *
 * In: requests of the driver, one line each, on a socket. Out: one line for each. Knows nothing of other libraries, of
 * rounds or of what a sample is worth; peers/ranks.py is the other end and says what the lines hold.
 *
 * Between requests every rank is blocked in read(), outside the library, so that a library that is not being measured
 * takes no core from the one that is. A rank ends when the driver's end of the socket closes. */
#ifndef AUTOTUNE_PEERS_SAMPLER_H
#define AUTOTUNE_PEERS_SAMPLER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of kCollectiveNames in sampler.c. */
enum collective { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, COLLECTIVES };

/* One blocking collective on floats, sums, root 0, out of place. count: elements of the buffer; of one rank's part where
 * the collective splits by rank. broadcast: in place in `out`, `in` is not used. */
typedef void (*operation)(const float *in, float *out, size_t count);

struct library {
  const char *version; /* one line, for people */
  int rank, ranks;
  void (*barrier)(void);
  operation run[COLLECTIVES]; /* NULL: the library has no such collective */
  /* Takes the setting that the next sample runs with; NULL if the library has none. Returns what is wrong, or NULL. */
  const char *(*configure)(const char *config, enum collective collective, size_t count);
  /* A buffer in memory of the library's, or NULL for the sampler's own; NULL for all if the library has none. */
  float *(*buffer)(int is_output, int index, size_t bytes);
  /* Whether the outputs of the configured operation are results to check; NULL: they are. */
  int (*results_are_sums)(void);
};

/* Pins this thread to core cores[rank mod n] ("0,1,..."), connects to the driver's abstract socket and serves requests
 * until it closes. Returns the exit code. */
int serve(const struct library *library, const char *socket_name, const char *cores);

#ifdef __cplusplus
}
#endif
#endif
