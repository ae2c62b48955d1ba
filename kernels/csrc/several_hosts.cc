// What a group over several hosts does besides: messages and clocks go to ranks of other hosts as packets (network.h).
//
// In: a level whose message is in this rank's outbox, or still where the caller has it. Out: the pieces that each reader on
// another host reads of it, on their way. The waits are those of group.h, on the mirrors.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "wave.h"

namespace autotune {
namespace {

// A gap between pieces that is sent along, since a packet of its own would cost more.
constexpr std::size_t kGapBytes = 2 << 10;
// Up to here blocks of the caller's are copied to the outbox where the others of the message lie, if they can leave as one
// packet then. Measured over 4 hosts with 4 ranks on 2 cores: a packet takes as long as copying some 64 KiB.
constexpr std::size_t kTogetherBytes = 64 << 10;
// Results of messages of this size on are sent from the output itself; smaller ones are as soon copied as found there.
constexpr std::size_t kStaysFromBytes = 8 << 10;

}  // namespace

// How many bytes an instruction without a codec puts into each piece of the message.
void Group::note_filled(const Instruction& op, const Wave& wave, bool vertical, std::size_t item) {
  for (int i = 0; i < op.width; i++) {
    const std::size_t elements = vertical ? wave.length
                                          : block_start(wave.length, wave.pitch, op.block + i + 1) -
                                                block_start(wave.length, wave.pitch, op.block + i);
    filled_[static_cast<std::size_t>(op.piece + i)] = elements * item;
    leaving_[static_cast<std::size_t>(op.piece + i)] = nullptr;
  }
}

// Whether nothing that is written to the output changes the input.
bool Group::apart(const Call& call, const Buffers& buffers) {
  const char* const input_end = buffers.input + call.input_elements * call.plan.item;
  const char* const output_end = buffers.output + call.output_elements * call.plan.item;
  return !buffers.output || input_end <= buffers.output || output_end <= buffers.input;
}

// Finds out which blocks of this call may be sent from where the caller has them: nobody of this host reads them in the
// outbox, and nothing of the call overwrites them later. It ends when they have been sent.
void Group::find_leaving(const Call& call, const Buffers& buffers) {
  const Program& program = *call.program;
  leaves_from_.clear();
  if (call.codec || buffers.splits || call.plan.fits_in_line || program.zero_copy) return;
  for (std::int32_t reader : program.readers)
    if (!remote(reader)) return;
  const bool input_stays = apart(call, buffers);
  const bool large = call.plan.slot_bytes > kStaysFromBytes;
  leaves_from_.assign(program.instructions.size(), Leaves::Outbox);
  touched_.assign(static_cast<std::size_t>(program.vertical ? program.n_ranks : program.blocks), 0);
  const auto stays = [&](int first, int width) {  // no later instruction writes it
    const auto begin = touched_.begin() + first;
    return std::find(begin, begin + width, 1) == begin + width;
  };
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& op = program.instructions[i];
    const bool kept = op.destinations & kToOutput;
    if (op.destinations & kToOutbox) {
      const Source& source = program.sources[static_cast<std::size_t>(op.first_source)];
      const bool copied = op.n_sources == 1 && !(op.destinations & (kToOutput | kToScratch));
      if (copied && source.space == Space::Input && input_stays) leaves_from_[i] = Leaves::Source;
      if (copied && large && source.space == Space::Output && stays(source.index, op.width))
        leaves_from_[i] = Leaves::Source;
      if (kept && large && stays(op.memory_index, op.width)) leaves_from_[i] = Leaves::Memory;
    }
    if (kept) std::fill_n(touched_.begin() + op.memory_index, op.width, 1);
  }
}

// Whether the blocks that an instruction sends leave from where the caller has them, and not from the outbox.
bool Group::note_leaving(const Instruction& op, int number, const Wave& wave, std::size_t item, const char* memory) {
  if (leaves_from_.empty()) return false;
  const Leaves from = leaves_from_[static_cast<std::size_t>(number)];
  if (from == Leaves::Outbox) return false;
  const char* const first = from == Leaves::Memory ? memory : static_cast<const char*>(sources_[0]);
  for (int k = 0; k < op.width; k++)
    leaving_[static_cast<std::size_t>(op.piece + k)] = first + static_cast<std::size_t>(k) * wave.pitch * item;
  return true;
}

