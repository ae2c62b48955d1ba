// Programs as compiled by kernels/compiler.py, and the plan that a call derives from one.
//
// In: the compiler's numbers; a count, a type, a segment size. Out: plain values. Touches no shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "elements.h"

namespace autotune {

enum class Collective : std::uint8_t {
  AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Scatter, Gather, AllToAll
};
inline constexpr int kCollectives = 8;

enum class Space : std::uint8_t { Input, Output, Scratch, Peer };
inline constexpr unsigned kToOutput = 1, kToScratch = 2, kToOutbox = 4;

struct Source {
  Space space;
  std::int32_t rank;
  std::int32_t index;
};

struct Instruction {
  std::uint8_t destinations;
  bool completes;
  std::int32_t memory_index;
  std::int32_t piece;
  std::int32_t width;
  std::int32_t block;
  std::int32_t first_source;
  std::int32_t n_sources;
};

struct Level {
  std::int32_t first;
  std::int32_t last;      // one past
  std::int32_t outgoing;  // instructions that write the outbox; the message is complete after the last of them
};

struct Program {
  int n_ranks;
  int rank;
  int blocks;
  bool vertical;
  int scratch_blocks;
  int piece_blocks;
  bool synchronising;
  int max_sources;
  std::vector<std::int32_t> readers;
  std::vector<Level> levels;
  std::vector<Instruction> instructions;
  std::vector<Source> sources;

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
  std::size_t slot_bytes;   // outbox bytes of one message
  std::size_t waves;        // supersteps of all slices together
  std::size_t spacing;      // waves between the starts of two slices
  std::size_t in_flight;    // slices that share the outbox
  std::size_t window;       // waves until a slot is used again
  bool fits_in_line;        // messages travel in the header's cache line

  // segment_bytes: the most that one message carries. It is lowered until the outbox holds what is in flight.
  // Throws BadArgument where not even the smallest segment fits.
  static Plan derive(const Program& program, std::size_t count, DType type, std::size_t segment_bytes,
                     std::size_t half_bytes, int max_in_flight);
};

}  // namespace autotune
