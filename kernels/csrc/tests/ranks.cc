// See ranks.h.
#include "ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "check.h"
#include "socket_wire.h"

namespace autotune::test {
namespace {

constexpr auto kToConnect = std::chrono::seconds(60);

void run_rank(int fd, int rank, GroupOptions options, const RankMain& main, const Networks* networks) {
  try {
    if (networks) {
      options.network = networks->ends[static_cast<std::size_t>(rank)];
      options.network->connect(networks->neighbours(rank));
      CHECK(options.network->meet(kToConnect), options.network->missing());
    }
    Group group(fd, rank, options);
    main(group);
  } catch (const std::exception& error) {
    failed(__FILE__, __LINE__, "rank " + std::to_string(rank) + " threw: " + error.what());
  }
}

}  // namespace

std::string hosts_named(const PerHost& per_host) {
  std::string name;
  for (int ranks : per_host) {
    if (!name.empty()) name += ',';
    name += std::to_string(ranks);  // apart: GCC 12 warns of its own operator+ (bug 105651)
  }
  return name;
}

std::string greeting(const std::string& secret, int from, int to) {
  std::string text = secret + " " + std::to_string(from) + " to " + std::to_string(to);
  text.resize(40, '.');
  return text.substr(0, 32) + text.substr(0, 8);
}

Networks::Networks(const PerHost& per_host, const std::string& secret) : secret_(secret) {
  for (std::size_t host = 0; host < per_host.size(); host++)
    host_of.insert(host_of.end(), static_cast<std::size_t>(per_host[host]), static_cast<int>(host));
  const int n = static_cast<int>(host_of.size());
  for (int rank = 0; rank < n; rank++)
    ends.push_back(std::make_shared<Network>(std::make_unique<SocketWire>("lo", rank, n), rank, n));
  for (const auto& end : ends) addresses_.push_back(end->wire().address());  // before anybody stops listening
}

Neighbours Networks::neighbours(int rank) const {
  Neighbours found;
  found.host_of = host_of;
  found.addresses = addresses_;
  for (int host = 0; host <= host_of.back(); host++) found.host_names.push_back("host" + std::to_string(host));
  for (int other = 0; other < static_cast<int>(host_of.size()); other++) {
    found.greetings_out.push_back(greeting(secret_, rank, other));
    found.greetings_in.push_back(greeting(secret_, other, rank));
  }
  return found;
}

std::vector<int> run_ranks(RanksAre kind, int n, const GroupOptions& options, const RankMain& main,
                           const PerHost& per_host) {
  std::unique_ptr<Networks> networks;
  if (!per_host.empty()) networks = std::make_unique<Networks>(per_host, "the secret");
  std::vector<int> fds;
  for (std::size_t host = 0; host < std::max<std::size_t>(1, per_host.size()); host++)
    fds.push_back(Segment::create(n, kStagingBytes, networks ? 0 : kSymmetricBytes));
  const auto fd_of = [&](int rank) {
    return fds[networks ? static_cast<std::size_t>(networks->host_of[static_cast<std::size_t>(rank)]) : 0];
  };
  std::vector<int> ended(static_cast<std::size_t>(n), 0);
  if (kind == RanksAre::Threads) {
    share_mappings(true);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n; rank++)
      threads.emplace_back([&, rank] { run_rank(fd_of(rank), rank, options, main, networks.get()); });
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
        run_rank(fd_of(rank), rank, options, main, networks.get());
        std::exit(0);  // not _exit: leaks are looked for on the way out
      }
      children.push_back(child);
    }
    for (std::size_t rank = 0; rank < children.size(); rank++) waitpid(children[rank], &ended[rank], 0);
  }
  for (int fd : fds) close(fd);
  return ended;
}

void run_ranks_well(RanksAre kind, int n, const GroupOptions& options, const RankMain& main, const PerHost& per_host) {
  const std::vector<int> ended = run_ranks(kind, n, options, main, per_host);
  for (std::size_t rank = 0; rank < ended.size(); rank++)
    CHECK(ended[rank] == 0, "rank " + std::to_string(rank) + " ended with status " + std::to_string(ended[rank]));
}

}  // namespace autotune::test
