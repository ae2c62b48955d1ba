/* Prints what an all_reduce of floats gives, bit by bit: the order in which an MPI adds tells its algorithms apart.

   Arguments: byte counts, multiples of 4. Rank 0 prints, for each, "bytes hash": a hash over the bits of the result.
   Element i of rank r is a float whose sums round differently in different orders; the same in every run. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float element(uint32_t rank, uint32_t index) {
  uint32_t x = rank * 2654435761u + index * 40503u + 12345u;
  x ^= x >> 13, x *= 1274126177u, x ^= x >> 16;
  return (float)(x % 1000003u) * 1.0e-3f * (x & 4 ? 1.0f : 1.0e4f);
}

int main(int argc, char **argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int argument = 1; argument < argc; argument++) {
    const long bytes = strtol(argv[argument], NULL, 10);
    const int count = (int)(bytes / 4);
    float *in = malloc((size_t)bytes + 4), *out = malloc((size_t)bytes + 4);
    for (int i = 0; i < count; i++) in[i] = element((uint32_t)rank, (uint32_t)i);
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < count; i++) {
      uint32_t bits;
      memcpy(&bits, &out[i], sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
    if (rank == 0) printf("%ld %016llx\n", bytes, (unsigned long long)hash);
    free(in), free(out);
  }
  MPI_Finalize();
  return 0;
}
