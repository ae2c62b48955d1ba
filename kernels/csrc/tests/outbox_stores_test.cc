// OutboxStores: what is learnt from costs that are made up here, through both states of a host and back.
#include "outbox_stores.h"

#include <unistd.h>

#include "check.h"
#include "tests.h"

namespace autotune::test {
namespace {

#if defined(__x86_64__)
constexpr std::size_t kBytes = 256 << 10, kLargeBytes = 1 << 20;

struct Costs {
  std::uint64_t cached, streamed;  // ticks of a store, and of a read
  std::uint64_t of(bool is_streamed) const { return is_streamed ? streamed : cached; }
};
constexpr Costs kNear{10'000, 20'000}, kFar{40'000, 20'000};
constexpr int kMostTries = 2;  // of 128 calls

// Two ranks that make one call after the other.
class Pair {
 public:
  Pair(const Algorithm& algorithm, std::size_t bytes) : fd_(Segment::create(2, 8 << 20, 0)), segment_(fd_) {
    Arguments arguments;
    arguments.count = bytes / sizeof(float);
    arguments.segment_bytes = kBytes;
    for (int rank = 0; rank < 2; rank++) calls_.push_back(make_call(algorithm, rank, arguments, 4 << 20));
    CHECK(OutboxStores::learns(calls_[0]), algorithm.name);
  }
  ~Pair() { close(fd_); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // How many of so many calls were stored past the caches. In the call number `slow_at` of these rank 0 is interrupted.
  int run(int n, Costs first, Costs second, int slow_at = -1) {
    int streamed = 0;
    for (int i = 0; i < n; i++) {
      const bool way = ranks_[0].begin(calls_[0]);
      CHECK(ranks_[1].begin(calls_[1]) == way, "both ranks saw the same costs");
      CHECK(ranks_[0].tries() == ranks_[1].tries(), "both ranks count alike");
      ranks_[0].count(first.of(way) + (i == slow_at ? 1'000'000'000 : 0));
      ranks_[1].count(second.of(way));
      for (OutboxStores& rank : ranks_) rank.end();
      streamed += way;
    }
    return streamed;
  }

 private:
  const int fd_;
  Segment segment_;
  std::vector<Call> calls_;
  OutboxStores ranks_[2] = {{segment_, 0}, {segment_, 1}};
};

void check_states(const Algorithm& algorithm) {
  Pair pair(algorithm, kBytes);
  CHECK(pair.run(4, kFar, kFar) == 0, "pages are touched first");
  pair.run(12, kNear, kNear);
  CHECK(pair.run(128, kNear, kNear) <= kMostTries, algorithm.name);
  pair.run(192, kFar, kFar);
  CHECK(pair.run(128, kFar, kFar) >= 128 - kMostTries, algorithm.name);
  pair.run(192, kNear, kNear);
  for (int slow_at = 0; slow_at < 64; slow_at++)
    CHECK(pair.run(256, kNear, kNear, slow_at) <= 2 * kMostTries, "an interruption");
  // What one rank loses counts against what the other one gains.
  pair.run(192, {10'000, 11'000}, {40'000, 20'000});
  CHECK(pair.run(128, {10'000, 11'000}, {40'000, 20'000}) >= 128 - kMostTries, algorithm.name);
  pair.run(192, {10'000, 45'000}, {40'000, 20'000});
  CHECK(pair.run(128, {10'000, 45'000}, {40'000, 20'000}) <= kMostTries, algorithm.name);
}

// What comes seldom is tried more often.
void check_large(const Algorithm& algorithm) {
  Pair pair(algorithm, kLargeBytes);
  pair.run(48, kNear, kNear);
  CHECK(pair.run(32, kNear, kNear) <= 2, algorithm.name);
  pair.run(48, kFar, kFar);
  CHECK(pair.run(32, kFar, kFar) >= 32 - 2, algorithm.name);
  pair.run(48, kNear, kNear);
  CHECK(pair.run(32, kNear, kNear) <= 2, algorithm.name);
}
#endif

}  // namespace

void test_outbox_stores(const Programs& programs) {
#if defined(__x86_64__)
  check_states(find(programs, Collective::AllGather, "direct", 2));
  check_large(find(programs, Collective::AllGather, "direct", 2));
#else
  Arguments arguments;
  arguments.count = 1 << 20;
  CHECK(!OutboxStores::learns(make_call(find(programs, Collective::AllGather, "direct", 2), 0, arguments, 4 << 20)),
        "there is one way to store");
#endif
}

}  // namespace autotune::test
