// The slow path of waiting: sleeping, watching, failing together; see waiting.h.
#include "waiting.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace autotune {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr int kAskAllEvery = 8;  // looks between questions to all other hosts, for the message of a time-out
constexpr long kNapNs = 50'000'000;          // a sleeper looks after its peer's health this often
// Since Linux 6.17 who yields gives up its share of the time, so waits of milliseconds must not be yielded through; and
// between these, 10 are enough for a packet. Measured over 4 hosts with 4 ranks on 2 cores, against 400: 1.1x at 8 B, 2.5-3x
// from 1 MiB; 2 are 1.5x slower at 8 B.
constexpr long kYieldsOnNetwork = 10;
constexpr int kLooksOfOnePacketLook = 40;  // how much longer it takes to look for packets than at a word
constexpr long kNapOnNetworkNs = 500'000;   // the longest that packets wait for a rank that sleeps on one of its own host
constexpr long kNapWithoutBarrierNs = 500'000;  // bounds a lost wake-up where membarrier is not allowed

bool register_barrier() {
  static const bool registered =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return registered;
}

}  // namespace

Waiting::Waiting(Segment& segment, int rank, WaitPolicy policy, std::function<void()> interrupted, Network* network)
    : segment_(segment),
      network_(network),
      rank_(rank),
      policy_(network ? WaitPolicy{policy.spins / kLooksOfOnePacketLook, policy.yields, policy.timeout_s} : policy),
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

// Says where this rank is, too, so that who waits for it knows.
bool Waiting::is_elsewhere(int source) {
  const int core = 1 + sched_getcpu();
  std::atomic<std::int32_t>& mine = segment_.line(rank_).core;
  if (mine.load(std::memory_order_relaxed) != core) mine.store(core, std::memory_order_relaxed);
  return segment_.line(source).core.load(std::memory_order_relaxed) != core;
}

long Waiting::yields_of_this_wait(int source) {
  constexpr std::uint32_t kAllAgain = 64;  // one wait in so many tries them all, to find out that yielding helps again
  const long again = ++waits_ % kAllAgain == 0 ? policy_.yields : yields_;
  return network_ && network_->remote(source) ? std::min(again, kYieldsOnNetwork) : again;
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
  looks_ = 0;
}

const char* Waiting::trouble(int source) {
  check_usable();
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> waited = now - since_;
  const std::string who = name_of(source);
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
  looks_++;
  for (int rank = 0; network_ && rank < segment_.n_ranks(); rank++)
    if (network_->remote(rank) && (rank == source || looks_ % kAskAllEvery == 0)) network_->ask(rank);
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
    lost_text_ = name_of(rank) + " (pid " + std::to_string(segment_.line(rank).pid.load()) + ") died";
    lost_remedy_ = "look at the output of rank " + std::to_string(rank) + " for why it ended";
    return lost_text_.c_str();
  }
  const int lost = network_ ? network_->lost() : -1;
  if (lost < 0) return nullptr;
  lost_text_ = name_of(lost) + " died, or the network to it broke (" + network_->why_lost(lost) + ")";
  lost_remedy_ = "look at the output of rank " + std::to_string(lost) + " for why it ended, and at that host's network";
  return lost_text_.c_str();
}

std::string Waiting::name_of(int rank) const { return network_ ? network_->name_of(rank) : "rank " + std::to_string(rank); }

// With a network a rank has to take its packets while it waits, whomever it waits for: others may wait for what it has
// not sent yet. Returns after a while, or when something came.
void Waiting::sleep_on_network(int source, std::uint32_t bell) {
  if (network_->remote(source)) {
    network_->sleep(std::chrono::milliseconds(5));
  } else {
    const timespec nap{0, kNapOnNetworkNs};
    syscall(SYS_futex, &segment_.line(source).bell, FUTEX_WAIT, bell, &nap, nullptr, 0);
  }
  network_->progress();
}

std::uint32_t Waiting::announce(int source) {
  if (network_ && network_->remote(source)) return 0;
  RankLine& line = segment_.line(source);
  const std::uint32_t bell = line.bell.load();
  line.sleepers.fetch_add(1);
  if (barrier_) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  return bell;
}

void Waiting::retract(int source) {
  if (network_ && network_->remote(source)) return;
  segment_.line(source).sleepers.fetch_sub(1);
}

void Waiting::sleep(int source, std::uint32_t bell) {
  if (network_) {
    sleep_on_network(source, bell);
    retract(source);
    return;
  }
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
  if (!segment_.report(rank_, message, remedy)) return;
  for (int rank = 0; rank < segment_.n_ranks(); rank++) ring_slowly(rank);
  if (network_) network_->spread({message, remedy}, rank_);
}

void Waiting::throw_report() const {
  const GroupHeader& group = segment_.group();
  // The reporter writes a few hundred bytes between 1 and 2; if it dies there, say at least that much.
  for (int turn = 0; group.broken.load() != 2 && turn < 10'000; turn++) sched_yield();
  if (group.broken.load() != 2) throw Failure("the group was broken by a rank that died", "start the ranks again");
  std::string message = group.report;
  if (group.reporter != rank_) message += " (reported by " + name_of(group.reporter) + ")";
  throw Failure(message, group.remedy);
}

}  // namespace autotune
