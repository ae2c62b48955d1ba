// How a rank waits for another one, and everything that may go wrong meanwhile.
//
// In: a condition on shared memory and the rank whose stores make it true. Out: it is true; or a Failure, the same text
// on every rank of the group. Knows no schedules and no payload.
//
// A wait spins (ranks have cores of their own), then yields, then sleeps on the bell of the rank it waits for. Where ranks
// outnumber cores, it spins only for a rank that has another core, and no longer than the kernel takes to change ranks;
// and how often it yields follows from how waits went: between sessions that the kernel schedules as groups
// (autogroup, containers) a yield hands the core to nobody, and 400 of them cost half a millisecond. Whoever
// publishes looks at its `sleepers` after the store, without a fence. That look may pass the store on every CPU, so the
// sleeper makes all running ranks of the group pass a barrier (membarrier(2)) between announcing itself and its last
// look: then either the publisher sees the sleeper or the sleeper sees the word. Without membarrier it naps briefly.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "failure.h"
#include "network.h"
#include "segment.h"

namespace autotune {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Asks for a cache line to write to, and goes on.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

struct WaitPolicy {
  int spins = 0;         // looks before the first yield; 0 where ranks outnumber cores
  int yields = 400;      // yields before the first sleep
  double timeout_s = 30;
};

class Waiting {
 public:
  // `interrupted` is called about ten times a second while waiting; it may throw (Ctrl-C), which ends the group's use.
  // With a network (null for a group on one host) packets are taken and sent between looks.
  Waiting(Segment& segment, int rank, WaitPolicy policy, std::function<void()> interrupted, Network* network = nullptr);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // Whether no other rank has this one's core.
  bool alone() const { return policy_.spins > 0; }
  // Whether ranks of one host outnumber the cores.
  bool crowded() const { return policy_.spins == 0 && !network_; }
  // Whether both were on one core when they last waited. Wrong for a while where the kernel moves them.
  bool shares_core(int rank) const {
    return segment_.line(rank).core.load(std::memory_order_relaxed) == segment_.line(rank_).core.load(std::memory_order_relaxed);
  }

  // Watch for the death of a rank from now on. Its pid must be in its line.
  void watch(int rank);

  // Returns when ready() is true. `inspect()` is called between looks and may call fail(). `doing` says what for.
  template <class Ready, class Inspect, class Doing>
  void until(int source, Ready ready, Inspect inspect, Doing doing) {
    for (int i = 0; i < policy_.spins; i++) {
      if (ready()) return;
      if (network_) [[unlikely]] look_at_network(source);
      else cpu_relax();
    }
    if (crowded() && is_elsewhere(source) && comes_soon(ready)) return;
    const long yields = yields_of_this_wait(source);
    for (long turn = 0;; turn++) {
      if (ready()) {
        learn(turn, yields);
        return;
      }
      if (turn >= kYieldsUnseen || turn >= yields) inspect();
      if (turn < yields) {
        if (!network_ || !look_at_network(source)) yield();
        continue;
      }
      if (turn == yields) start_of_sleep();
      if (const char* lost = trouble(source)) {
        if (ready()) return;  // it did its part before it left
        fail(doing() + ": " + lost, lost_remedy_);
      }
      const std::uint32_t bell = announce(source);
      if (ready()) {
        retract(source);
        return;
      }
      sleep(source, bell);
    }
  }

  // "rank 3", or "rank 3 on hostb" where there are several hosts.
  std::string name_of(int rank) const;

  // Wakes whoever sleeps on this rank. After every release store that others wait for.
  void ring() {
    if (__builtin_expect(segment_.line(rank_).sleepers.load(std::memory_order_relaxed) != 0, 0)) ring_slowly(rank_);
  }

  // Marks the group unusable, wakes everyone, throws the group's first report (this one, or an earlier one).
  [[noreturn]] void fail(const std::string& message, const std::string& remedy);
  // Throws the group's report if there is one.
  void check_usable() const {
    if (__builtin_expect(segment_.group().broken.load(std::memory_order_relaxed) != 0, 0)) throw_report();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Looking at others' records takes lines from those who write them in every call, and most waits end at once.
  static constexpr long kYieldsUnseen = 3;
  static constexpr std::chrono::nanoseconds kChangeOfRanks{1500};

  void yield() const;
  bool is_elsewhere(int source);
  template <class Ready>
  static bool comes_soon(Ready ready) {
    constexpr int kLooksBetween = 8;  // a look at the clock takes as long as some of these
    const Clock::time_point end = Clock::now() + kChangeOfRanks;
    do
      for (int i = 0; i < kLooksBetween; i++) {
        if (ready()) return true;
        cpu_relax();
      }
    while (Clock::now() < end);
    return false;
  }
  // What comes from other hosts while this rank waits for one of its own can wait a little; what it has not sent cannot.
  bool look_at_network(int source) {
    constexpr std::uint32_t kLooksBetween = 8;
    if (network_->remote(source)) return network_->progress(source);
    return (!network_->idle() || ++looks_aside_ % kLooksBetween == 0) && network_->progress();
  }
  long yields_of_this_wait(int source);
  void learn(long turns, long yields);
  void start_of_sleep();
  const char* trouble(int source);
  std::uint32_t announce(int source);
  void retract(int source);
  void sleep(int source, std::uint32_t bell);
  void ring_slowly(int rank);
  void sleep_on_network(int source, std::uint32_t bell);
  void report(const std::string& message, const std::string& remedy);
  [[noreturn]] void throw_report() const;

  Segment& segment_;
  Network* const network_;
  const int rank_;
  const WaitPolicy policy_;
  long yields_;           // before a sleep, as waits have gone lately
  std::uint32_t waits_ = 0;
  std::uint32_t looks_aside_ = 0;
  std::function<void()> interrupted_;
  std::vector<int> pidfds_;  // by rank; -1 where the system cannot watch it
  bool barrier_;             // membarrier works here
  Clock::time_point since_, next_look_;
  int looks_ = 0;
  std::string lost_text_, lost_remedy_;
};

}  // namespace autotune
