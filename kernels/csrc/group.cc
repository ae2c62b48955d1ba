// A rank's life in its group, and a call's way through the waves; see group.h for the protocol. level.cc carries the
// instructions out, agreement.cc says what ranks disagree in, symmetric.cc has the memory that all share, single_copy.cc
// reads what nobody shares, point_to_point.cc sends.
#include "group.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "one_at_a_time.h"
#include "wave.h"

namespace autotune {
namespace {

// However a call ends, nothing that arrives afterwards is written to its caller's buffers, and nothing is sent from them.
struct BuffersEnd {
  explicit BuffersEnd(Network* network) : network_(network) {}
  ~BuffersEnd() {
    if (!network_) return;
    network_->forget_landings();
    if (!network_->idle()) network_->drop_unsent();
  }
  BuffersEnd(const BuffersEnd&) = delete;
  BuffersEnd& operator=(const BuffersEnd&) = delete;

 private:
  Network* const network_;
};

constexpr std::uint64_t kChain = 0x9E3795;         // odd, so that a difference once in the chain stays

// The core to which this thread is bound; -1 where it may run on several, or the kernel does not say.
int only_core() {
  cpu_set_t cores[8];  // 8192 of them
  CPU_ZERO_S(sizeof cores, cores);
  if (sched_getaffinity(0, sizeof cores, cores) != 0 || CPU_COUNT_S(sizeof cores, cores) != 1) return -1;
  int core = 0;
  while (!CPU_ISSET_S(static_cast<std::size_t>(core), sizeof cores, cores)) core++;
  return core;
}

}  // namespace

Group::Group(int fd, int rank, GroupOptions options)
    : network_(std::move(options.network)),
      segment_(fd, network_ ? network_->remote() : std::vector<bool>{}),
      rank_(rank),
      waiting_(segment_, rank, options.waiting, std::move(options.interrupted), network_.get()),
      check_(options.check),
      arithmetic_(arithmetic()),
      transcoder_(arithmetic_),
      outbox_stores_(segment_, rank),
      seen_clock_(static_cast<std::size_t>(segment_.n_ranks()), 0),
      sent_pieces_(static_cast<std::size_t>(segment_.n_ranks()), 0),
      received_pieces_(static_cast<std::size_t>(segment_.n_ranks()), 0) {
  if (rank < 0 || rank >= n_ranks())
    throw BadArgument("rank " + std::to_string(rank) + " is not in a group of " + std::to_string(n_ranks()),
                      "give each process a rank from 0 to " + std::to_string(n_ranks() - 1));
  RankLine& line = segment_.line(rank);
  own_pid_ = static_cast<std::int32_t>(getpid());
  line.pid.store(own_pid_);
  announce_probe();
  line.only_core.store(1 + only_core());
  line.clock.store(1);
  std::uint32_t absent = static_cast<std::uint32_t>(Presence::Absent);
  if (!line.presence.compare_exchange_strong(absent, static_cast<std::uint32_t>(Presence::Joined)))
    waiting_.fail("two processes joined as rank " + std::to_string(rank), "give each process a rank of its own");
  waiting_.ring();
  if (network_) network_->attach(segment_);
  for (int other = 0; other < n_ranks(); other++) {
    const auto& presence = segment_.line(other).presence;
    waiting_.until(
        other, [&] { return presence.load() != static_cast<std::uint32_t>(Presence::Absent); }, [] {},
        [&] { return "rank " + std::to_string(rank_) + " waits for rank " + std::to_string(other) + " to join" + refusals(); });
    waiting_.watch(other);
  }
  try_single_copy();
}

std::vector<int> Group::only_cores() const {
  std::vector<int> cores;
  for (int other = 0; other < n_ranks(); other++) cores.push_back(segment_.line(other).only_core.load() - 1);
  return cores;
}

Group::~Group() {
  leave();
  release_network();
}

void Group::leave() {
  RankLine& line = segment_.line(rank_);
  if (line.pid.load() != static_cast<std::int32_t>(getpid())) return;  // a forked child's copy: the rank is its parent
  if (line.presence.exchange(static_cast<std::uint32_t>(Presence::Left)) == static_cast<std::uint32_t>(Presence::Left))
    return;
  waiting_.ring();
  if (network_) leave_network();
}

void Group::run(const Call& call, const void* input, void* output, const Splits* splits, void* residual) {
  const OneAtATime guard(busy_);
  const BuffersEnd buffers_end(network_.get());
  const Program& program = *call.program;
  Places shared{};
  const Places* where = nullptr;
  if (program.single_copy && !single_copy_fault_.empty())
    throw BadArgument("a call that reads others' private buffers: " + single_copy_fault_, "use exchange=staged");
  if (program.single_copy && splits)
    throw BadArgument("parts of unequal size cannot be read where their owner has them", "use exchange=staged");
  if (program.zero_copy && !program.single_copy) shared = places(call, input, output), where = &shared;
  const Buffers buffers{static_cast<const char*>(input), static_cast<char*>(output), splits, where,
                        static_cast<char*>(residual)};
  begin(call, where);
  if (network_) [[unlikely]] {
    find_leaving(call, buffers);
    find_landings(call, buffers);
  }
  // Messages in halves may have to go past the caches where the ranks have cores of their own (outbox_stores.h).
  const bool cached = in_banks_ || exchanges_ || waiting_.crowded();
  if (call.script && cached && !network_ && !splits && !residual) {
    run_script(call, buffers);
    tell_clock(epoch_ + call.plan.waves);
  } else {
    run_waves(call, buffers);
  }
  for (std::int32_t other : program.final_waits) await_clock(other, epoch_ + call.plan.waves);
  previous_start_ = epoch_;
  previous_synchronising_ = program.synchronising;
  if (program.synchronising) all_started_ = epoch_;
  epoch_ += call.plan.waves;
}

void Group::tell_clock(std::uint64_t clock) {
  segment_.line(rank_).clock.store(clock, std::memory_order_release);
  waiting_.ring();
}

void Group::begin(const Call& call, const Places* places) {
  waiting_.check_usable();
  call_++;
  std::uint64_t signature = call.signature;
  std::uint64_t input_place = 0, output_place = 0;
  if (places) {
    if (call.program->shares_input) input_place = 1 + places->input;
    if (call.program->shares_output) output_place = 1 + places->output;
    signature = mix(mix(signature, input_place), output_place);
  }
  chain_ = (chain_ * kChain + signature) & kSignatureMask;
  CallRecord& record = segment_.line(rank_).history[call_ % kHistory];
  // A sequence lock without fences: each store releases the tag's 0 before it, each load of the reader acquires.
  record.tag.store(0, std::memory_order_relaxed);
  record.count.store(call.record[0], std::memory_order_release);
  record.segment.store(call.record[1], std::memory_order_release);
  record.what.store(call.record[2], std::memory_order_release);
  record.codec.store(call.record[3], std::memory_order_release);
  record.codec_parameter.store(call.record[4], std::memory_order_release);
  for (int i = 0; i < 4; i++) record.algorithm[i].store(call.record[5 + i], std::memory_order_release);
  record.input_place.store(input_place, std::memory_order_release);
  record.output_place.store(output_place, std::memory_order_release);
  record.tag.store(call_ << kSignatureBits | chain_, std::memory_order_release);
  if (network_) [[unlikely]] network_->begin(call_);
  if (check_) {
    waiting_.ring();
    if (network_) tell_everyone();
    for (int other = 0; other < n_ranks(); other++) {
      const CallRecord& theirs = segment_.line(other).history[call_ % kHistory];
      waiting_.until(
          other, [&] { return theirs.tag.load(std::memory_order_acquire) >> kSignatureBits == call_; }, [] {},
          [&] { return describe(rank_, call_) + " waits for rank " + std::to_string(other) + call_counts(); });
      compare_with(other);
    }
  }
  // This half of the outbox was last read in the call before the previous one, this bank so many calls of its kind ago. A
  // synchronising call has shown that everyone had started it, and so had left all before.
  const Plan& plan = call.plan;
  const std::size_t used = plan.window * plan.in_flight * plan.slot_bytes;
  exchanges_ = !network_ && !plan.fits_in_line && call.program->exchanges;
  in_banks_ = !network_ && (plan.fits_in_line || (!exchanges_ && used <= kBankBytes));
  calls_[call.program->synchronising]++;
  std::uint64_t& bank_end = bank_ends_[bank_in(*call.program, 0)];
  const std::uint64_t started = in_banks_ || exchanges_ ? bank_end : previous_start_;
  if (all_started_ < started) await_everyone(started);
  bank_end = epoch_ + plan.waves;
  if (!previous_synchronising_ && network_) [[unlikely]] await_remote_readers(*call.program);
  take_place(call);
  const auto needed = static_cast<std::size_t>(call.program->scratch_blocks) * call.plan.block_limit * call.plan.item *
                      call.plan.in_flight;
  if (scratch_.size() < needed) scratch_.resize(needed);
  const auto operands = static_cast<std::size_t>(call.program->max_sources);
  if (sources_.size() < operands) sources_.resize(operands), origins_.resize(operands), operands_.resize(operands);
  const auto stores = static_cast<std::size_t>(call.program->max_stores) + 1;
  if (stores_.size() < stores) stores_.resize(stores);
  const auto pieces = static_cast<std::size_t>(call.program->piece_blocks);
  if (network_ && filled_.size() < pieces) filled_.resize(pieces), leaving_.resize(pieces);
}

bool Group::await_message(int source, const Header& header, std::uint64_t word) {
  if (__builtin_expect(header.word.load(std::memory_order_acquire) == word, 1)) return true;
  waiting_.until(
      source, [&] { return header.word.load(std::memory_order_acquire) == word; },
      [&] { compare_with(source); },
      [&] { return describe(rank_, call_) + " waits for rank " + std::to_string(source) + call_counts(); });
  return false;
}

// The line of a message of the level before, once it is there. A sender that does not wait for this rank is ahead, if it was
// there at once; its later lines can come meanwhile.
const Header& Group::await_line(const Program& program, const Wave& wave, int source) {
  constexpr std::uint64_t kLinesAhead = 4;
  const Header& theirs = segment_.headers(source, wave.bank)[wave.previous_slot];
  if (await_message(source, theirs, wave.previous_word) && in_banks_ && !program.synchronising)
    __builtin_prefetch(&segment_.headers(source, bank_in(program, kLinesAhead))[wave.previous_slot]);
  return theirs;
}

// While ranks of this core have not run, what comes from other cores cannot end this rank's wait; and once they have, a
// yield to them is lost. 4 and 8 ranks on 2 cores change 1 and 3 times a call and core so, the least there is.
void Group::await_who_shares_the_core(const Wave& wave) {
  for (std::int32_t source : wave.level->awaited)
    if (waiting_.shares_core(source))
      await_message(source, segment_.headers(source, wave.bank)[wave.previous_slot], wave.previous_word);
}

// Who shares the core first, for the same reason. The second turn leaves nobody out, since where ranks are may change.
void Group::await_everyone(std::uint64_t clock) {
  for (const bool all : {false, true})
    for (int other = 0; other < n_ranks(); other++)
      if (other != rank_ && !remote(other) && (all || waiting_.shares_core(other))) await_clock(other, clock);
}

void Group::await_clock(int source, std::uint64_t clock) {
  std::uint64_t& seen = seen_clock_[static_cast<std::size_t>(source)];
  if (seen >= clock) return;
  const Word& theirs = segment_.line(source).clock;
  seen = theirs.load(std::memory_order_acquire);
  if (seen >= clock) return;
  waiting_.until(
      source, [&] { return (seen = theirs.load(std::memory_order_acquire)) >= clock; },
      [&] { compare_with(source); },
      [&] { return describe(rank_, call_) + " waits for rank " + std::to_string(source) + call_counts(); });
}

}  // namespace autotune
