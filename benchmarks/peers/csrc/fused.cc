// A fused shared-memory prototype as a library of sampler.h; compiled only where its source is given by path (PROTOTYPE).
// Usage: fused SOCKET_NAME CORES N_RANKS. A config is "ALGORITHM CHUNK_BYTES"; "auto" is the prototype's own choice.
#define main prototype_main
#include PROTOTYPE
#undef main

#include "processes.h"
#include "sampler.h"

namespace {

std::string algorithm;
std::size_t chunk_bytes;

void all_reduce(const float* in, float* out, std::size_t count) {
  const std::size_t bytes = count * sizeof(float);
  if (algorithm == "flat") return ar_flat(in, out, count);
  if (algorithm == "direct") return ar_direct(in, out, count, chunk_bytes);
  if (algorithm == "rsag") return ar_rsag(in, out, count, chunk_bytes);
  if (bytes <= 16384) return ar_flat(in, out, count);
  if (N == 2) return ar_direct(in, out, count, 65536);
  ar_rsag(in, out, count, N == 4 || bytes > 1u << 20 ? static_cast<std::size_t>(BIGC) : std::size_t{262144});
}

void all_gather(const float* in, float* out, std::size_t count) { ag(in, out, count, chunk_bytes); }

const char* configure(const char* config, enum collective, std::size_t count) {
  char name[32];
  unsigned long long chunk = 0;
  if (std::sscanf(config, "%31s %llu", name, &chunk) != 2 || chunk == 0 || chunk > BIGC) return "not NAME CHUNK_BYTES";
  algorithm = name;
  chunk_bytes = chunk;
  return algorithm == "flat" && count * sizeof(float) > SMALL ? "flat takes small messages only" : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) return 2;
  N = std::atoi(argv[3]);
  int cores = 1;
  for (const char* c = argv[2]; *c; c++) cores += *c == ',';
  if (N > cores) SPIN = 0;
  const std::size_t segments = sizeof(RankSeg) * static_cast<std::size_t>(N);
  const processes started = start_ranks(argc, argv, N, segments + sizeof(Chan) * static_cast<std::size_t>(N * N));
  if (!started.memory) return 2;
  R = started.rank;
  G = reinterpret_cast<RankSeg*>(started.memory);
  CH = reinterpret_cast<Chan*>(started.memory + segments);
  library lib{};
  lib.version = "fused prototype";
  lib.rank = R;
  lib.ranks = N;
  lib.barrier = barrier;
  lib.run[ALL_REDUCE] = all_reduce;
  lib.run[ALL_GATHER] = all_gather;
  lib.configure = configure;
  return after_children(serve(&lib, argv[1], argv[2]));
}
