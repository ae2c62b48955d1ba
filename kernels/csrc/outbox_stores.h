// How messages are stored: through the caches, or past them, as the other ranks' caches are near or far at the moment.
//
// In: how long a line takes from a reader's cache and from memory. Out: the way of the calls until the next look, a few
// thousand a second at most. Every rank looks for itself: it is advice only, either way is right at any time.
//
// Cores that share a last-level cache hand lines over faster than memory does, others do not, and a virtual machine's cores
// change from one to the other within seconds. Messages of 32 KiB each way, 2 ranks, a Zen 4 guest: 3.0 us cached and 5.0
// streamed in the one state, 16.2 and 4.9 in the other. (Two ranks that exchange do not come here: outbox_places.cc.) What
// copies cost does not tell the states apart: a store through the caches after many past them finds its lines in memory,
// and is slow in both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "call.h"
#include "segment.h"

namespace autotune {

class OutboxStores {
 public:
  static constexpr std::size_t kFromBytes = 4 << 10;  // messages below are cached: they stay near

  OutboxStores(Segment& segment, int rank);

  // Whether there is something to learn; not where the CPU has no stores past the caches.
  static bool learns(const Call& call);

  // Begins a wave of a call that learns, of a rank that others read; whether its messages go past the caches.
  bool begin();
  // A message of that rank is here, and so its line shall be, until it looks again.
  void take_line(int source) const { __builtin_prefetch(&segment_.line(source).handed); }

  // What begin() does, with the times given, in ticks: whether to look now, and what was found.
  bool due(std::uint64_t now);
  void found(std::uint64_t handover, std::uint64_t memory);
  bool past_caches() const { return past_caches_; }

 private:
  void look();

  Segment& segment_;
  const int rank_;
  std::unique_ptr<char[]> block_;  // a line of it is in no cache from look to look
  char* flushed_;
  std::uint64_t looked_at_ = 0;
  bool warms_ = false;  // the latest look found lines that nobody had used for long, and says nothing
  int looks_ = 0;       // that count
  std::array<int, 5> votes_{};  // of the latest looks; 1: far
  bool past_caches_ = false;
};

}  // namespace autotune
