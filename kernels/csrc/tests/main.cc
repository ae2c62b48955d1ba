// executor_tests PROGRAMS MODE [SEED] [CALLS]
//
// PROGRAMS is written by write_programs.py. Modes:
//   unit       plans, programs, patterns, arithmetic, codecs, sockets
//   processes  random calls and failures, every rank a process
//   threads    the same, every rank a thread over one mapping: what a thread sanitizer can follow
// SEED varies inputs, counts and order and is printed; CALLS is the number of random calls for each number of ranks.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "check.h"
#include "tests.h"

namespace autotune::test {
namespace {

constexpr unsigned kLimitS = 600;  // no hang survives this

int run(const char* path, const std::string& mode, std::uint64_t seed, int calls) {
  std::printf("executor_tests %s, seed %llu, %d calls\n", mode.c_str(), static_cast<unsigned long long>(seed), calls);
  std::fflush(stdout);
  alarm(kLimitS);
  const Programs programs = read_programs(path);
  if (mode == "unit") {
    test_plans(programs, seed);
    test_outbox_stores(programs);
    test_pattern();
    test_reduce(seed);
    test_codecs(seed);
    test_sockets(seed);
    return 0;
  }
  if (mode != "processes" && mode != "threads") return 2;
  const RanksAre kind = mode == "threads" ? RanksAre::Threads : RanksAre::Processes;
  test_random_calls(programs, kind, seed, calls);
  test_random_calls_over_hosts(programs, kind, seed, calls / 4);
  test_lost_hosts(programs, kind);
  test_failures(programs, kind);
  return 0;
}

}  // namespace
}  // namespace autotune::test

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr, "usage: executor_tests PROGRAMS unit|processes|threads [SEED] [CALLS]\n");
    return 2;
  }
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device{}();
  const int calls = argc > 4 ? std::atoi(argv[4]) : 3000;
  return autotune::test::run(argv[1], argv[2], seed, calls);
}
