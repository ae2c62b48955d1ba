// See ranks.h.
#include "ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "check.h"

namespace autotune::test {
namespace {

void run_rank(int fd, int rank, const GroupOptions& options, const RankMain& main) {
  try {
    Group group(fd, rank, options);
    main(group);
  } catch (const std::exception& error) {
    failed(__FILE__, __LINE__, "rank " + std::to_string(rank) + " threw: " + error.what());
  }
}

}  // namespace

std::vector<int> run_ranks(RanksAre kind, int n, const GroupOptions& options, const RankMain& main) {
  const int fd = Segment::create(n, kStagingBytes, kSymmetricBytes);
  std::vector<int> ended(static_cast<std::size_t>(n), 0);
  if (kind == RanksAre::Threads) {
    share_mappings(true);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n; rank++) threads.emplace_back([&, rank] { run_rank(fd, rank, options, main); });
    for (std::thread& thread : threads) thread.join();
    share_mappings(false);
  } else {
    std::fflush(nullptr);  // or every child would print what is still in the buffers
    std::vector<pid_t> children;
    for (int rank = 0; rank < n; rank++) {
      const pid_t child = fork();
      CHECK(child >= 0, "fork");
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_rank(fd, rank, options, main);
        std::exit(0);  // not _exit: leaks are looked for on the way out
      }
      children.push_back(child);
    }
    for (std::size_t rank = 0; rank < children.size(); rank++) waitpid(children[rank], &ended[rank], 0);
  }
  close(fd);
  return ended;
}

void run_ranks_well(RanksAre kind, int n, const GroupOptions& options, const RankMain& main) {
  const std::vector<int> ended = run_ranks(kind, n, options, main);
  for (std::size_t rank = 0; rank < ended.size(); rank++)
    CHECK(ended[rank] == 0, "rank " + std::to_string(rank) + " ended with status " + std::to_string(ended[rank]));
}

}  // namespace autotune::test
