// A fused shared-memory prototype as a library of sampler.h; compiled only where its source is given by path (PROTOTYPE).
// Usage: fused SOCKET_NAME CORES N_RANKS. A config is "ALGORITHM CHUNK_BYTES"; "auto" is the prototype's own choice.
#define main prototype_main
#include PROTOTYPE
#undef main

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
  if (argc != 4) return 2;
  N = std::atoi(argv[3]);
  int cores = 1;
  for (const char* c = argv[2]; *c; c++) cores += *c == ',';
  if (N > cores) SPIN = 0;
  const std::size_t bytes = sizeof(RankSeg) * static_cast<std::size_t>(N) + sizeof(Chan) * static_cast<std::size_t>(N * N);
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  G = static_cast<RankSeg*>(shared);
  CH = reinterpret_cast<Chan*>(static_cast<char*>(shared) + sizeof(RankSeg) * static_cast<std::size_t>(N));
  for (R = 0; R < N - 1; R++)
    if (fork() == 0) break;
  library lib{};
  lib.version = "fused prototype";
  lib.rank = R;
  lib.ranks = N;
  lib.barrier = barrier;
  lib.run[ALL_REDUCE] = all_reduce;
  lib.run[ALL_GATHER] = all_gather;
  lib.configure = configure;
  const int code = serve(&lib, argv[1], argv[2]);
  if (R == N - 1)
    while (wait(nullptr) > 0) {
    }
  return code;
}
