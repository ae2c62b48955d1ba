// One rank's end of a group: the interpreter of programs over a shared segment.
//
// In: a program, a plan, the user's buffers. Out: the collective's result in the output buffer, the same bits on every
// rank that holds the same block. Owns the group's clock and call count.
//
// Protocol (kernels/README.md has it in full, with the memory-order argument). All ranks step through the same waves;
// slice s does superstep l in wave l + spacing * s. A message of wave w lies in slot (w mod window, s mod in_flight) of
// its sender's outbox and is announced by the word (first wave of the call + w) << 20 | chain, where the chain stands for
// the signatures of this and all earlier calls. Outboxes have two halves, headers and places
// for small messages kBanks; calls take turns. Two ranks that answer every message by another one swap their outboxes slot
// by slot instead: each writes where it has read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "call.h"
#include "elements.h"
#include "encoded.h"
#include "network.h"
#include "outbox_stores.h"
#include "program.h"
#include "reduce.h"
#include "segment.h"
#include "waiting.h"

namespace autotune {

// Per-rank parts of an all_to_all with unequal splits, in elements, by rank.
struct Splits {
  std::vector<std::size_t> input_offsets, input_counts, output_offsets, output_counts;
};

struct GroupOptions {
  WaitPolicy waiting;
  bool check = false;  // compare whole arguments before every call
  std::function<void()> interrupted;
  std::shared_ptr<Network> network;  // to ranks of other hosts; null where there are none
};

class Group {
 public:
  // Joins and waits until all ranks have joined. Throws Failure naming the ranks that have not.
  Group(int fd, int rank, GroupOptions options);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int n_ranks() const { return segment_.n_ranks(); }
  std::size_t half_bytes() const { return segment_.half_bytes(); }

  // Runs one collective. Input is not modified unless it is the output. Throws Failure; afterwards every call does.
  // Buffers of a zero-copy call lie in symmetric memory, at equal offsets on all ranks, else BadArgument is thrown and
  // nothing has happened; those of a reduce are given on every rank. `residual` has one element for each of the input,
  // as codec.h says; what encoding dropped is added to it.
  void run(const Call& call, const void* input, void* output, const Splits* splits = nullptr, void* residual = nullptr);

  // By rank, the core to which it was bound when it joined; -1 where it may run on several. The same on every rank.
  std::vector<int> only_cores() const;

  // Why calls cannot read the others' private buffers, the same on every rank; empty where they can.
  const std::string& single_copy_fault() const { return single_copy_fault_; }

  // This rank's symmetric memory, mapped at the first call.
  char* heap();
  std::size_t heap_bytes() const { return segment_.heap_bytes(); }
  // Gives the whole pages of a part of it back to the system; they read as zeros then.
  void forget(std::size_t offset, std::size_t bytes);
  // Where a buffer lies in it, in bytes; nothing if it is not wholly inside.
  std::optional<std::size_t> place_of(const void* data, std::size_t bytes) const;

  // Point to point, outside the count of calls: blocks until the receiver has taken all but the last pieces.
  void send(int to, const void* data, std::size_t bytes, DType dtype);
  void recv(int from, void* data, std::size_t bytes, DType dtype);

  // Tells the others that no more calls will come from here.
  void leave();

 private:
  struct Wave;  // what one level of one slice needs to know

