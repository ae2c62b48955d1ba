// See encoded.h.
#include "encoded.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace autotune {

struct Transcoder::Block {
  const EncodedOperands& all;
  std::size_t item;      // bytes of an element
  std::size_t start;     // the block's first element among those of all blocks, in memory
  std::size_t piece;     // its first byte among those of the messages
  std::size_t elements;  // in memory
  std::size_t encoded;   // in messages

  bool arrives(int source) const { return all.places[source].space == Space::Peer; }
  const char* source(int number) const {
    return static_cast<const char*>(all.sources[number]) + (arrives(number) ? piece : start * item);
  }
  char* memory() const { return all.memory ? all.memory + start * item : nullptr; }
  char* outbox() const { return all.outbox ? all.outbox + piece : nullptr; }
  // Elements of a tile that lie in memory.
  std::size_t real(std::size_t first, std::size_t length) const {
    return elements > first ? std::min(length, elements - first) : 0;
  }
};

std::optional<int> Transcoder::execute(const Call& call, const Instruction& op, const EncodedOperands& operands,
                                       bool stream) {
  make_room(call, op.n_sources);
  for (std::size_t number = 0; number < static_cast<std::size_t>(op.width); number++) {
    const std::size_t start = number * operands.pitch;
    const auto within = [&](std::size_t elements) {
      return elements > start ? std::min(operands.pitch, elements - start) : 0;
    };
    std::size_t used = 0;
    const Block block{operands, call.plan.item, start, number * operands.piece_bytes, within(operands.elements),
                      within(operands.encoded)};
    if (const std::optional<int> damaged = execute_block(call, op, block, stream, used)) return damaged;
    if (operands.filled) operands.filled[number] = used;
  }
  return std::nullopt;
}

std::optional<int> Transcoder::execute_block(const Call& call, const Instruction& op, const Block& block, bool stream,
                                             std::size_t& sent) {
  decoders_.clear();
  for (int k = 0; k < op.n_sources; k++)
    decoders_.emplace_back(*call.codec, block.source(k), block.arrives(k) ? block.all.piece_bytes : 0);
  const ReduceFn reduce = arithmetic_.reduce[static_cast<int>(call.dtype)][static_cast<int>(call.op)];
  const int divisor = op.completes && call.op == Op::Avg ? call.program->n_ranks : 1;
  const bool passed_on = op.n_sources == 1 && block.arrives(0);
  char *const memory = block.memory(), *const outbox = block.outbox();
  for (std::size_t first = 0; first < block.encoded; first += kTile) {
    const std::size_t length = std::min(kTile, block.encoded - first), real = block.real(first, length);
    // Where no more happens to the result, it is made where it stays.
    char* const here = memory ? memory + first * block.item : nullptr;
    char* const end = !stream && real == length && (passed_on || !outbox) ? here : nullptr;
    for (int k = 0; k < op.n_sources; k++) {
      void* const room = op.n_sources == 1 && end ? end : tile(k);
      values_[static_cast<std::size_t>(k)] = gather(block, k, first, length, room);
      if (!values_[static_cast<std::size_t>(k)]) return block.all.places[k].rank;
    }
    const char* value = static_cast<const char*>(values_[0]);
    if (op.n_sources > 1) {
      char* const room = end ? end : tile(op.n_sources);
      reduce(room, values_.data(), op.n_sources, 0, length, divisor);
      value = room;
    }
    if (outbox && !passed_on) value = send(call, op, block, stream, first, length, value, sent);
    if (here && value != here) put(stream, here, value, real * block.item);
  }
  if (outbox && passed_on) put(call.outbox == Outbox::Streamed, outbox, block.source(0), sent = decoders_[0].used());
  return std::nullopt;
}

// The elements of a tile of one source: where they are, or in `tile`. Null if its message is no encoding of them.
const void* Transcoder::gather(const Block& block, int source, std::size_t first, std::size_t length, void* tile) {
  if (block.arrives(source)) return decoders_[static_cast<std::size_t>(source)].next(length, tile) ? tile : nullptr;
  const char* const from = block.source(source) + first * block.item;
  const std::size_t real = block.real(first, length);
  if (real == length) return from;
  std::memcpy(tile, from, real * block.item);
  std::memset(static_cast<char*>(tile) + real * block.item, 0, (length - real) * block.item);
  return tile;
}

// Encodes a tile into the message, behind the `sent` bytes that are there. Returns what its readers will decode, where
// that is of use here.
const char* Transcoder::send(const Call& call, const Instruction& op, const Block& block, bool stream,
                             std::size_t first, std::size_t length, const char* value, std::size_t& sent) {
  // In own memory first: memcpy is the fastest way into lines that peers have read (level.cc).
  const std::size_t bytes = call.codec->encode(value, length, wire_);
  put(call.outbox == Outbox::Streamed, block.outbox() + sent, wire_, bytes);
  sent += bytes;
  char* const memory = block.memory();
  char* const residual = block.all.residual;
  if (!memory && !residual) return value;
  const bool in_place = memory && !residual && !stream && block.real(first, length) == length;
  char* const kept = in_place ? memory + first * block.item : tile(op.n_sources + 1);
  Decoder own(*call.codec, wire_, bytes);
  if (!own.next(length, kept)) return value;  // not reached: it is an encoding of these elements
  if (residual) {
    const double weight = op.divided && call.op == Op::Avg ? call.program->n_ranks : 1;
    call.codec->collect(value, kept, weight, residual + (block.start + first) * residual_bytes(call.dtype), length);
  }
  return kept;
}

void Transcoder::put(bool stream, char* to, const char* from, std::size_t bytes) const {
  if (stream) arithmetic_.stream_copy(to, from, bytes, nullptr);
  else std::memcpy(to, from, bytes);
}

void Transcoder::make_room(const Call& call, int n_sources) {
  const auto sources = static_cast<std::size_t>(std::max(n_sources, call.program->max_sources));
  if (values_.size() >= sources) return;
  constexpr std::size_t kLine = 64;
  values_.resize(sources);
  memory_.resize((sources + 2) * kTile * sizeof(double) + kLine);
  tiles_ = memory_.data() + (kLine - reinterpret_cast<std::uintptr_t>(memory_.data()) % kLine) % kLine;
}

}  // namespace autotune
