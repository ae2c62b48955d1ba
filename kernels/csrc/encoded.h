// Instructions of calls with a codec: what arrives is decoded, what is sent is encoded, a tile at a time.
//
// In: an instruction's operands, in memory and in messages. Out: its result in memory and in the outbox, and in the
// residual what encoding dropped. Waits for nobody, and trusts no message.
//
// The rules are those of kernels/schedules/wire.py. A message has one encoding for each block of the schedule, at
// multiples of piece_bytes, so codec blocks begin where the block begins in its slice. What is sent stays here as its
// readers will decode it. What arrives and is only passed on goes out as the bytes that came.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "call.h"
#include "codec.h"
#include "program.h"
#include "reduce.h"

namespace autotune {

struct EncodedOperands {
  const Source* places;        // of the sources, in the program
  const void* const* sources;  // elements in memory, or a peer's message from the first block on
  char* memory;                // where the result stays; null for nowhere
  char* outbox;                // in the message, from the first block on; null for nowhere
  char* residual;              // of the first element; null where nothing is collected
  std::size_t elements;        // in memory, of all blocks together
  std::size_t encoded;         // in messages: more where all_to_all_v has a shorter part, behind which zeros travel
  std::size_t pitch;           // elements from one block to the next
  std::size_t piece_bytes;     // of a message, from one block to the next
  std::size_t* filled;         // by block: takes the bytes that its encoding came to; null where nobody asks
};

class Transcoder {
 public:
  explicit Transcoder(const Arithmetic& arithmetic) : arithmetic_(arithmetic) {}

  // The rank whose message is no encoding of its elements; nothing if all went well. `stream`: memory past the caches.
  std::optional<int> execute(const Call& call, const Instruction& op, const EncodedOperands& operands, bool stream);

 private:
  static constexpr std::size_t kTile = 8 * kCodecBlock;  // elements; a few of them stay in the first-level cache

  struct Block;  // an instruction's part of one block of the schedule
  std::optional<int> execute_block(const Call& call, const Instruction& op, const Block& block, bool stream,
                                   std::size_t& sent);
  const void* gather(const Block& block, int source, std::size_t first, std::size_t length, void* tile);
  const char* send(const Call& call, const Instruction& op, const Block& block, bool stream, std::size_t first,
                   std::size_t length, const char* value, std::size_t& sent);
  void put(bool stream, char* to, const char* from, std::size_t bytes) const;
  void make_room(const Call& call, int n_sources);
  char* tile(int number) { return tiles_ + static_cast<std::size_t>(number) * kTile * sizeof(double); }

  const Arithmetic& arithmetic_;
  std::vector<char> memory_;
  char* tiles_ = nullptr;               // aligned: one for each source, the result, what its readers decode
  std::vector<const void*> values_;     // by source: the elements of a tile
  std::vector<Decoder> decoders_;       // by source; of a source in memory, one that reads nothing
  alignas(64) char wire_[kTile * sizeof(double) + kTile / kCodecBlock * sizeof(std::uint32_t) + kCodecSlack];
};

}  // namespace autotune
