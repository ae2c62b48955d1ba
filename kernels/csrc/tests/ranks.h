// Ranks of one group, as forked processes or as threads of this process.
#pragma once

#include <functional>
#include <vector>

#include "group.h"

namespace autotune::test {

enum class RanksAre { Processes, Threads };

inline constexpr std::size_t kStagingBytes = 1 << 20;
inline constexpr std::size_t kSymmetricBytes = 2 << 20;

using RankMain = std::function<void(Group& group)>;

// Runs n ranks over a new segment to their ends. Processes: their exit statuses as of waitpid; threads: zeros. A rank
// that throws anything ends the test, so what a test expects to be thrown it must catch.
std::vector<int> run_ranks(RanksAre kind, int n, const GroupOptions& options, const RankMain& main);

// The same, where all ranks have to end well.
void run_ranks_well(RanksAre kind, int n, const GroupOptions& options, const RankMain& main);

// mapping.cc: whether mappings of one segment are one from now on, and how many are in use by so many ranks.
void share_mappings(bool share);
int mappings_shared_by(int users);

}  // namespace autotune::test
