// The processes of a prototype's ranks and the memory that they share: what its own program does by fork() alone.
//
// In: the program's arguments, "SOCKET_NAME CORES N_RANKS", with "RANK DESCRIPTOR" after them in a rank that was started
// here. Out: which rank this is, and the memory. Knows nothing of collectives.
//
// Each rank is an execution of its own, as the ranks of a job are. In the copies that fork() makes all code lies at the same
// addresses, and ranks that share a core then find its branch predictor trained by each other: ours at 8 ranks on 2 cores
// took 1.2 to 1.3 times as long at 8 B with addresses of their own as without (setarch -R), before short calls had scripts.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

struct processes {
  int rank;
  char* memory;  // null where there is none
};

// `bytes` of zeros, shared by all ranks. Only the last rank has children.
inline processes start_ranks(int argc, char** argv, int ranks, std::size_t bytes) {
  const bool started = argc == 6;
  const int rank = started ? std::atoi(argv[4]) : ranks - 1;
  const int fd = started ? std::atoi(argv[5]) : memfd_create("prototype", 0);
  if (!started && ftruncate(fd, static_cast<off_t>(bytes)) != 0) return {rank, nullptr};
  for (int other = 0; !started && other < ranks - 1; other++) {
    if (fork() != 0) continue;
    const std::string number = std::to_string(other), shared = std::to_string(fd);
    execl("/proc/self/exe", argv[0], argv[1], argv[2], argv[3], number.c_str(), shared.c_str(), nullptr);
    _exit(127);
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return {rank, memory == MAP_FAILED ? nullptr : static_cast<char*>(memory)};
}

// The exit code, when the ranks that were started here have ended.
inline int after_children(int code) {
  while (wait(nullptr) > 0) {
  }
  return code;
}
