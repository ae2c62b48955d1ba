// A call without its buffers: everything that must be equal on all ranks.
//
// In: a program and the arguments of a call. Out: the plan, the signature and the words that ranks compare. Touches no
// shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "codec.h"
#include "elements.h"
#include "program.h"
#include "script.h"

namespace autotune {

// How messages are stored: through the caches, past them, or as the readers are near or far at the moment (outbox_stores.h).
enum class Outbox : std::uint8_t { Cached, Streamed, Learnt };
inline constexpr int kOutboxes = 3;

struct Call {
  std::shared_ptr<const Program> program;
  Plan plan;
  std::shared_ptr<const Script> script;  // of a short call; else null
  Collective collective;
  DType dtype;
  Op op;
  int root;
  std::string algorithm;
  std::uint64_t segment_bytes;
  bool stream;                    // write outputs past the caches
  Outbox outbox;                  // how messages are written
  std::optional<Codec> codec;     // what messages are encoded by
  std::uint64_t signature;        // 20 bits
  std::uint64_t record[9];        // words of CallRecord between the tag and the places
  std::size_t input_elements, output_elements;  // of this rank; 0 where it has none

  // Throws BadArgument: no outbox holds it, or a codec that cannot carry the type or that the program is not made for.
  static Call make(std::shared_ptr<const Program> program, Collective collective, DType dtype, Op op, int root,
                   const std::string& algorithm, std::size_t count, std::size_t segment_bytes, int max_in_flight,
                   bool stream, Outbox outbox, std::size_t half_bytes,
                   const std::optional<CodecSpec>& codec = std::nullopt);
};

// splitmix64's finaliser over a running sum.
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash += value + 0x9E3779B97F4A7C15ull;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9ull;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBull;
  return hash ^ (hash >> 31);
}

}  // namespace autotune
