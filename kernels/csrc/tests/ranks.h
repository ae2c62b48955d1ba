// Ranks of one group, as forked processes or as threads of this process; on one host, or on several that reach each other
// through the loopback.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "group.h"

namespace autotune::test {

enum class RanksAre { Processes, Threads };

inline constexpr std::size_t kStagingBytes = 1 << 20;
inline constexpr std::size_t kSymmetricBytes = 2 << 20;

using PerHost = std::vector<int>;  // ranks of each host; empty for all on one

std::string hosts_named(const PerHost& per_host);  // as programs.h names them

using RankMain = std::function<void(Group& group)>;

// Runs n ranks over a new segment to their ends. Processes: their exit statuses as of waitpid; threads: zeros. A rank
// that throws anything ends the test, so what a test expects to be thrown it must catch.
std::vector<int> run_ranks(RanksAre kind, int n, const GroupOptions& options, const RankMain& main,
                           const PerHost& per_host = {});

// The same, where all ranks have to end well.
void run_ranks_well(RanksAre kind, int n, const GroupOptions& options, const RankMain& main,
                    const PerHost& per_host = {});

// Networks of ranks by sockets on the loopback, not connected, and what each has to be told. Proofs and tokens are made
// of `secret`.
struct Networks {
  Networks(const PerHost& per_host, const std::string& secret);
  Neighbours neighbours(int rank) const;

  std::vector<int> host_of;
  std::vector<std::shared_ptr<Network>> ends;

 private:
  std::string secret_;
  std::vector<std::string> addresses_;
};
// What one rank says to another first: 32 bytes of proof, 8 of token.
std::string greeting(const std::string& secret, int from, int to);

// mapping.cc: whether mappings of one segment are one from now on, and how many are in use by so many ranks.
void share_mappings(bool share);
int mappings_shared_by(int users);

}  // namespace autotune::test
