// How messages are stored: through the caches, or past them; learnt from what both cost here, call by call.
//
// In: how long a rank copied and combined in calls that try a way. Out: the way of the other calls of the same arguments.
// What each rank found is shared (RankLine::copy_costs), since who only sends never sees what reading costs. It is advice
// only: either way is right at any time.
//
// Cores that share a last-level cache hand lines over faster than memory does, others several times slower, and a virtual
// machine's cores change from one to the other within seconds. all_reduce of 64 KiB, 2 ranks, a Zen 4 guest: 6.1 us
// cached and 10.8 streamed in the one state, 27.9 and 10.8 in the other (medians of 520 and 109 rounds).
//
// Calls of one signature try in pairs, one way and then the other, since what a copy costs depends on what else is in the
// caches too: only neighbours compare. Every rank counts these calls alike, so all try, and decide, at the same ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "call.h"
#include "segment.h"

namespace autotune {

class OutboxStores {
 public:
  static constexpr std::size_t kFromBytes = 4 << 10;  // messages below are cached: they stay near

  OutboxStores(Segment& segment, int rank) : segment_(segment), rank_(rank), entries_(kLearntCalls) {}

  // Whether there is something to learn; not where the CPU has no stores past the caches.
  static bool learns(const Call& call);

  // Begins a call that learns; whether its messages go past the caches.
  bool begin(const Call& call);
  // Whether that call is a try, whose copies are to be counted.
  bool tries() const { return tries_; }
  void count(std::uint64_t ticks) { ticks_ += ticks; }
  // Ends it.
  void end();

  static std::uint64_t ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
  }

 private:
  struct Entry {
    std::uint64_t signature = ~std::uint64_t{0};
    std::uint64_t calls = 0;
    bool streamed = false;
    std::array<std::array<std::uint64_t, 3>, 2> costs{};  // of the latest tries, by way
  };

  void show(const Entry& entry) const;
  void decide(Entry& entry) const;

  Segment& segment_;
  const int rank_;
  std::vector<Entry> entries_;
  Entry* entry_ = nullptr;  // of the call that is under way
  bool tries_ = false;
  bool streamed_ = false;
  std::uint64_t ticks_ = 0;
};

}  // namespace autotune
