/* Times MPI_Allreduce(float, sum) as autotune.backends.worker times ours: fresh inputs, ranks pinned round-robin, the
 * slowest rank counts, results checked on the buffers that were timed. Prints "bytes us" a line.
 *
 * Usage: mpirun ... mpi_all_reduce CORES SIZE_BYTES... */
#define _GNU_SOURCE
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BUFFERS = 8, MOST_SINGLE_CALLS = 8 };
static const double kSingleCallUs = 20, kBatchUs = 200, kSingleCallsUs = 1000;
static int rank, ranks;

static void rewrite(float **in, float **out, int buffers, size_t count, int batch) {
  for (int b = 0; b < buffers; b++) {
    memset(out[b], 0xA5, count * sizeof(float));
    for (size_t i = 0; i < count; i++) in[b][i] = (float)((i + 13 * (size_t)rank + 5 * (size_t)(batch + b)) % 61);
  }
}

static void check(float *const *out, int buffers, size_t count, int batch) {
  for (int b = 0; b < buffers; b++)
    for (size_t i = 0; i < count; i++) {
      float want = 0;
      for (int r = 0; r < ranks; r++) want += (float)((i + 13 * (size_t)r + 5 * (size_t)(batch + b)) % 61);
      if (out[b][i] != want) {
        fprintf(stderr, "wrong: rank %d buffer %d element %zu: %g, expected %g\n", rank, b, i, out[b][i], want);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
    }
}

static double slowest(double mine) {
  double all;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

static double timed(float **in, float **out, int buffers, size_t count, long calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (long i = 0; i < calls; i++)
    MPI_Allreduce(in[i % buffers], out[i % buffers], (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return (MPI_Wtime() - start) * 1e6;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank % atoi(argv[1]), &core);
  if (sched_setaffinity(0, sizeof core, &core) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int k = 2; k < argc; k++) {
    const size_t bytes = strtoull(argv[k], NULL, 10), count = bytes / sizeof(float);
    float *in[MOST_BUFFERS], *out[MOST_BUFFERS];
    for (int b = 0; b < MOST_BUFFERS; b++) {
      in[b] = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
      out[b] = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
      if (!in[b] || !out[b]) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    rewrite(in, out, 1, count, 0);
    timed(in, out, 1, count, 2);
    double estimate = slowest(timed(in, out, 1, count, 4)) / 4;
    if (estimate < kBatchUs / 4) estimate = slowest(timed(in, out, 1, count, 32)) / 32;
    double us = 0;
    if (estimate < kSingleCallUs) {
      const long calls = (long)ceil(kBatchUs / estimate);
      int buffers = (int)((256 << 10) / bytes);
      buffers = buffers < 1 ? 1 : buffers > MOST_BUFFERS ? MOST_BUFFERS : buffers;
      if (buffers > calls) buffers = (int)calls;
      rewrite(in, out, buffers, count, k);
      us = slowest(timed(in, out, buffers, count, calls)) / (double)calls;
      check(out, buffers, count, k);
    } else {
      int calls = (int)(kSingleCallsUs / estimate) + 1;
      if (calls > MOST_SINGLE_CALLS) calls = MOST_SINGLE_CALLS;
      for (int i = 0; i < calls; i++) {
        rewrite(in, out, 1, count, k);
        us += slowest(timed(in, out, 1, count, 1)) / calls;
      }
      check(out, 1, count, k);
    }
    if (rank == 0) printf("%zu %.6f\n", bytes, us);
    for (int b = 0; b < MOST_BUFFERS; b++) free(in[b]), free(out[b]);
  }
  MPI_Finalize();
  return 0;
}
