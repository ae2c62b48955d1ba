// OutboxStores: what is learnt from costs that are made up here, through both states of a host and back.
#include "outbox_stores.h"

#include <unistd.h>

#include "check.h"
#include "tests.h"

namespace autotune::test {
namespace {

#if defined(__x86_64__)
constexpr std::size_t kBytes = 256 << 10;

struct Costs {
  std::uint64_t cached, streamed;  // ticks of a store, and of a read
  std::uint64_t of(bool is_streamed) const { return is_streamed ? streamed : cached; }
};
constexpr Costs kNear{10'000, 20'000}, kFar{40'000, 20'000};

// Two ranks that make one call after the other. Only rank 0 sends where `one_way`.
class Pair {
 public:
  Pair(const Algorithm& algorithm, bool one_way) : fd_(Segment::create(2, 8 << 20, 0)), segment_(fd_), one_way_(one_way) {
    Arguments arguments;
    arguments.count = kBytes / sizeof(float);
    arguments.segment_bytes = kBytes;
    for (int rank = 0; rank < 2; rank++) calls_.push_back(make_call(algorithm, rank, arguments, 4 << 20));
    CHECK(OutboxStores::learns(calls_[0]), algorithm.name);
  }
  ~Pair() { close(fd_); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // How many of so many calls rank 0 stored past the caches. `delay` is added to what its first store takes.
  int run(int n, Costs costs, std::uint64_t delay = 0) {
    int streamed = 0;
    for (int i = 0; i < n; i++, number_++) {
      const bool first = sender_.begin(calls_[0], number_), second = receiver_.begin(calls_[1], number_);
      sender_.stored(costs.of(first) + (i == 0 ? delay : 0), kBytes);
      receiver_.read(first, costs.of(first), kBytes);
      if (!one_way_) {
        receiver_.stored(costs.of(second), kBytes);
        sender_.read(second, costs.of(second), kBytes);
        CHECK(first == second, "both ranks saw the same costs");
      }
      sender_.end();
      receiver_.end();
      streamed += first;
    }
    return streamed;
  }

 private:
  const int fd_;
  Segment segment_;
  const bool one_way_;
  std::vector<Call> calls_;
  OutboxStores sender_{segment_, 0}, receiver_{segment_, 1};
  std::uint64_t number_ = 1;
};

void check_states(const Algorithm& algorithm, bool one_way) {
  Pair pair(algorithm, one_way);
  constexpr int kMostTries = 5;  // of 128 calls
  CHECK(pair.run(4, kFar) == 0, "pages are touched first");
  pair.run(16, kNear);
  CHECK(pair.run(128, kNear) <= kMostTries, algorithm.name);
  pair.run(16, kFar);
  CHECK(pair.run(128, kFar) >= 128 - kMostTries, algorithm.name);
  pair.run(128, kNear);  // learnt by the next try
  CHECK(pair.run(128, kNear) <= kMostTries, algorithm.name);
  CHECK(pair.run(128, kNear, 1'000'000'000) <= kMostTries, "an interruption");
}
#endif

}  // namespace

void test_outbox_stores(const Programs& programs) {
#if defined(__x86_64__)
  check_states(find(programs, Collective::AllGather, "direct", 2), false);
  check_states(find(programs, Collective::Broadcast, "flat", 2), true);
#else
  Arguments arguments;
  arguments.count = 1 << 20;
  CHECK(!OutboxStores::learns(make_call(find(programs, Collective::AllGather, "direct", 2), 0, arguments, 4 << 20)),
        "there is one way to store");
#endif
}

}  // namespace autotune::test
