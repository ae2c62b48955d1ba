// Programs as compiled by kernels/compiler.py, and the plan that a call derives from one.
//
// In: the compiler's numbers; a count, a type, a segment size. Out: plain values. Touches no shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codec.h"
#include "elements.h"

namespace autotune {

enum class Collective : std::uint8_t {
  AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Scatter, Gather, AllToAll
};
inline constexpr int kCollectives = 8;

enum class Space : std::uint8_t { Input, Output, Scratch, Peer, PeerInput, PeerOutput };
inline constexpr int kSpaces = 6;
inline constexpr unsigned kToOutput = 1, kToScratch = 2, kToOutbox = 4, kBeforePost = 8;

struct Source {  // where an operand lies, or where a result is stored in another rank's buffer
  Space space;
  std::int32_t rank;
  std::int32_t index;
};

struct Instruction {
  std::uint8_t destinations;
  bool completes;
  bool divided;          // what is encoded is a finished average, where the operation is one
  std::int32_t charged;  // block of the input whose residual takes what encoding drops; -1 for none
  std::int32_t memory_index;
  std::int32_t piece;
  std::int32_t width;
  std::int32_t block;
  std::int32_t first_source;
  std::int32_t n_sources;
  std::int32_t first_store;  // in Program::sources too
  std::int32_t n_stores;
  std::int32_t first_wait;
  std::int32_t n_waits;
};

// What a rank on another host reads of a level's message.
struct RemoteReader {
  std::int32_t rank;
  std::vector<std::pair<std::int32_t, std::int32_t>> pieces;  // first piece, and how many
};

struct Level {
  std::int32_t first;
  std::int32_t last;         // one past
  std::int32_t before_post;  // instructions that the message waits for
  bool posts;                // whether anybody awaits a message of this level
  std::vector<std::int32_t> awaited;  // whose messages of the level before it takes, each once
  std::vector<RemoteReader> remote_readers;
};

struct Program {
  int n_ranks;
  int rank;
  int blocks;
  bool vertical;
  int scratch_blocks;
  int piece_blocks;
  bool synchronising;
  bool zero_copy;    // messages only announce; others read and write the buffers themselves
  bool single_copy;  // these are private: messages tell where they lie, and the kernel reads them; zero_copy, too
  bool in_place;     // what a program over symmetric memory is made for
  bool shares_input, shares_output;  // whether any rank touches another's buffer; equal on all ranks
  bool lossy;      // messages are encoded: an instruction that sends keeps what its readers will decode
  bool exchanges;  // two ranks, each answering every message of the other, with data, by one of the same level; equal on both
  int max_sources, max_stores;
  std::vector<std::int32_t> readers;      // who ever awaits a message of this rank
  std::vector<std::int32_t> writers;      // whose messages this rank ever awaits
  std::vector<std::int32_t> final_waits;  // whom this rank awaits before it returns
  std::vector<Level> levels;
  std::vector<Instruction> instructions;
  std::vector<Source> sources;
  std::vector<std::int32_t> waits;

  // Reads Program.flatten() of kernels/compiler.py and checks every index. Throws BadArgument.
  static Program load(const std::vector<std::int64_t>& words);
};

// How one call is cut. Every rank derives the same plan, since it depends on equal arguments only.
struct Plan {
  std::size_t count;        // elements: of the buffer (horizontal), of one rank's block (vertical)
  std::size_t item;         // bytes of one element
  std::size_t slices;
  std::size_t slice;        // elements of one slice (horizontal), of one block's slice (vertical)
  std::size_t block_limit;  // elements that one block of one slice has at most: the pitch in all slices but the last
  std::size_t last_slice;   // elements of the last slice, and its pitch
  std::size_t last_pitch;
  std::size_t piece_bytes;  // outbox bytes from one block of a message to the next, in all slices but the last
  std::size_t last_piece_bytes;
  std::size_t slot_bytes;   // outbox bytes of one message
  std::size_t waves;        // supersteps of all slices together
  std::size_t spacing;      // waves between the starts of two slices
  std::size_t in_flight;    // slices that share the outbox
  std::size_t window;       // waves until a slot is used again
  bool fits_in_line;        // messages travel in the header's cache line

  // segment_bytes: the most that one message carries, before a codec. It is lowered until the outbox holds what is in
  // flight, by the most that the codec makes of it.
  // Throws BadArgument where not even the smallest segment fits.
  static Plan derive(const Program& program, std::size_t count, DType type, std::size_t segment_bytes,
                     std::size_t half_bytes, int max_in_flight, const Codec* codec = nullptr);
};

}  // namespace autotune
