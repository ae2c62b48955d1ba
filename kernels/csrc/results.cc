// Where the result of an instruction goes: to memory, to the outbox, to other ranks' buffers; see group.h.
//
// In: operands. Out: results, through the caches or past them, as the wave says. Waits for nobody.
#include <algorithm>
#include <cstring>

#include "wave.h"

namespace autotune {
namespace {

constexpr std::size_t kTileBytes = 16 << 10;  // what is combined before it is copied on: fits the first-level cache
constexpr std::size_t kAheadBytes = 64 << 10;  // of a message: more has left the second-level cache when its turn comes
alignas(64) thread_local char tile_memory[kTileBytes];

}  // namespace

void Group::put(bool stream, char* to, const char* from, std::size_t bytes, const char* ahead) const {
  if (stream) arithmetic_.stream_copy(to, from, bytes, ahead);
  else std::memcpy(to, from, bytes);
}

// What this rank reads of its input a wave later: the next slice of the operand that is there, or, where an instruction of an
// all_reduce has none, of the block that is sent, which is the block that it keeps. Nothing where other ranks use the cache
// meanwhile.
const char* Group::read_soon(const Call& call, const Wave& wave, const Instruction& op, const Buffers& buffers,
                             const char* memory) const {
  const Plan& plan = call.plan;
  if (plan.piece_bytes > kAheadBytes || !waiting_.alone()) return nullptr;
  std::size_t later = 1;
  const char* here = nullptr;
  for (int k = 0; k < op.n_sources; k++)
    if (call.program->sources[static_cast<std::size_t>(op.first_source + k)].space == Space::Input)
      here = static_cast<const char*>(sources_[static_cast<std::size_t>(k)]);
  if (!here && call.collective == Collective::AllReduce) {
    here = buffers.input + (memory - buffers.output);
    later = wave.number / plan.spacing + 1 - wave.slice;
  }
  return here && wave.slice + later + 1 < plan.slices ? here + later * plan.slice * plan.item : nullptr;
}

void Group::execute(const Call& call, const Wave& wave, const Instruction& op, const void* const* sources, char* memory,
                    char* outbox, std::size_t elements, const char* ahead) {
  const std::size_t bytes = elements * call.plan.item;
  const bool stream = wave.stream && (op.destinations & kToOutput);
  if (op.n_sources == 1) {
    const char* from = static_cast<const char*>(sources[0]);
    if (!memory || !outbox) {
      if (memory && memory != from) put(stream, memory, from, bytes, ahead);
      if (outbox) put(wave.stream_outbox, outbox, from, bytes);
      return;
    }
    for (std::size_t at = 0; at < bytes; at += kTileBytes) {
      const std::size_t length = std::min(kTileBytes, bytes - at);
      put(wave.stream_outbox, outbox + at, from + at, length);
      put(stream, memory + at, from + at, length, ahead ? ahead + at : nullptr);
    }
    return;
  }
  const ReduceFn reduce = arithmetic_.reduce[static_cast<int>(call.dtype)][static_cast<int>(call.op)];
  const int divisor = op.completes && call.op == Op::Avg ? call.program->n_ranks : 1;
  if (stream) {
    void* const targets[] = {memory, outbox};
    const bool both = outbox && wave.stream_outbox;
    arithmetic_.reduce_streamed[static_cast<int>(call.dtype)][static_cast<int>(call.op)](
        targets, both ? 2 : 1, both ? nullptr : outbox, sources, op.n_sources, elements, divisor, ahead);
    return;
  }
  if (memory && !outbox) {
    reduce(memory, sources, op.n_sources, 0, elements, divisor);
    return;
  }
  // The result goes to a tile of own memory first: plain vector stores into lines that a peer has read are slow,
  // memcpy into them is not.
  const std::size_t tile_elements = kTileBytes / call.plan.item;
  for (std::size_t first = 0; first < elements; first += tile_elements) {
    const std::size_t length = std::min(tile_elements, elements - first);
    const std::size_t at = first * call.plan.item, length_bytes = length * call.plan.item;
    char* const tile = memory ? memory + at : tile_memory;
    reduce(tile, sources, op.n_sources, first, length, divisor);
    if (outbox) put(wave.stream_outbox, outbox + at, tile, length_bytes);
  }
}

// The result goes to other ranks' buffers, and to own memory if there is one for it.
void Group::store_everywhere(const Call& call, const Wave& wave, const Instruction& op, char* memory,
                             std::size_t elements) {
  const std::size_t item = call.plan.item;
  int m = op.n_stores;
  if (memory) stores_[static_cast<std::size_t>(m++)] = memory;
  const int divisor = op.completes && call.op == Op::Avg ? call.program->n_ranks : 1;
  const auto type = static_cast<int>(call.dtype), how = static_cast<int>(call.op);
  if (op.n_sources > 1) {
    if (wave.stream)
      arithmetic_.reduce_streamed[type][how](stores_.data(), m, nullptr, sources_.data(), op.n_sources, elements, divisor,
                                              nullptr);
    else
      arithmetic_.reduce_to_all[type][how](stores_.data(), m, sources_.data(), op.n_sources, elements, divisor);
    return;
  }
  const std::size_t tile_elements = kTileBytes / item;
  for (std::size_t first = 0; first < elements; first += tile_elements) {
    const std::size_t length = std::min(tile_elements, elements - first);
    const char* tile = static_cast<const char*>(sources_[0]) + first * item;
    for (int k = 0; k < m; k++) {
      char* const to = static_cast<char*>(stores_[static_cast<std::size_t>(k)]) + first * item;
      if (to != tile) put(wave.stream, to, tile, length * item);
    }
  }
}

}  // namespace autotune
