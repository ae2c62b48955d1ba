// The guard of a communicator: one thread at a time. No waiting: the second thread gets an error.
#pragma once

#include <atomic>

#include "failure.h"

namespace autotune {

// Another thread in the same communicator would take this rank's place in the order of calls. Looked at and set in two
// steps: an exchange would wait until the message of the call before is in the cache, which then still comes from its
// reader. So two threads that come within the same few nanoseconds are not told; one that comes during a call is.
class OneAtATime {
 public:
  explicit OneAtATime(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.load(std::memory_order_acquire))
      throw BadArgument("two threads use one communicator at once",
                        "give each thread a communicator of its own: calls must come in the same order on all ranks");
    busy_.store(true, std::memory_order_relaxed);
  }
  ~OneAtATime() { busy_.store(false, std::memory_order_release); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  std::atomic<bool>& busy_;
};

}  // namespace autotune