  // Where peers' buffers of a zero-copy call lie in their heaps, in bytes.
  struct Places {
    std::size_t input, output;
  };
  struct Buffers {
    const char* input;
    char* output;
    const Splits* splits;  // null where all parts are equal
    const Places* places;  // null without symmetric memory
    char* residual;        // null where nothing is collected
  };
  Places places(const Call& call, const void* input, const void* output) const;
  void begin(const Call& call, const Places* places);
  void populate();
  std::size_t rotation_bytes() const;
  void run_waves(const Call& call, const Buffers& buffers);
  void run_script(const Call& call, const Buffers& buffers);
  void tell_clock(std::uint64_t clock);
  void run_level(const Call& call, const Wave& wave, const Buffers& buffers);
  void put(bool stream, char* to, const char* from, std::size_t bytes, const char* ahead = nullptr) const;
  const char* read_soon(const Call& call, const Wave& wave, const Instruction& op, const Buffers& buffers,
                        const char* memory) const;
  void execute(const Call& call, const Wave& wave, const Instruction& op, const void* const* sources, char* memory,
               char* outbox, std::size_t elements, const char* ahead = nullptr);
  void execute_encoded(const Call& call, const Instruction& op, const EncodedOperands& operands, bool stream);
  void store_everywhere(const Call& call, const Wave& wave, const Instruction& op, char* memory, std::size_t elements);
  void post(Header& header, const Call& call, const Wave& wave, const Buffers& buffers);
  void announce_probe();
  void try_single_copy();
  void read_peer(int source, std::uint64_t from, void* to, std::size_t bytes);
  void pull(const Call& call, const Wave& wave, const Instruction& op, char* memory, std::size_t elements);
  // The bank of this call, or of the one that comes so many calls later if all are of its kind. Over several hosts packets
  // know halves only.
  int bank_in(const Program& program, std::uint64_t calls) const {
    if (network_) return static_cast<int>((call_ + calls) & 1);
    const std::uint64_t number = calls_[program.synchronising] + calls;
    if (program.synchronising) return static_cast<int>(number % kSynchronisingBanks);
    return kSynchronisingBanks + static_cast<int>(number % (kBanks - kSynchronisingBanks));
  }
  bool remote(int rank) const { return network_ && network_->remote(rank); }
  void send_to_other_hosts(const Call& call, const Wave& wave);
  std::size_t find_stretches(const Call& call, const Wave& wave, const RemoteReader& reader, const char* payload);
  bool bring_together(const Wave& wave, const RemoteReader& reader, char* payload);
  void await_remote_readers(const Program& program);
  void tell_everyone();
  void leave_network();
  void release_network();
  std::string refusals() const;
  void note_filled(const Instruction& op, const Wave& wave, bool vertical, std::size_t item);
  static bool apart(const Call& call, const Buffers& buffers);
  void find_leaving(const Call& call, const Buffers& buffers);
  bool note_leaving(const Instruction& op, int number, const Wave& wave, std::size_t item, const char* memory);
  bool only_kept(const Instruction& op, const Program& program, int number) const;
  static std::size_t before_block(const Program& program, const Plan& plan, const Wave& wave, int index);
  void find_landings(const Call& call, const Buffers& buffers);
  void land_ahead(const Call& call, const Buffers& buffers, std::size_t number);
  bool land(const Instruction& op, const Program& program, const Wave& wave, const Plan& plan, char* place);
  void tell_clock_to_writers(const Program& program);
  void finish_sending();
  char* messages(int rank, const Wave& wave, bool swapped) const;
  void take_place(const Call& call);
  // Whether it was there at the first look.
  bool await_message(int source, const Header& header, std::uint64_t word);
  const Header& await_line(const Program& program, const Wave& wave, int source);
  void await_who_shares_the_core(const Wave& wave);
  void await_clock(int source, std::uint64_t clock);
  void await_everyone(std::uint64_t clock);
  void compare_with(int source);
  std::string differences(std::uint64_t number, int source) const;
  std::string describe(int rank, std::uint64_t call_number) const;
  std::string call_counts() const;

  const std::shared_ptr<Network> network_;
  Segment segment_;
  const int rank_;
  Waiting waiting_;
  const bool check_;
  const Arithmetic& arithmetic_;
  Transcoder transcoder_;
  OutboxStores outbox_stores_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::uint64_t call_ = 0;            // number of the current call, from 1
  std::uint64_t chain_ = 0;           // of the signatures of all calls up to the current one; 20 bits
  std::uint64_t epoch_ = 1;           // first wave of the next call
  std::uint64_t previous_start_ = 0;  // first wave of the call before
  bool previous_synchronising_ = true;
  std::uint64_t calls_[2] = {};           // those that do not synchronise, and those that do, this one too
  std::uint64_t bank_ends_[kBanks] = {};  // first wave after the latest call of each bank
  std::uint64_t all_started_ = 0;      // first wave of the latest call that is known to have begun on every rank
  int rotated_calls_ = 0;     // counted up to 3
  bool banks_touched_ = false;
  bool in_banks_ = false;     // this call's messages lie in a bank, not in a half
  bool exchanges_ = false;    // this call's messages lie in slots that the two ranks swap
  std::array<bool, kSlots> swapped_{};  // by slot: whether its next message goes to the other's outbox
  std::uint64_t outbox_end_ = 0;        // first wave after the latest call whose messages lay in outboxes
  std::size_t outbox_slots_ = 0, outbox_slot_bytes_ = 0;  // of that call if it swapped them, else 0
  std::size_t rotation_ = 0;  // where this call's messages begin in its half of every outbox, in bytes
  std::vector<std::uint64_t> seen_clock_;  // by rank: the latest clock that was looked at
  std::vector<const void*> sources_;  // of one instruction
  std::vector<int> origins_;          // by source: the rank in whose process it lies, or -1 for this one
  std::vector<const void*> operands_;  // where they are once they have been read
  std::vector<char> read_ahead_;
  std::uint64_t probe_ = 0;
  std::int32_t own_pid_ = 0;
  std::string single_copy_fault_;
  std::vector<void*> stores_;
  std::vector<char> scratch_;
  std::vector<std::size_t> filled_;  // by piece of the message that is being made: its bytes, where other hosts read it
  std::vector<const char*> leaving_;  // by piece, too: where it lies, if not in the outbox
  // By instruction of this call: what comes may be written to its place before its turn; empty where nothing may.
  std::vector<char> lands_ahead_;
  std::vector<char> landed_;          // by instruction of a level: its message is written to its place as it comes
  // From where a block leaves for other hosts: the outbox, where this rank has it already, or where the result stays.
  enum class Leaves : std::uint8_t { Outbox, Source, Memory };
  std::vector<Leaves> leaves_from_;  // by instruction of this call; empty where all leave from the outbox
  std::vector<char> touched_;        // by block of the output, while instructions are looked at
  std::vector<Network::Stretch> stretches_;
  std::vector<std::uint64_t> sent_pieces_, received_pieces_;  // by peer, for send and recv
};

}  // namespace autotune
