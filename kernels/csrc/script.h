// A short call, resolved: each instruction with its places in bytes, so that a run computes none of them.
//
// In: a program and the plan of a call of one slice, whose messages are small. Out: steps in the program's order, the same
// arithmetic on the same operands. Touches no memory of a user's and no shared memory; short_call.cc runs it.
//
// Most of a short call is the interpreter's own work, and ranks that share a core do it with branch predictors that the
// others have trained on code at other addresses meanwhile. Xeon, 2 cores, private buffers, fresh inputs, interpreted over
// resolved: 8 ranks 1.27 (all_reduce of 8 B), 1.42 (1 KiB), 1.29 (all_gather of 8 B and 1 KiB); 4 ranks 1.0 to 1.1; 2 ranks
// 1.1 to 1.4 (all_gather and all_to_all from 1 to 4 KiB), 1.3 (broadcast of 8 B), 1.5 (reduce of 8 B).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "program.h"

namespace autotune {

struct Operand {
  static constexpr std::int32_t kInput = -1, kOutput = -2, kScratch = -3;
  std::int32_t from;  // a rank, for its message of the level before; or one of the above
  std::uint32_t at;   // bytes into it
};

struct Step {
  static constexpr std::int32_t kNowhere = -1;
  std::int32_t first, n_sources;  // in Script::operands
  std::int32_t memory;            // Operand::kOutput, kScratch, or 0 for none
  std::uint32_t memory_at;        // bytes into it
  std::int32_t piece_at;          // bytes into the message, or kNowhere
  std::uint32_t elements, bytes;
  std::int32_t divisor;
  bool before_post;
};

struct Script {
  std::vector<Step> steps;  // by instruction of the program
  std::vector<Operand> operands;

  // Null where the interpreter has to run the call.
  static std::shared_ptr<const Script> resolved(const Program& program, const Plan& plan, bool averages);
};

}  // namespace autotune
