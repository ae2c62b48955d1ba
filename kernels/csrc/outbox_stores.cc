// See outbox_stores.h.
#include "outbox_stores.h"

#include <numeric>

namespace autotune {
namespace {

// In ticks of the time stamp counter, of which there are 2 to 4 in a nanosecond. A look costs up to half a microsecond.
constexpr std::uint64_t kEvery = std::uint64_t{1} << 19;
constexpr std::uint64_t kSoon = std::uint64_t{1} << 15;  // while few have voted; readers have taken the line by then
constexpr std::uint64_t kForgets = std::uint64_t{1} << 24;

constexpr std::size_t kBlockBytes = 1024;  // around the flushed line there is nothing that anybody uses

#if defined(__x86_64__)
// When everything before it is done.
std::uint64_t ticks() {
  unsigned core;
  __builtin_ia32_lfence();
  const std::uint64_t now = __builtin_ia32_rdtscp(&core);
  __builtin_ia32_lfence();
  return now;
}
#endif

}  // namespace

OutboxStores::OutboxStores(Segment& segment, int rank)
    : segment_(segment),
      rank_(rank),
      block_(std::make_unique<char[]>(kBlockBytes)),
      flushed_(block_.get() + kBlockBytes / 2) {}

bool OutboxStores::learns(const Call& call) {
#if defined(__x86_64__)
  return call.outbox == Outbox::Learnt && !call.codec && !call.plan.fits_in_line && call.plan.slot_bytes >= kFromBytes;
#else
  static_cast<void>(call);
  return false;
#endif
}

bool OutboxStores::begin() {
#if defined(__x86_64__)
  if (due(__builtin_ia32_rdtsc())) look();
#endif
  return past_caches_;
}

bool OutboxStores::due(std::uint64_t now) {
  const std::uint64_t since = now - looked_at_;
  if (since > kForgets) {
    warms_ = true;
    looks_ = 0;
    votes_ = {};
  } else if (since < (looks_ < static_cast<int>(votes_.size()) ? kSoon : kEvery)) {
    return false;
  }
  looked_at_ = now;
  return true;
}

void OutboxStores::look() {
#if defined(__x86_64__)
  __builtin_ia32_mfence();  // what is still to be stored is not this line's delay
  const std::uint64_t first = ticks();
  segment_.line(rank_).handed.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t second = ticks();
  static_cast<void>(*static_cast<volatile char*>(flushed_));
  const std::uint64_t third = ticks();
  __builtin_ia32_clflush(flushed_);
  found(second - first, third - second);
#endif
}

// Far if a line comes from a reader no faster than from memory. Measured, in that time: on a Zen 4 guest 0.3 where cores share
// a cache and 1.0 to 1.1 where they do not; on an Intel guest (a mesh, caches of 2 MiB a core) 0.1 to 0.9, one look in
// twenty above 0.9, and there messages of 64 KiB and more are up to twice as slow past the caches.
void OutboxStores::found(std::uint64_t handover, std::uint64_t memory) {
  if (warms_) {
    warms_ = false;
    return;
  }
  votes_[static_cast<std::size_t>(looks_) % votes_.size()] = 10 * handover > 9 * memory ? 1 : -1;
  looks_++;
  const int sum = std::accumulate(votes_.begin(), votes_.end(), 0);
  if (sum != 0) past_caches_ = sum > 0;
}

}  // namespace autotune
