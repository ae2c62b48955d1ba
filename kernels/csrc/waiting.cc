// The slow path of waiting: sleeping, watching, failing together; see waiting.h.
#include "waiting.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace autotune {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr long kNapNs = 50'000'000;          // a sleeper looks after its peer's health this often
constexpr long kNapWithoutBarrierNs = 500'000;  // bounds a lost wake-up where membarrier is not allowed

bool register_barrier() {
  static const bool registered =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return registered;
}

void copy_text(char* to, const std::string& text) {
  const std::size_t length = std::min<std::size_t>(text.size(), kReportBytes - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

Waiting::Waiting(Segment& segment, int rank, WaitPolicy policy, std::function<void()> interrupted)
    : segment_(segment),
      rank_(rank),
      policy_(policy),
      yields_(policy.yields),
      interrupted_(std::move(interrupted)),
      pidfds_(static_cast<std::size_t>(segment.n_ranks()), -1),
      barrier_(register_barrier()) {}

Waiting::~Waiting() {
  for (int fd : pidfds_)
    if (fd >= 0) close(fd);
}

void Waiting::watch(int rank) {
  const int pid = segment_.line(rank).pid.load();
  // Ranks may be threads of one process, and pid namespaces hide pids: then only the time-out is left.
  if (pid > 0 && pid != getpid())
    pidfds_[static_cast<std::size_t>(rank)] = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

void Waiting::yield() const { sched_yield(); }

long Waiting::yields_of_this_wait() {
  constexpr std::uint32_t kAllAgain = 64;  // one wait in so many tries them all, to find out that yielding helps again
  return ++waits_ % kAllAgain == 0 ? policy_.yields : yields_;
}

// After a wait that took so many turns: twice as many yields as were enough, or half as many if none were.
void Waiting::learn(long turns, long yields) {
  constexpr long kLeast = 4;
  if (policy_.spins != 0) return;
  if (turns > yields) yields_ = std::max(std::min(kLeast, static_cast<long>(policy_.yields)), yields_ / 2);
  else yields_ = std::min(static_cast<long>(policy_.yields), std::max(yields_, 2 * turns + kLeast));
}

void Waiting::start_of_sleep() {
  since_ = Clock::now();
  next_look_ = since_ + kLookEvery;
}

const char* Waiting::trouble(int source) {
  check_usable();
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> waited = now - since_;
  const std::string who = "rank " + std::to_string(source);
  if (waited.count() > policy_.timeout_s) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3g", policy_.timeout_s);
    lost_text_ = "no sign of " + who + " for " + seconds + " s";
    lost_remedy_ = "look at what " + who + " is doing; if it is only slow, raise AUTOTUNE_TIMEOUT";
    return lost_text_.c_str();
  }
  if (now < next_look_) return nullptr;
  next_look_ = now + kLookEvery;
  try {
    if (interrupted_) interrupted_();
  } catch (...) {
    report("rank " + std::to_string(rank_) + " was interrupted while it waited for " + who, "start the ranks again");
    throw;
  }
  RankLine& line = segment_.line(source);
  if (line.presence.load() == static_cast<std::uint32_t>(Presence::Left)) {
    lost_text_ = who + " has closed its communicator";
    lost_remedy_ = "make the same calls on every rank before closing";
    return lost_text_.c_str();
  }
  // Any rank may be the one that everybody is waiting for in the end, so all are looked at.
  for (int rank = 0; rank < segment_.n_ranks(); rank++) {
    pollfd entry{pidfds_[static_cast<std::size_t>(rank)], POLLIN, 0};
    if (entry.fd < 0 || poll(&entry, 1, 0) != 1) continue;
    if (segment_.line(rank).presence.load() == static_cast<std::uint32_t>(Presence::Left)) continue;
    lost_text_ = "rank " + std::to_string(rank) + " (pid " + std::to_string(segment_.line(rank).pid.load()) + ") died";
    lost_remedy_ = "look at the output of rank " + std::to_string(rank) + " for why it ended";
    return lost_text_.c_str();
  }
  return nullptr;
}

std::uint32_t Waiting::announce(int source) {
  RankLine& line = segment_.line(source);
  const std::uint32_t bell = line.bell.load();
  line.sleepers.fetch_add(1);
  if (barrier_) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  return bell;
}

void Waiting::retract(int source) { segment_.line(source).sleepers.fetch_sub(1); }

void Waiting::sleep(int source, std::uint32_t bell) {
  const timespec nap{0, barrier_ ? kNapNs : kNapWithoutBarrierNs};
  syscall(SYS_futex, &segment_.line(source).bell, FUTEX_WAIT, bell, &nap, nullptr, 0);
  retract(source);
}

void Waiting::ring_slowly(int rank) {
  RankLine& line = segment_.line(rank);
  line.bell.fetch_add(1);
  syscall(SYS_futex, &line.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Waiting::fail(const std::string& message, const std::string& remedy) {
  report(message, remedy);
  throw_report();
}

void Waiting::report(const std::string& message, const std::string& remedy) {
  GroupHeader& group = segment_.group();
  std::uint32_t whole = 0;
  if (group.broken.compare_exchange_strong(whole, 1)) {
    group.reporter = rank_;
    copy_text(group.report, message);
    copy_text(group.remedy, remedy);
    group.broken.store(2);
    for (int rank = 0; rank < segment_.n_ranks(); rank++) ring_slowly(rank);
  }
}

void Waiting::throw_report() const {
  const GroupHeader& group = segment_.group();
  // The reporter writes a few hundred bytes between 1 and 2; if it dies there, say at least that much.
  for (int turn = 0; group.broken.load() != 2 && turn < 10'000; turn++) sched_yield();
  if (group.broken.load() != 2) throw Failure("the group was broken by a rank that died", "start the ranks again");
  std::string message = group.report;
  if (group.reporter != rank_) message += " (reported by rank " + std::to_string(group.reporter) + ")";
  throw Failure(message, group.remedy);
}

}  // namespace autotune
