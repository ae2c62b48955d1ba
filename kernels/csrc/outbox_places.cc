// Where the messages of a call lie, in banks or outboxes, and what outboxes are waited for; see group.h.
//
// In: a call that has begun. Out: the place of its messages, the same on all ranks, and pages under it. Stores no message.
#include <sys/mman.h>

#include <algorithm>

#include "group.h"

#ifndef MADV_POPULATE_READ  // glibc before 2.35
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace autotune {
namespace {

// Messages of this size on go round a part of each half of the outbox, call by call (segment.cc). Smaller ones gain more
// from lines that are still near.
constexpr std::size_t kRotatedFromBytes = 4 << 10;
constexpr std::size_t kHostsRotationBytes = 256 << 10;

}  // namespace

// Where this call's messages lie.
//
// In an exchange a rank writes where it has read the other's last message of the slot: those lines are in its cache already,
// and come to the reader, who writes to them next, in one trip. Written where they were before, each line is asked back from
// the reader first. 2 ranks that share a last-level cache, halves over exchanges: 2.0 and 2.2 at 64 KiB of all_gather and
// all_reduce, 1.7 at 256 KiB, 2.0 to 2.4 from 4 to 16 KiB. Without such a cache, plain copies of 32 KiB took 3.4 us so and
// 4.1 past the caches.
void Group::take_place(const Call& call) {
  const Plan& plan = call.plan;
  rotation_ = 0;
  if (in_banks_) {
    if (plan.fits_in_line || banks_touched_ || call.program->readers.empty()) return;
    banks_touched_ = true;
    madvise(segment_.bank(rank_, 0), kBanks * kBankBytes, MADV_POPULATE_WRITE);  // as in populate()
    return;
  }
  // Slots of the same layout are left by the program's own order. Where another kind of call or another layout has used
  // the same bytes, its readers must have gone.
  const std::size_t slots = exchanges_ ? plan.window * plan.in_flight : 0, slot_bytes = exchanges_ ? plan.slot_bytes : 0;
  if (slots != outbox_slots_ || slot_bytes != outbox_slot_bytes_)
    await_everyone(outbox_end_);
  outbox_slots_ = slots;
  outbox_slot_bytes_ = slot_bytes;
  outbox_end_ = epoch_ + plan.waves;
  if (exchanges_ || plan.slot_bytes < kRotatedFromBytes) return;
  // A single slice of few levels begins with the first slot, and its last level announces nothing.
  const std::size_t filled = plan.slices == 1 && plan.window == plan.waves
                                 ? std::max<std::size_t>(1, plan.waves - 1) * plan.slot_bytes
                                 : plan.window * plan.in_flight * plan.slot_bytes;
  const std::size_t turns = rotation_bytes() / filled;
  rotation_ = (call_ >> 1) % std::max<std::size_t>(1, turns) * filled;
  populate();
}

// Touches the outboxes before the rotation does, page by page, in calls that somebody times: one's own at the first call
// that rotates, the others' two calls later, when their owners have done so. Where the kernel cannot (before 5.14), pages
// come one by one.
void Group::populate() {
  if (rotated_calls_ == 3 || rotation_bytes() == 0) return;
  rotated_calls_++;
  for (int rank = 0; rank < n_ranks(); rank++) {
    const bool own = rank == rank_;
    if (remote(rank)) continue;
    if (rotated_calls_ != (own ? 1 : 3)) continue;
    for (int half = 0; half < 2; half++)
      madvise(segment_.outbox(rank, half), rotation_bytes(), own ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  }
}

// Ranks on several hosts have segments of several makers, and one place for a message.
std::size_t Group::rotation_bytes() const {
  return network_ ? std::min(kHostsRotationBytes, segment_.half_bytes()) : segment_.rotation_bytes();
}

}  // namespace autotune
