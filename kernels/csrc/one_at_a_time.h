// The guard of a communicator: one thread at a time. No waiting: the second thread gets an error.
#pragma once

#include <atomic>

#include "failure.h"

namespace autotune {

// Another thread in the same communicator would take this rank's place in the order of calls.
class OneAtATime {
 public:
  explicit OneAtATime(std::atomic_flag& busy) : busy_(busy) {
    if (busy_.test_and_set(std::memory_order_acquire))
      throw BadArgument("two threads use one communicator at once",
                        "give each thread a communicator of its own: calls must come in the same order on all ranks");
  }
  ~OneAtATime() { busy_.clear(std::memory_order_release); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  std::atomic_flag& busy_;
};

}  // namespace autotune
