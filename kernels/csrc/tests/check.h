// What every test here uses: CHECK, which ends the process with the place and the values, and the seeded generator.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <random>
#include <string>

namespace autotune::test {

[[noreturn]] inline void failed(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::fflush(stderr);
  _exit(1);  // from a rank's thread too
}

#define CHECK(condition, about)                                                                       \
  do {                                                                                                \
    if (!(condition)) ::autotune::test::failed(__FILE__, __LINE__, #condition " failed: " + std::string(about)); \
  } while (false)

using Random = std::mt19937_64;

// Uniform in [low, high].
inline std::size_t between(Random& random, std::size_t low, std::size_t high) {
  return low + random() % (high - low + 1);
}

}  // namespace autotune::test
