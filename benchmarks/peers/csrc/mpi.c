/* Any MPI as a library of sampler.h. Usage: mpirun ... mpi SOCKET_NAME CORES */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "sampler.h"

#define WORLD MPI_COMM_WORLD

static void barrier(void) { MPI_Barrier(WORLD); }

static void all_reduce(const float *in, float *out, size_t count) {
  MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, WORLD);
}
static void all_gather(const float *in, float *out, size_t count) {
  MPI_Allgather(in, (int)count, MPI_FLOAT, out, (int)count, MPI_FLOAT, WORLD);
}
static void reduce_scatter(const float *in, float *out, size_t count) {
  MPI_Reduce_scatter_block(in, out, (int)count, MPI_FLOAT, MPI_SUM, WORLD);
}
static void broadcast(const float *in, float *out, size_t count) {
  (void)in;
  MPI_Bcast(out, (int)count, MPI_FLOAT, 0, WORLD);
}
static void reduce(const float *in, float *out, size_t count) {
  MPI_Reduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, 0, WORLD);
}
static void all_to_all(const float *in, float *out, size_t count) {
  MPI_Alltoall(in, (int)count, MPI_FLOAT, out, (int)count, MPI_FLOAT, WORLD);
}

int main(int argc, char **argv) {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  struct library library = {.barrier = barrier,
                            .run = {all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all}};
  int length;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(WORLD, &library.rank);
  MPI_Comm_size(WORLD, &library.ranks);
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n,")] = 0;
  for (char *c = version; *c; c++)
    if (*c == '\t') *c = ' ';
  library.version = version;
  const int code = argc == 3 ? serve(&library, argv[1], argv[2]) : 2;
  MPI_Finalize();
  return code;
}
