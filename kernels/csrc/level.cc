// The interpreter: one level of one slice, its operands, its message; see group.h for the protocol.
//
// In: a wave. Out: the instructions' operands, the message announced. Where results go is in results.cc, and in encoded.cc for
// codecs; single_copy.cc fetches operands that lie in other processes.
#include <algorithm>
#include <cstring>

#include "wave.h"

namespace autotune {
namespace {

constexpr std::size_t kTakenBackBytes = 2 << 10;

}  // namespace

void Group::run_level(const Call& call, const Wave& wave, const Buffers& buffers) {
  const auto [input, output, splits, places, residual] = buffers;
  const Program& program = *call.program;
  const Plan& plan = call.plan;
  const std::size_t item = plan.item;
  const Level& level = *wave.level;
  Header& mine = segment_.headers(rank_, wave.bank)[wave.slot];
  char* const outbox =
      plan.fits_in_line ? mine.payload : messages(rank_, wave, wave.swapped) + wave.slot * plan.slot_bytes;
  if (level.posts && wave.number >= plan.window)
    for (std::int32_t reader : program.readers)
      await_clock(reader, epoch_ + wave.number - plan.window + 2);

  // Elements before block `index` of this slice in a user's buffer.
  const auto offset = [&](int index, const std::vector<std::size_t>* starts) -> std::size_t {
    if (starts) return (*starts)[static_cast<std::size_t>(index)] + wave.slice * plan.slice;
    return before_block(program, plan, wave, index);
  };
  // Elements of a part that belong to this slice.
  const auto share = [&](std::size_t part) {
    const std::size_t before = wave.slice * plan.slice;
    return part > before ? std::min(part - before, plan.slice) : 0;
  };
  char* const scratch = scratch_.data() + wave.column *
                                              static_cast<std::size_t>(program.scratch_blocks) * plan.block_limit * item;

  const bool lands = network_ && !call.codec && !splits && !plan.fits_in_line;
  if (lands) [[unlikely]] {
    landed_.assign(static_cast<std::size_t>(level.last - level.first), 0);
    for (int i = level.first; i < level.last; i++) {
      const Instruction& op = program.instructions[static_cast<std::size_t>(i)];
      if (!only_kept(op, program, i)) continue;
      char* const place = op.destinations & kToOutput
                              ? output + offset(op.memory_index, nullptr) * item
                              : scratch + static_cast<std::size_t>(op.memory_index) * wave.pitch * item;
      landed_[static_cast<std::size_t>(i - level.first)] = land(op, program, wave, plan, place);
    }
  }

  if (waiting_.crowded() && level.awaited.size() > 1) await_who_shares_the_core(wave);
  int left = level.before_post;
  if (level.posts && left == 0) post(mine, call, wave, buffers);
  for (int i = level.first; i < level.last; i++) {
    const Instruction& op = program.instructions[static_cast<std::size_t>(i)];
    const std::size_t whole = program.vertical ? wave.length
                                               : block_start(wave.length, wave.pitch, op.block + op.width) -
                                                     block_start(wave.length, wave.pitch, op.block);
    std::size_t elements = whole;
    bool elsewhere = false;  // an operand lies in another process
    for (int k = 0; k < op.n_sources; k++) {
      const Source& source = program.sources[static_cast<std::size_t>(op.first_source + k)];
      const void*& at = sources_[static_cast<std::size_t>(k)];
      origins_[static_cast<std::size_t>(k)] = -1;
      switch (source.space) {
        case Space::Peer: {
          const Header& theirs = await_line(program, wave, source.rank);
          if (wave.learns) outbox_stores_.take_line(source.rank);
          const char* message = plan.fits_in_line ? theirs.payload
                                                  : messages(source.rank, wave, wave.previous_swapped) +
                                                        wave.previous_slot * plan.slot_bytes;
          at = message + static_cast<std::size_t>(source.index) * wave.piece_bytes;
          break;
        }
        case Space::Input:
          at = input + offset(source.index, splits ? &splits->input_offsets : nullptr) * item;
          if (splits)
            elements = std::min(elements, share(splits->input_counts[static_cast<std::size_t>(source.index)]));
          break;
        case Space::Output:
          at = output + offset(source.index, splits ? &splits->output_offsets : nullptr) * item;
          break;
        case Space::PeerInput:
        case Space::PeerOutput: {
          const Header& theirs = segment_.headers(source.rank, wave.bank)[wave.previous_slot];
          await_message(source.rank, theirs, wave.previous_word);
          if (program.single_copy) {
            Whereabouts where;
            std::memcpy(&where, theirs.payload, sizeof where);
            at = (source.space == Space::PeerInput ? where.input : where.output) + offset(source.index, nullptr) * item;
            origins_[static_cast<std::size_t>(k)] = source.rank;
            elsewhere = true;
            break;
          }
          const std::size_t place = source.space == Space::PeerInput ? places->input : places->output;
          at = segment_.heap(source.rank) + place + offset(source.index, nullptr) * item;
          break;
        }
        case Space::Scratch: at = scratch + static_cast<std::size_t>(source.index) * wave.pitch * item; break;
      }
    }
    for (int k = 0; k < op.n_waits; k++) {
      const std::int32_t other = program.waits[static_cast<std::size_t>(op.first_wait + k)];
      await_message(other, segment_.headers(other, wave.bank)[wave.previous_slot], wave.previous_word);
    }
    char* memory = nullptr;
    if (op.destinations & kToOutput) {
      memory = output + offset(op.memory_index, splits ? &splits->output_offsets : nullptr) * item;
      if (splits)
        elements = std::min(elements, share(splits->output_counts[static_cast<std::size_t>(op.memory_index)]));
    } else if (op.destinations & kToScratch) {
      memory = scratch + static_cast<std::size_t>(op.memory_index) * wave.pitch * item;
    }
    const bool leaves = op.destinations & kToOutbox && !level.remote_readers.empty();
    char* piece = op.destinations & kToOutbox ? outbox + static_cast<std::size_t>(op.piece) * wave.piece_bytes : nullptr;
    if (leaves && !call.codec) [[unlikely]] {
      note_filled(op, wave, program.vertical, item);
      if (note_leaving(op, i, wave, item, memory)) piece = nullptr;
    }
    if (lands && landed_[static_cast<std::size_t>(i - level.first)]) [[unlikely]] {
      // It is where it stays, and leaves from there.
    } else if (call.codec) [[unlikely]] {
      char* const dropped = residual && op.charged >= 0
                                ? residual + offset(op.charged, nullptr) * residual_bytes(call.dtype)
                                : nullptr;
      const EncodedOperands operands{&program.sources[static_cast<std::size_t>(op.first_source)],
                                     sources_.data(), memory, piece, dropped, elements, whole, wave.pitch, wave.piece_bytes,
                                     leaves ? &filled_[static_cast<std::size_t>(op.piece)] : nullptr};
      execute_encoded(call, op, operands, wave.stream && (op.destinations & kToOutput));
    } else if (elements && op.n_stores) {
      for (int k = 0; k < op.n_stores; k++) {
        const Source& target = program.sources[static_cast<std::size_t>(op.first_store + k)];
        stores_[static_cast<std::size_t>(k)] =
            segment_.heap(target.rank) + places->output + offset(target.index, nullptr) * item;
      }
      store_everywhere(call, wave, op, memory, elements);
    } else if (elements && elsewhere) {
      pull(call, wave, op, memory, elements);
    } else if (elements && op.n_sources) {
      const char* const ahead = wave.stream && memory ? read_soon(call, wave, op, buffers, memory) : nullptr;
      execute(call, wave, op, sources_.data(), memory, piece, elements, ahead);
    }
    if ((op.destinations & kBeforePost) && --left == 0 && level.posts) post(mine, call, wave, buffers);
  }
}

void Group::post(Header& header, const Call& call, const Wave& wave, const Buffers& buffers) {
  // Streaming stores are ordered by nothing else.
  if (wave.stream_outbox || (wave.stream && call.program->zero_copy)) store_fence();
  if (call.program->single_copy) {
    const Whereabouts where{buffers.input, buffers.output};
    std::memcpy(header.payload, &where, sizeof where);
  }
  header.word.store(wave.word, std::memory_order_release);
  waiting_.ring();
  if (!wave.level->remote_readers.empty()) [[unlikely]] send_to_other_hosts(call, wave);
  // The next call will write the first message of the next bank, whose lines its readers still hold. Taking them back now,
  // while this rank waits, saves the next call that trip: 1.15x in the host's fast state, 1.4x in its slow one, up to
  // 2 KiB; beyond, it is lost in the copying.
  if (!wave.last_post || call.plan.slot_bytes > kTakenBackBytes) return;
  const int next = bank_in(*call.program, 1);
  prefetch_to_write(&segment_.headers(rank_, next)[0]);
  if (call.plan.fits_in_line || !in_banks_) return;
  const char* const message = segment_.bank(rank_, next);
  for (std::size_t at = 0; at < call.plan.slot_bytes; at += 64) prefetch_to_write(message + at);
}

char* Group::messages(int rank, const Wave& wave, bool swapped) const {
  if (in_banks_) return segment_.bank(rank, wave.bank);
  if (exchanges_) return segment_.outbox(swapped ? 1 - rank : rank, 0);
  return segment_.outbox(rank, wave.half) + rotation_;
}

void Group::execute_encoded(const Call& call, const Instruction& op, const EncodedOperands& operands, bool stream) {
  const std::optional<int> damaged = transcoder_.execute(call, op, operands, stream);
  if (damaged)
    waiting_.fail("rank " + std::to_string(*damaged) + "'s message is damaged: its bytes are no encoding of the elements of " +
                      describe(*damaged, call_),
                  "let nothing else write to the group's memory; if nothing does, this is a bug in autotune: please "
                  "report it with this message");
}

}  // namespace autotune
