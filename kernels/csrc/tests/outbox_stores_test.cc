// OutboxStores: what follows from times that are made up here, through both states of a host and back; and real looks.
#include "outbox_stores.h"

#include <unistd.h>

#include <chrono>

#include "check.h"
#include "tests.h"

namespace autotune::test {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kSoon = 1 << 15, kEvery = 1 << 19, kLong = 1 << 25;  // ticks
constexpr std::uint64_t kMemory = 360, kNear = 110, kAlmost = 320, kFar = 380, kInterrupted = 100'000;

// A rank whose clock stands still between looks.
class Rank {
 public:
  Rank() : fd_(Segment::create(2, 8 << 20, 0)), segment_(fd_), stores_(segment_, 0) {}
  ~Rank() { close(fd_); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  OutboxStores& stores() { return stores_; }
  std::uint64_t looks() { return segment_.line(0).handed.load(); }
  // Whether messages go past the caches after a look, so many ticks after the one before.
  bool after(std::uint64_t ticks, std::uint64_t handover, std::uint64_t memory = kMemory) {
    now_ += ticks;
    CHECK(stores_.due(now_), "it is time to look");
    stores_.found(handover, memory);
    return stores_.past_caches();
  }
  bool due_after(std::uint64_t ticks) { return stores_.due(now_ += ticks); }

 private:
  const int fd_;
  Segment segment_;
  OutboxStores stores_;
  std::uint64_t now_ = std::uint64_t{1} << 40;
};

void check_states() {
  Rank rank;
  CHECK(!rank.after(0, kFar), "lines that nobody has used for long say nothing");
  CHECK(!rank.due_after(kSoon / 2), "readers have not taken the line yet");
  CHECK(rank.after(kSoon, kFar), "the first look that counts decides");
  CHECK(rank.after(kSoon, kNear), "two that differ leave all as it is");
  for (int i = 0; i < 3; i++) CHECK(rank.after(kSoon, kFar), "the majority");
  CHECK(!rank.due_after(kSoon), "enough have voted");
  for (int i = 0; i < 4; i++) CHECK(rank.after(kEvery, kFar), "far");
  for (int i = 0; i < 2; i++) CHECK(rank.after(kEvery, kNear), "at most two of five");
  CHECK(!rank.after(kEvery, kNear), "the cores are near each other now");
  for (int i = 0; i < 5; i++) rank.after(kEvery, kNear);
  for (int i = 0; i < 9; i++) CHECK(!rank.after(kEvery, kAlmost), "a mesh: slow, but not as slow as memory");
  for (int i = 0; i < 9; i++)
    CHECK(!rank.after(kEvery, i % 3 == 0 ? kInterrupted : kNear), "an interruption is not far");
  for (int i = 0; i < 9; i++)
    CHECK(!rank.after(kEvery, kNear, i % 3 == 0 ? 1 : kMemory), "nor is a line that was not in memory");
}

void check_long_pause() {
  Rank rank;
  rank.after(0, kNear);
  for (int i = 0; i < 5; i++) CHECK(!rank.after(kSoon, kNear), "near");
  CHECK(!rank.after(kLong, kFar), "lines that nobody has used for long");
  CHECK(rank.after(kSoon, kFar), "what was before the pause has no vote");
}

// What a look finds is the machine's business; that looks are made, at times of their own and not in every call, is ours.
void check_real_looks() {
  Rank rank;
  constexpr std::uint64_t kLooks = 7;  // one that warms, five votes, and one after them
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::uint64_t calls = 0;
  while (rank.looks() < kLooks && std::chrono::steady_clock::now() < end)
    for (int i = 0; i < 1000; i++, calls++) rank.stores().begin();
  CHECK(rank.looks() >= kLooks, "calls look");
  CHECK(rank.looks() < calls, "not every call looks");
}
#endif

}  // namespace

void test_outbox_stores(const Programs& programs) {
  Arguments arguments;
  const Algorithm& algorithm = find(programs, Collective::AllGather, "direct", 2);
#if defined(__x86_64__)
  arguments.count = OutboxStores::kFromBytes / sizeof(float);
  CHECK(OutboxStores::learns(make_call(algorithm, 0, arguments, 4 << 20)), "a message of that size");
  arguments.outbox = Outbox::Cached;
  CHECK(!OutboxStores::learns(make_call(algorithm, 0, arguments, 4 << 20)), "the caller has said how");
  arguments.outbox = Outbox::Learnt;
  arguments.count /= 2;
  CHECK(!OutboxStores::learns(make_call(algorithm, 0, arguments, 4 << 20)), "small messages stay near");
  check_states();
  check_long_pause();
  check_real_looks();
#else
  arguments.count = 1 << 20;
  CHECK(!OutboxStores::learns(make_call(algorithm, 0, arguments, 4 << 20)), "there is one way to store");
#endif
}

}  // namespace autotune::test
