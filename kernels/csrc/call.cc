// See call.h.
#include "call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "failure.h"
#include "segment.h"

namespace autotune {

Call Call::make(std::shared_ptr<const Program> program, Collective collective, DType dtype, Op op, int root,
                const std::string& algorithm, std::size_t count, std::size_t segment_bytes, int max_in_flight,
                bool stream, Outbox outbox, std::size_t half_bytes, const std::optional<CodecSpec>& codec) {
  if (codec.has_value() != program->lossy)
    throw BadArgument(std::string("a call ") + (codec ? "with" : "without") + " a codec, of a program made for one " +
                          (codec ? "without" : "with"),
                      "this is a bug in autotune: please report it with this message");
  Call call{};
  if (codec) call.codec.emplace(*codec, dtype);
  call.plan = Plan::derive(*program, count, dtype, segment_bytes, half_bytes, max_in_flight,
                           call.codec ? &*call.codec : nullptr);
  call.collective = collective;
  call.dtype = dtype;
  call.op = op;
  call.root = root;
  call.algorithm = algorithm;
  call.segment_bytes = segment_bytes;
  call.stream = stream;
  call.outbox = call.plan.fits_in_line ? Outbox::Cached : outbox;
  if (!stream && outbox != Outbox::Streamed) call.script = Script::resolved(*program, call.plan, op == Op::Avg);
  const auto n = static_cast<std::size_t>(program->n_ranks);
  const bool is_root = program->rank == root;
  switch (collective) {
    case Collective::AllReduce:
    case Collective::Broadcast: call.input_elements = call.output_elements = count; break;
    case Collective::AllGather: call.input_elements = count, call.output_elements = n * count; break;
    case Collective::ReduceScatter: call.input_elements = n * count, call.output_elements = count; break;
    case Collective::Reduce: call.input_elements = count, call.output_elements = is_root ? count : 0; break;
    case Collective::Scatter: call.input_elements = is_root ? n * count : 0, call.output_elements = count; break;
    case Collective::Gather: call.input_elements = count, call.output_elements = is_root ? n * count : 0; break;
    case Collective::AllToAll: call.input_elements = call.output_elements = n * count; break;
  }
  if (collective == Collective::Broadcast && !is_root) call.input_elements = 0;
  if (collective == Collective::Reduce && program->zero_copy && !program->single_copy) call.output_elements = count;
  call.record[0] = count;
  call.record[1] = segment_bytes;
  call.record[2] = static_cast<std::uint64_t>(collective) | static_cast<std::uint64_t>(dtype) << 8 |
                   static_cast<std::uint64_t>(op) << 16 | static_cast<std::uint64_t>(program->single_copy) << 23 |
                   static_cast<std::uint64_t>(max_in_flight | (stream ? 16 : 0)) << 24 |
                   static_cast<std::uint64_t>(program->zero_copy) << 29 |
                   static_cast<std::uint64_t>(program->in_place) << 30 |
                   static_cast<std::uint64_t>(outbox == Outbox::Streamed) << 31 |
                   static_cast<std::uint64_t>(static_cast<std::uint32_t>(root)) << 32;
  if (codec) {
    call.record[3] = 1 + static_cast<std::uint64_t>(codec->kind);
    std::memcpy(&call.record[4], &codec->parameter, sizeof codec->parameter);
  }
  char name[32] = {};
  std::memcpy(name, algorithm.data(), std::min(algorithm.size(), sizeof name - 1));
  std::memcpy(&call.record[5], name, sizeof name);
  std::uint64_t hash = 0;
  for (std::uint64_t word : call.record) hash = mix(hash, word);
  call.signature = hash & kSignatureMask;
  call.program = std::move(program);
  return call;
}

}  // namespace autotune
