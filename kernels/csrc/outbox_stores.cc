// See outbox_stores.h.
#include "outbox_stores.h"

#include <algorithm>

namespace autotune {
namespace {

constexpr std::uint64_t kWarmingCalls = 4;  // of a signature: they touch pages, and say nothing of stores
constexpr std::uint64_t kFirstPairs = 3, kFirstPeriod = 4, kPeriod = 64;
// Large messages come seldom, so that the host may have changed long before 64 calls are through; and a try, which is up to
// twice as slow, is one of 16 then.
constexpr std::size_t kLargeBytes = 512 << 10;
constexpr std::uint64_t kLargePeriod = 16;
constexpr int kCostBits = 22, kCostShift = 6;  // ticks are shown in units of 64
constexpr std::uint64_t kMostCost = (std::uint64_t{1} << kCostBits) - 1;

enum class Turn { Plain, TryCached, TryStreamed, Decide };

// The pair at the end of a period, then a call in which the others come to show what they found, then the decision.
Turn turn_of(std::uint64_t calls, std::uint64_t later_period) {
  if (calls < kWarmingCalls) return Turn::Plain;
  const std::uint64_t at = calls - kWarmingCalls, first = kFirstPairs * kFirstPeriod;
  const std::uint64_t period = at < first ? kFirstPeriod : later_period;
  const std::uint64_t left = period - (at < first ? at : at - first) % period;
  return left == 4 ? Turn::TryCached : left == 3 ? Turn::TryStreamed : left == 1 ? Turn::Decide : Turn::Plain;
}

// The middle of the tries; of two the lower one. Nothing makes a copy faster by chance, an interruption makes it slower.
std::uint64_t middle(std::array<std::uint64_t, 3> costs) {
  std::sort(costs.begin(), costs.end());
  if (costs[1] == 0) return costs[2];
  return costs[1];
}

}  // namespace

bool OutboxStores::learns(const Call& call) {
#if defined(__x86_64__)
  return call.outbox == Outbox::Learnt && !call.codec && !call.plan.fits_in_line && call.plan.slot_bytes >= kFromBytes;
#else
  static_cast<void>(call);
  return false;
#endif
}

bool OutboxStores::begin(const Call& call) {
  entry_ = &entries_[call.signature % kLearntCalls];
  if (entry_->signature != call.signature) {
    *entry_ = Entry{};
    entry_->signature = call.signature;
  }
  const bool large = call.plan.slices * call.plan.slot_bytes >= kLargeBytes;  // equal on all ranks, as the plan is
  const Turn turn = turn_of(entry_->calls, large ? kLargePeriod : kPeriod);
  if (turn == Turn::Decide) decide(*entry_);
  tries_ = turn == Turn::TryCached || turn == Turn::TryStreamed;
  streamed_ = tries_ ? turn == Turn::TryStreamed : entry_->streamed;
  ticks_ = 0;
  return streamed_;
}

void OutboxStores::end() {
  entry_->calls++;
  if (!tries_) return;
  auto& costs = entry_->costs[streamed_];
  std::rotate(costs.begin(), costs.begin() + 1, costs.end());
  costs.back() = std::clamp<std::uint64_t>(ticks_ >> kCostShift, 1, kMostCost);
  if (streamed_) show(*entry_);
}

void OutboxStores::show(const Entry& entry) const {
  const std::uint64_t word =
      entry.signature << 2 * kCostBits | middle(entry.costs[0]) << kCostBits | middle(entry.costs[1]);
  segment_.line(rank_).copy_costs[entry.signature % kLearntCalls].store(word, std::memory_order_relaxed);
}

// What all ranks copy, together. Streamed only where a tenth is to be won. As before where a rank has not shown its costs.
void OutboxStores::decide(Entry& entry) const {
  std::uint64_t cached = 0, streamed = 0;
  for (int rank = 0; rank < segment_.n_ranks(); rank++) {
    const std::uint64_t word =
        segment_.line(rank).copy_costs[entry.signature % kLearntCalls].load(std::memory_order_relaxed);
    if (word >> 2 * kCostBits != entry.signature) return;
    cached += word >> kCostBits & kMostCost;
    streamed += word & kMostCost;
  }
  entry.streamed = 10 * streamed < 9 * cached;
}

}  // namespace autotune
