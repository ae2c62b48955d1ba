// The prototype of the schedule interpreter as a library of sampler.h; compiled only where its source is given by path
// (PROTOTYPE). Usage: interpreted SOCKET_NAME CORES N_RANKS, in a folder that holds its programs in prog/.
// A config is "PROGRAM SEGMENT_BYTES TILE_BYTES" (TILE_BYTES 0: two destinations in one loop).
#define main prototype_main
#include PROTOTYPE
#undef main

#include "processes.h"
#include "sampler.h"

namespace {

std::map<std::string, Prog> programs;
const Prog* program;
std::size_t segment_bytes;

void go(const float* in, float* out, std::size_t count) {
  run(*program, reinterpret_cast<const char*>(in), reinterpret_cast<char*>(out), count, segment_bytes);
}
void in_place(const float*, float* out, std::size_t count) { go(out, out, count); }
void meet() { barrier(); }

const char* configure(const char* config, enum collective, std::size_t) {
  char name[64];
  unsigned long long segment = 0, tile = 0;
  if (std::sscanf(config, "%63s %llu %llu", name, &segment, &tile) != 3 || segment == 0)
    return "not PROGRAM SEGMENT_BYTES TILE_BYTES";
  auto known = programs.find(name);
  if (known == programs.end()) {
    const std::string file = "prog/" + std::string(name) + "." + std::to_string(N);
    if (access(file.c_str(), R_OK) != 0) return "no such program";
    known = programs.emplace(name, load(file)).first;
  }
  program = &known->second;
  segment_bytes = segment;
  TILE = tile;
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) return 2;
  N = std::atoi(argv[3]);
  int cores = 1;
  for (const char* c = argv[2]; *c; c++) cores += *c == ',';
  if (N > cores) SPIN = 0;
  const std::size_t ranks = static_cast<std::size_t>(N), headers = sizeof(Hdr) * 2 * MAXSLOT * ranks;
  const std::size_t boxes = (sizeof(Ctl) * ranks + headers + 4095) & ~std::size_t{4095};
  const processes started = start_ranks(argc, argv, N, boxes + 2 * HALF * ranks);
  if (!started.memory) return 2;
  R = started.rank;
  CT = reinterpret_cast<Ctl*>(started.memory);
  HD = reinterpret_cast<Hdr*>(started.memory + sizeof(Ctl) * ranks);
  BOX = started.memory + boxes;
  CT[R].pid = getpid();
  CT[R].clock.store(1);
  library lib{};
  lib.version = "interpreter prototype";
  lib.rank = R;
  lib.ranks = N;
  lib.barrier = meet;
  const operation operations[COLLECTIVES] = {go, go, go, in_place, go, go};
  for (int k = 0; k < COLLECTIVES; k++) lib.run[k] = operations[k];
  lib.configure = configure;
  return after_children(serve(&lib, argv[1], argv[2]));
}