void Group::send_to_other_hosts(const Call& call, const Wave& wave) {
  const Plan& plan = call.plan;
  Network::Message message{};
  message.word = wave.word;
  message.half = wave.half;
  message.slot = wave.slot;
  message.in_line = plan.fits_in_line;
  message.place = rotation_ + wave.slot * plan.slot_bytes;
  char* const payload = plan.fits_in_line ? segment_.headers(rank_, wave.half)[wave.slot].payload
                                          : segment_.outbox(rank_, wave.half) + message.place;
  for (const RemoteReader& reader : wave.level->remote_readers) {
    const std::size_t bytes = find_stretches(call, wave, reader, payload);
    const bool together = !call.codec && stretches_.size() > 1 && bytes <= kTogetherBytes;  // a codec leaves all in the outbox
    if (together && bring_together(wave, reader, payload)) find_stretches(call, wave, reader, payload);
    network_->post(reader.rank, message, stretches_);
  }
}

// What a reader reads of the message, as few stretches as may be sent at once. Returns how many bytes these have.
std::size_t Group::find_stretches(const Call& call, const Wave& wave, const RemoteReader& reader, const char* payload) {
  stretches_.clear();
  std::size_t sum = 0;
  for (const auto& [first, pieces] : reader.pieces)
    for (std::int32_t piece = first; piece < first + pieces; piece++) {
      const std::size_t start = static_cast<std::size_t>(piece) * wave.piece_bytes;
      const std::size_t bytes = filled_[static_cast<std::size_t>(piece)];
      if (bytes == 0) continue;
      sum += bytes;
      const char* const elsewhere = call.codec ? nullptr : leaving_[static_cast<std::size_t>(piece)];
      const char* const data = elsewhere ? elsewhere : payload + start;
      Network::Stretch* const last = stretches_.empty() ? nullptr : &stretches_.back();
      if (last && static_cast<std::size_t>(data - last->data) == start - last->start &&
          start - (last->start + last->bytes) <= (elsewhere ? 0 : kGapBytes))
        last->bytes = start + bytes - last->start;
      else
        stretches_.push_back({start, bytes, data});
    }
  return sum;
}

// Copies what a reader reads of the caller's buffers to its place in the message. Returns whether there was any.
bool Group::bring_together(const Wave& wave, const RemoteReader& reader, char* payload) {
  bool any = false;
  for (const auto& [first, pieces] : reader.pieces)
    for (std::int32_t piece = first; piece < first + pieces; piece++) {
      const char*& data = leaving_[static_cast<std::size_t>(piece)];
      if (!data) continue;
      const std::size_t bytes = filled_[static_cast<std::size_t>(piece)];
      if (bytes) std::memcpy(payload + static_cast<std::size_t>(piece) * wave.piece_bytes, data, bytes);
      data = nullptr;
      any = true;
    }
  return any;
}

void Group::tell_clock_to_writers(const Program& program) {
  for (std::int32_t writer : program.writers)
    if (remote(writer)) network_->tell_clock(writer);
}

// The mirrors of this half of the outbox were last read in the call before the previous one, by its readers.
void Group::await_remote_readers(const Program& program) {
  for (std::int32_t reader : program.readers) {
    if (!remote(reader)) continue;
    if (segment_.line(reader).clock.load() < previous_start_) network_->ask(reader);
    await_clock(reader, previous_start_);
  }
}

// The caller may compute for long, and while it does nobody sends.
void Group::finish_sending() {
  const int busy = network_->busy_with();
  if (busy < 0) return;
  waiting_.until(
      busy, [&] { return network_->idle(); }, [] {},
      [&] { return describe(rank_, call_) + " sends to rank " + std::to_string(busy) + ", which does not take it"; });
}

// AUTOTUNE_CHECK: this call's record goes to everyone before it starts.
void Group::tell_everyone() {
  for (int other = 0; other < n_ranks(); other++)
    if (remote(other)) network_->tell_clock(other);
}

void Group::leave_network() {
  if (segment_.group().broken.load() == 0) network_->leave();
  network_->detach();
}

void Group::release_network() {
  if (!network_ || segment_.line(rank_).pid.load() == static_cast<std::int32_t>(getpid())) return;
  new std::shared_ptr<Network>(network_);  // a forked child's: to close its connections would end the parent's
}

std::string Group::refusals() const {
  if (!network_ || network_->refused() == 0) return "";
  return " (" + std::to_string(network_->refused()) + " packets without the run's secret were refused)";
}

}  // namespace autotune
