// See script.h.
#include "script.h"

#include <algorithm>

#include "segment.h"
#include "wave.h"

namespace autotune {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 31;  // of a buffer, since places are of 32 bits
constexpr std::size_t kMostMessage = 64 << 10;  // beyond, nothing is seen of the interpreter

bool is_short(const Program& program, const Plan& plan) {
  const std::size_t levels = program.levels.size();
  const std::size_t blocks = program.vertical ? static_cast<std::size_t>(program.n_ranks) : 1;
  return !program.zero_copy && !program.lossy && plan.slices == 1 && plan.in_flight == 1 && plan.window == levels &&
         plan.slot_bytes <= kMostMessage && blocks * plan.count * plan.item < kMostBytes;
}

}  // namespace

std::shared_ptr<const Script> Script::resolved(const Program& program, const Plan& plan, bool averages) {
  if (!is_short(program, plan)) return nullptr;
  const std::size_t length = plan.last_slice, pitch = plan.last_pitch;
  const auto place = [&](int index) {  // in a user's buffer
    const std::size_t elements =
        program.vertical ? static_cast<std::size_t>(index) * plan.count : block_start(length, pitch, index);
    return static_cast<std::uint32_t>(elements * plan.item);
  };
  const auto scratch_place = [&](int index) {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(index) * pitch * plan.item);
  };
  const auto piece_place = [&](int index) {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(index) * plan.last_piece_bytes);
  };
  auto script = std::make_shared<Script>();
  for (const Instruction& op : program.instructions) {
    if (op.n_stores || op.n_waits) return nullptr;
    Step step{};
    step.first = static_cast<std::int32_t>(script->operands.size());
    step.n_sources = op.n_sources;
    for (int k = 0; k < op.n_sources; k++) {
      const Source& source = program.sources[static_cast<std::size_t>(op.first_source + k)];
      switch (source.space) {
        case Space::Input: script->operands.push_back({Operand::kInput, place(source.index)}); break;
        case Space::Output: script->operands.push_back({Operand::kOutput, place(source.index)}); break;
        case Space::Scratch: script->operands.push_back({Operand::kScratch, scratch_place(source.index)}); break;
        case Space::Peer: script->operands.push_back({source.rank, piece_place(source.index)}); break;
        case Space::PeerInput:
        case Space::PeerOutput: return nullptr;
      }
    }
    if (op.destinations & kToOutput) step.memory = Operand::kOutput, step.memory_at = place(op.memory_index);
    else if (op.destinations & kToScratch) step.memory = Operand::kScratch, step.memory_at = scratch_place(op.memory_index);
    step.piece_at = op.destinations & kToOutbox ? static_cast<std::int32_t>(piece_place(op.piece)) : Step::kNowhere;
    const std::size_t elements =
        program.vertical ? length : block_start(length, pitch, op.block + op.width) - block_start(length, pitch, op.block);
    step.elements = static_cast<std::uint32_t>(elements);
    step.bytes = static_cast<std::uint32_t>(elements * plan.item);
    if (op.n_sources > 1 && !step.memory && step.bytes > kBankBytes) return nullptr;  // no place to combine it in
    step.divisor = op.completes && averages ? program.n_ranks : 1;
    step.before_post = (op.destinations & kBeforePost) != 0;
    script->steps.push_back(step);
  }
  return script;
}

}  // namespace autotune
