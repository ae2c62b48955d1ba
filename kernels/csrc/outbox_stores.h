// How this rank stores its messages: through the caches, or past them; learnt from what both have cost here lately.
//
// In: how long stores to the own outbox and reads of others' took. Out: which way the next call stores. What readers saw
// is shared (RankLine::read_costs), since who only sends never sees it. Advice only: either way is right at any time, and
// each rank decides for itself.
//
// Cores that share a last-level cache hand lines over faster than memory does, others several times slower, and a virtual
// machine's cores change from one to the other within seconds. all_reduce of 64 KiB, 2 ranks, a Zen 4 guest: 6.1 us
// cached and 10.8 streamed in the one state, 27.9 and 10.8 in the other (medians of 520 and 109 rounds).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "call.h"
#include "segment.h"

namespace autotune {

class OutboxStores {
 public:
  static constexpr std::size_t kFromBytes = 4 << 10;  // messages below are cached: they stay near

  OutboxStores(Segment& segment, int rank) : segment_(segment), rank_(rank) {}

  // Whether messages of this size are learnt about; false where the CPU has no stores past the caches.
  static bool learns(const Call& call);

  // Begins a call; whether its messages go past the caches. `number` is that of the call, the same on every rank: now and
  // then all try the same way, to see what it costs now.
  bool begin(const Call& call, std::uint64_t number);
  void stored(std::uint64_t ticks, std::size_t bytes);
  void read(bool streamed, std::uint64_t ticks, std::size_t bytes);
  // Ends the call: what was counted becomes known.
  void end();

  static std::uint64_t ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
  }

 private:
  struct Counted {
    std::uint64_t ticks = 0, bytes = 0;
  };
  struct Class {
    std::uint32_t calls = 0;
    std::array<std::uint32_t, 2> stores{}, reads{};  // ticks for 64 KiB, by way; 0: not known
  };

  bool cheaper_past_caches(const Program& program) const;

  Segment& segment_;
  const int rank_;
  std::array<Class, kCostClasses> classes_{};
  std::size_t class_ = 0;  // of the call that is under way
  bool streamed_ = false;
  Counted stored_;
  std::array<Counted, 2> read_;
};

}  // namespace autotune
