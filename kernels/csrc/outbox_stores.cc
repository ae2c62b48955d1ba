// See outbox_stores.h.
#include "outbox_stores.h"

#include <algorithm>
#include <bit>

namespace autotune {
namespace {

constexpr std::uint32_t kWarmingCalls = 4;  // of a class: they touch pages, and say nothing of stores
constexpr int kTryEveryBits = 6;            // one call in 64 tries each way
constexpr std::uint64_t kUnitBytes = 64 << 10;

// A sample that is lower counts at once, since nothing makes a copy faster by chance. One that is higher may be an
// interruption: it moves the figure by an eighth at most.
std::uint32_t learnt(std::uint32_t known, std::uint64_t ticks, std::uint64_t bytes) {
  const std::uint64_t sample = std::clamp<std::uint64_t>(ticks * kUnitBytes / bytes, 1, UINT32_MAX / 2);
  if (known == 0 || sample <= known) return static_cast<std::uint32_t>(sample);
  return static_cast<std::uint32_t>(known + (std::min<std::uint64_t>(sample, 2 * std::uint64_t{known}) - known + 7) / 8);
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

bool OutboxStores::begin(const Call& call, std::uint64_t number) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;  // spreads the tries, so that they meet every kind of call
  const int bits = std::bit_width(call.plan.slices * call.plan.slot_bytes / kFromBytes);
  class_ = std::min<std::size_t>(static_cast<std::size_t>(bits) - 1, kCostClasses - 1);
  stored_ = {};
  read_ = {};
  Class& known = classes_[class_];
  if (known.calls < kWarmingCalls) {
    streamed_ = false;
  } else if (const std::uint64_t turn = number * kGolden >> (64 - kTryEveryBits); turn < 2 || known.calls < kWarmingCalls + 2) {
    streamed_ = (known.calls < kWarmingCalls + 2 ? known.calls - kWarmingCalls : turn) == 1;
  } else {
    streamed_ = cheaper_past_caches(*call.program);
  }
  return streamed_;
}

void OutboxStores::stored(std::uint64_t ticks, std::size_t bytes) {
  stored_.ticks += ticks;
  stored_.bytes += bytes;
}

void OutboxStores::read(bool streamed, std::uint64_t ticks, std::size_t bytes) {
  read_[streamed].ticks += ticks;
  read_[streamed].bytes += bytes;
}

void OutboxStores::end() {
  Class& known = classes_[class_];
  if (known.calls < kWarmingCalls + 2) known.calls++;
  if (known.calls <= kWarmingCalls) return;
  if (stored_.bytes) known.stores[streamed_] = learnt(known.stores[streamed_], stored_.ticks, stored_.bytes);
  for (std::size_t way = 0; way < read_.size(); way++) {
    if (!read_[way].bytes) continue;
    known.reads[way] = learnt(known.reads[way], read_[way].ticks, read_[way].bytes);
    // Shown only where it has changed: a store takes the line from those who look at it.
    auto& shown = segment_.line(rank_).read_costs[class_][way];
    const std::uint32_t last = shown.load(std::memory_order_relaxed), now = known.reads[way];
    if (now > last + last / 8 || now + last / 8 < last) shown.store(now, std::memory_order_relaxed);
  }
}

// Cached where something is not known, or where little is to be won.
bool OutboxStores::cheaper_past_caches(const Program& program) const {
  const Class& known = classes_[class_];
  std::uint64_t cached = 0, streamed = 0;  // of the slowest reader
  for (std::int32_t reader : program.readers) {
    const auto& costs = segment_.line(reader).read_costs[class_];
    const std::uint32_t in = costs[0].load(std::memory_order_relaxed), past = costs[1].load(std::memory_order_relaxed);
    if (!in || !past) return false;
    cached = std::max<std::uint64_t>(cached, in);
    streamed = std::max<std::uint64_t>(streamed, past);
  }
  if (!cached || !known.stores[0] || !known.stores[1]) return false;
  return 10 * (streamed + known.stores[1]) < 9 * (cached + known.stores[0]);
}

}  // namespace autotune
