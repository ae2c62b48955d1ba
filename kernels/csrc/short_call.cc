// A short call's way through its levels, by its script; see script.h. The protocol is the interpreter's, group.h's: the same
// messages in the same places, announced by the same words, awaited in the same way.
//
// In: a call that has begun, and whose messages go through the caches. Out: its results; that its last wave has ended is the
// caller's to tell.
#include <cstring>

#include "script.h"
#include "wave.h"

namespace autotune {
namespace {

alignas(64) thread_local char result_memory[kBankBytes];  // of a result that only others keep

inline void copy_short(char* to, const char* from, std::size_t bytes) {
  if (bytes == sizeof(std::uint64_t)) std::memcpy(to, from, sizeof(std::uint64_t));
  else if (bytes == sizeof(std::uint32_t)) std::memcpy(to, from, sizeof(std::uint32_t));
  else std::memcpy(to, from, bytes);
}

}  // namespace

void Group::run_script(const Call& call, const Buffers& buffers) {
  const Program& program = *call.program;
  const Plan& plan = call.plan;
  const Script& script = *call.script;
  const ReduceFn reduce = arithmetic_.reduce[static_cast<int>(call.dtype)][static_cast<int>(call.op)];
  const bool crowded = waiting_.crowded();
  Wave wave;  // what announcing and awaiting need to know of one
  wave.bank = bank_in(program, 0);
  wave.half = static_cast<int>(call_ & 1);
  wave.stream = wave.stream_outbox = false;
  Header* const mine = segment_.headers(rank_, wave.bank);
  const auto message = [&](int rank, auto& header, std::size_t slot, bool swapped) {
    return plan.fits_in_line ? header.payload : messages(rank, wave, swapped) + slot * plan.slot_bytes;
  };
  for (std::size_t w = 0; w < program.levels.size(); w++) {
    const Level& level = program.levels[w];
    wave.level = &level;
    wave.word = (epoch_ + w) << kSignatureBits | chain_;
    wave.previous_word = (epoch_ + w - 1) << kSignatureBits | chain_;
    wave.previous_slot = w - 1;  // of no message at w = 0, where none is taken
    wave.last_post = w + 2 == program.levels.size();
    if (crowded && level.awaited.size() > 1) await_who_shares_the_core(wave);
    int left = level.before_post;
    if (level.posts && left == 0) post(mine[w], call, wave, buffers);
    for (int i = level.first; i < level.last; i++) {
      const Step& step = script.steps[static_cast<std::size_t>(i)];
      for (int k = 0; k < step.n_sources; k++) {
        const Operand& operand = script.operands[static_cast<std::size_t>(step.first + k)];
        const char* base = buffers.input;
        if (operand.from >= 0) {
          const Header& theirs = await_line(program, wave, operand.from);
          base = message(operand.from, theirs, wave.previous_slot, !swapped_[wave.previous_slot]);
        } else if (operand.from == Operand::kOutput) {
          base = buffers.output;
        } else if (operand.from == Operand::kScratch) {
          base = scratch_.data();
        }
        sources_[static_cast<std::size_t>(k)] = base + operand.at;
      }
      if (step.bytes && step.n_sources) {
        char* memory = nullptr;
        if (step.memory) memory = (step.memory == Operand::kOutput ? buffers.output : scratch_.data()) + step.memory_at;
        char* const piece = step.piece_at == Step::kNowhere ? nullptr : message(rank_, mine[w], w, swapped_[w]) + step.piece_at;
        const char* result = static_cast<const char*>(sources_[0]);
        if (step.n_sources > 1) {
          char* const to = memory ? memory : result_memory;
          reduce(to, sources_.data(), step.n_sources, 0, step.elements, step.divisor);
          result = to;
        }
        if (piece) copy_short(piece, result, step.bytes);
        if (memory && memory != result) copy_short(memory, result, step.bytes);
      }
      if (step.before_post && --left == 0 && level.posts) post(mine[w], call, wave, buffers);
    }
    swapped_[w] ^= exchanges_ && level.posts;
  }
}

}  // namespace autotune
