// How a call is cut into slices and slots; see program.h.
//
// In: a program, a count, a type, a segment size. Out: the plan, the same on all ranks.
#include <algorithm>

#include "failure.h"
#include "program.h"
#include "segment.h"

namespace autotune {
namespace {

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
std::size_t round_up(std::size_t a, std::size_t unit) { return divide_up(a, unit) * unit; }

}  // namespace

Plan Plan::derive(const Program& program, std::size_t count, DType type, std::size_t segment_bytes,
                  std::size_t half_bytes, int max_in_flight, const Codec* codec) {
  Plan plan{};
  plan.count = count;
  plan.item = item_bytes(type);
  const auto piece_blocks = static_cast<std::size_t>(program.piece_blocks);
  const auto blocks = static_cast<std::size_t>(program.blocks);
  const std::size_t levels = program.levels.size();
  const std::size_t line = 64 / plan.item;  // elements of a cache line: cuts and pitches are multiples of it
  // A block of less than a line stays dense, so that small messages still fit their header's line.
  const auto pitch = [&](std::size_t elements) {
    const std::size_t dense = divide_up(elements, blocks);
    return dense > line ? round_up(dense, line) : dense;
  };
  const auto encoded = [&](std::size_t elements) { return codec ? codec->limit(elements) : elements * plan.item; };
  constexpr std::size_t kWindow = 3;        // two waves are the least; the third lets readers lag behind by one

  for (std::size_t limit = std::max(segment_bytes, plan.item);; limit /= 2) {
    const std::size_t cap = std::max(line, limit / plan.item / piece_blocks / line * line);
    if (program.vertical) {
      const std::size_t cuts = std::max<std::size_t>(1, divide_up(count, cap));
      plan.slice = divide_up(count, cuts);
      if (cuts > 1) plan.slice = round_up(plan.slice, line);
      plan.block_limit = plan.slice;
    } else {
      const std::size_t cuts = std::max<std::size_t>(1, divide_up(count, cap * blocks));
      plan.slice = divide_up(count, cuts);
      if (cuts > 1) plan.slice = round_up(plan.slice, line * blocks);
      plan.block_limit = pitch(plan.slice);
    }
    plan.slices = count ? divide_up(count, plan.slice) : 1;
    plan.last_slice = count ? count - (plan.slices - 1) * plan.slice : 0;
    plan.last_pitch = program.vertical ? plan.slice : pitch(plan.last_slice);
    plan.spacing = plan.in_flight = 1;
    if (plan.slices > 1) {
      const std::size_t deep = std::min<std::size_t>(static_cast<std::size_t>(max_in_flight), levels);
      plan.spacing = divide_up(levels, deep);
      plan.in_flight = divide_up(levels, plan.spacing);
    }
    plan.waves = levels + plan.spacing * (plan.slices - 1);
    plan.piece_bytes = encoded(plan.block_limit);
    plan.last_piece_bytes = encoded(plan.last_pitch);
    const std::size_t message = program.zero_copy ? 0 : piece_blocks * plan.piece_bytes;
    plan.fits_in_line = message <= kInlineBytes;
    plan.slot_bytes = round_up(message, 64);
    // A single slice of few levels has a slot for every level, and so never waits for a slot.
    const auto fits = [&] {
      return plan.window * plan.in_flight <= kSlots &&
             (plan.fits_in_line || plan.slot_bytes * plan.window * plan.in_flight <= half_bytes);
    };
    plan.window = plan.slices == 1 && levels <= 8 ? levels : kWindow;
    if (fits()) return plan;
    plan.window = kWindow;
    if (fits()) return plan;
    if (cap == line)
      throw BadArgument("the outbox of " + std::to_string(half_bytes) + " bytes is too small for " +
                            std::to_string(program.n_ranks) + " ranks",
                        "raise AUTOTUNE_STAGING");
  }
}

}  // namespace autotune
