/* One rank of a library under measurement: what a library must offer, and the loop that takes samples of it.
 *
 * In: requests of the driver, one line each, on a socket. Out: one line for each. Knows nothing of other libraries, of
 * rounds or of what a sample is worth; mpi_ranks.py and mpi_protocol.py are the other end and say what the lines hold.
 *
 * Between requests every rank is blocked in read(), outside the library, so that a library that is not being measured
 * takes no core from the one that is. A rank ends when the driver's end of the socket closes. */
#ifndef AUTOTUNE_MPI_SAMPLER_H
#define AUTOTUNE_MPI_SAMPLER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of kCollectiveNames in sampler.c. */
enum collective { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, COLLECTIVES };

enum element { FLOAT32, FLOAT64, INT8, UINT8, INT32, INT64 };
enum reduction { SUM, MAX, PROD };

/* One blocking collective, root 0, out of place. count: elements of the buffer; of one rank's part where the collective
 * splits by rank. broadcast: in place in `out`, `in` is not used. Floats and sums, unless the library says otherwise. */
typedef void (*operation)(const float *in, float *out, size_t count);

struct library {
  const char *version; /* one line, for people */
  int rank, ranks;
  void (*barrier)(void);
  operation run[COLLECTIVES]; /* NULL: the library has no such collective */
  /* Takes the setting that the next sample runs with; NULL if the library has none. Returns what is wrong, or NULL. */
  const char *(*configure)(const char *config, enum collective collective, size_t count);
  /* What the buffers hold and how it is combined; configure() may change both for the next sample. */
  enum element element;
  enum reduction reduction;
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
