// Symmetric memory of one rank: where buffers lie in it, and giving pages back. See group.h.
#include "group.h"

using namespace std::string_literals;

namespace autotune {

char* Group::heap() {
  segment_.map_heaps();
  return segment_.heap(rank_);
}

void Group::forget(std::size_t offset, std::size_t bytes) {
  segment_.map_heaps();
  if (offset > heap_bytes() || bytes > heap_bytes() - offset)
    throw BadArgument("symmetric memory ends at " + std::to_string(heap_bytes()) + " bytes", "free what was allocated");
  segment_.forget(rank_, offset, bytes);
}

std::optional<std::size_t> Group::place_of(const void* data, std::size_t bytes) const {
  if (!segment_.has_heap()) return std::nullopt;
  const auto at = reinterpret_cast<std::uintptr_t>(data), start = reinterpret_cast<std::uintptr_t>(segment_.heap(rank_));
  if (at < start || at - start > heap_bytes() || bytes > heap_bytes() - (at - start)) return std::nullopt;
  return at - start;
}

Group::Places Group::places(const Call& call, const void* input, const void* output) const {
  const auto place = [&](const void* data, std::size_t elements, const char* what) {
    const std::optional<std::size_t> found = place_of(data, elements * call.plan.item);
    if (!found)
      throw BadArgument(std::string("a zero-copy call's ") + what + " is not in this rank's symmetric memory",
                        "allocate it with Communicator.allocate, on every rank");
    return *found;
  };
  const Program& program = *call.program;
  Places found{};
  if (program.shares_input) found.input = place(input, call.input_elements, "input");
  if (program.shares_output) found.output = place(output, call.output_elements, "output");
  if (!program.shares_input && !program.shares_output) return found;  // a group of one
  const std::size_t part = static_cast<std::size_t>(rank_) * call.plan.count * call.plan.item;
  const char *in = static_cast<const char*>(input), *out = static_cast<const char*>(output);
  const bool in_place = call.collective == Collective::AllGather       ? in == out + part
                        : call.collective == Collective::ReduceScatter ? out == in + part
                        : call.collective == Collective::Broadcast     ? program.in_place
                                                                       : in == out;
  if (in_place != program.in_place)
    throw BadArgument("a zero-copy call made for buffers that are "s + (in_place ? "not " : "") + "in place",
                      "prepare the call again, with the buffers that it gets");
  if (call.collective == Collective::Broadcast && rank_ == call.root && in != out)
    throw BadArgument("the root of a zero-copy broadcast has two buffers", "give one buffer as input and output");
  return found;
}

}  // namespace autotune
