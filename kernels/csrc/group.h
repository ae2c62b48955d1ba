// One rank's end of a group: the interpreter of programs over a shared segment.
//
// In: a program, a plan, the user's buffers. Out: the collective's result in the output buffer, the same bits on every
// rank that holds the same block. Owns the group's clock and call count.
//
// Protocol (kernels/README.md has it in full, with the memory-order argument). All ranks step through the same waves;
// slice s does superstep l in wave l + spacing * s. A message of wave w lies in slot (w mod window, s mod in_flight) of
// its sender's outbox and is announced by the word (first wave of the call + w) << 20 | chain, where the chain stands for
// the signatures of this and all earlier calls. Outboxes have two halves; calls alternate.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "elements.h"
#include "program.h"
#include "reduce.h"
#include "segment.h"
#include "waiting.h"

namespace autotune {

// A call without its buffers: everything that must be equal on all ranks.
struct Call {
  std::shared_ptr<const Program> program;
  Plan plan;
  Collective collective;
  DType dtype;
  Op op;
  int root;
  std::string algorithm;
  std::uint64_t segment_bytes;
  bool stream;                    // write outputs past the caches
  std::uint64_t signature;        // 20 bits
  std::uint64_t record[7];        // words of CallRecord after the tag
  std::size_t input_elements, output_elements;  // of this rank; 0 where it has none

  static Call make(std::shared_ptr<const Program> program, Collective collective, DType dtype, Op op, int root,
                   const std::string& algorithm, std::size_t count, std::size_t segment_bytes, int max_in_flight,
                   bool stream, std::size_t half_bytes);
};

// Per-rank parts of an all_to_all with unequal splits, in elements, by rank.
struct Splits {
  std::vector<std::size_t> input_offsets, input_counts, output_offsets, output_counts;
};

struct GroupOptions {
  WaitPolicy waiting;
  bool check = false;  // compare whole arguments before every call
  std::function<void()> interrupted;
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
  void run(const Call& call, const void* input, void* output, const Splits* splits = nullptr);

  // Point to point, outside the count of calls: blocks until the receiver has taken all but the last pieces.
  void send(int to, const void* data, std::size_t bytes, DType dtype);
  void recv(int from, void* data, std::size_t bytes, DType dtype);

  // Tells the others that no more calls will come from here.
  void leave();

 private:
  struct Wave;  // what one level of one slice needs to know

  void begin(const Call& call);
  void run_level(const Call& call, const Wave& wave, const char* input, char* output, const Splits* splits);
  void execute(const Call& call, const Wave& wave, const Instruction& op, const void* const* sources, char* memory,
               char* outbox, std::size_t elements);
  void await_message(int source, const Header& header, std::uint64_t word);
  void await_clock(int source, std::uint64_t clock);
  void compare_with(int source);
  std::string differences(std::uint64_t number, int source) const;
  std::string describe(int rank, std::uint64_t call_number) const;
  std::string call_counts() const;

  Segment segment_;
  const int rank_;
  Waiting waiting_;
  const bool check_;
  const Arithmetic& arithmetic_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::uint64_t call_ = 0;            // number of the current call, from 1
  std::uint64_t chain_ = 0;           // of the signatures of all calls up to the current one; 20 bits
  std::uint64_t epoch_ = 1;           // first wave of the next call
  std::uint64_t previous_start_ = 0;  // first wave of the call before
  bool previous_synchronising_ = true;
  std::vector<std::uint64_t> seen_clock_;  // by rank: the latest clock that was looked at
  std::vector<const void*> sources_;
  std::vector<char> scratch_;
  std::vector<std::uint64_t> sent_pieces_, received_pieces_;  // by peer, for send and recv
};

}  // namespace autotune
