/* Prints what an all_reduce gives under each config of its arguments, bit by bit: the order in which an MPI adds tells its
 * algorithms apart. The configs are mpi_csrc/mpi.c's, and so is what sets them. Rank 0 prints two lines for each: what
 * is wrong, and a hash. */
#define main loop_main
#include "mpi.c"
#undef main

#include <stdint.h>

enum { ELEMENTS = 4096 };

static float element(uint32_t rank, uint32_t index) {
  uint32_t x = rank * 2654435761u + index * 40503u + 12345u;
  x ^= x >> 13, x *= 1274126177u, x ^= x >> 16;
  return (float)(x % 1000003u) * 1.0e-3f * (x & 4 ? 1.0f : 1.0e4f);
}

int main(int argc, char **argv) {
  static float in[ELEMENTS], out[ELEMENTS];
  int provided, rank;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (uint32_t i = 0; i < ELEMENTS; i++) in[i] = element((uint32_t)rank, i);
  for (int k = 1; k < argc; k++) {
    const char *const wrong = configure(argv[k], ALL_REDUCE, ELEMENTS);
    all_reduce(in, out, ELEMENTS);
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < ELEMENTS; i++) {
      uint32_t bits;
      memcpy(&bits, &out[i], sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
    if (rank == 0) printf("%s\n%016llx\n", wrong ? wrong : "", (unsigned long long)hash);
  }
  put_back();
  MPI_Finalize();
  return 0;
}
