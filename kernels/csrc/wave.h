// One level of one slice, as run() hands it to the files that carry it out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "group.h"

namespace autotune {

struct Group::Wave {
  int half;  // of the outbox
  bool swapped, previous_swapped;  // whether a message of this slot, and of the one before, lies in its reader's outbox
  int bank;  // of the headers
  std::uint64_t word;           // that announces a message of this wave
  std::uint64_t previous_word;  // that announced the messages taken now
  std::size_t number;           // in the call, from 0
  std::size_t slot, previous_slot;
  std::size_t slice, column;  // number of the slice; its place among those in flight
  bool stream;                // write the output past the caches
  bool stream_outbox;         // write messages so
  bool learns;                // how messages are to be written
  const Level* level;
  bool last_post;  // nothing is announced after this level
  std::size_t length;  // elements of this slice (horizontal) or of each block's slice (vertical)
  std::size_t pitch;   // elements from one block to the next, in the slice
  std::size_t piece_bytes;  // the same in messages

  void take_slice(const Plan& plan, std::size_t s) {
    const bool last = s + 1 == plan.slices;
    slice = s;
    column = plan.in_flight == 1 ? 0 : s % plan.in_flight;
    length = last ? plan.last_slice : plan.slice;
    pitch = last ? plan.last_pitch : plan.block_limit;
    piece_bytes = last ? plan.last_piece_bytes : plan.piece_bytes;
  }
};

// What a message of a single-copy program carries: where its sender's buffers lie in the sender's process.
struct Whereabouts {
  const char* input;
  const char* output;
};
static_assert(sizeof(Whereabouts) <= kInlineBytes);

// Elements before block `index` of a slice, cut to [0, length) with the given pitch.
inline std::size_t block_start(std::size_t length, std::size_t pitch, int index) {
  return std::min(length, pitch * static_cast<std::size_t>(index));
}

// Elements before block `index` of a wave's slice in a user's buffer, all of whose parts are equal.
inline std::size_t Group::before_block(const Program& program, const Plan& plan, const Wave& wave, int index) {
  if (program.vertical) return static_cast<std::size_t>(index) * plan.count + wave.slice * plan.slice;
  return wave.slice * plan.slice + block_start(wave.length, wave.pitch, index);
}

}  // namespace autotune
