// The interpreter; see group.h for the protocol. agreement.cc says what ranks disagree in, point_to_point.cc sends.
#include "group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "one_at_a_time.h"

namespace autotune {
namespace {

constexpr std::size_t kTileBytes = 16 << 10;  // what is combined before it is copied on: fits the first-level cache

constexpr std::uint64_t kChain = 0x9E3795;         // odd, so that a difference once in the chain stays

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {  // splitmix64's finaliser over a running sum
  hash += value + 0x9E3779B97F4A7C15ull;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9ull;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBull;
  return hash ^ (hash >> 31);
}

// The length of block `index`, cut to [0, length) with the given pitch.
std::size_t block_start(std::size_t length, std::size_t pitch, int index) {
  return std::min(length, pitch * static_cast<std::size_t>(index));
}

}  // namespace

Call Call::make(std::shared_ptr<const Program> program, Collective collective, DType dtype, Op op, int root,
                const std::string& algorithm, std::size_t count, std::size_t segment_bytes, int max_in_flight,
                bool stream, std::size_t half_bytes) {
  Call call{};
  call.plan = Plan::derive(*program, count, dtype, segment_bytes, half_bytes, max_in_flight);
  call.collective = collective;
  call.dtype = dtype;
  call.op = op;
  call.root = root;
  call.algorithm = algorithm;
  call.segment_bytes = segment_bytes;
  call.stream = stream;
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
  call.record[0] = count;
  call.record[1] = segment_bytes;
  call.record[2] = static_cast<std::uint64_t>(collective) | static_cast<std::uint64_t>(dtype) << 8 |
                   static_cast<std::uint64_t>(op) << 16 |
                   static_cast<std::uint64_t>(max_in_flight | (stream ? 16 : 0)) << 24 |
                   static_cast<std::uint64_t>(static_cast<std::uint32_t>(root)) << 32;
  char name[32] = {};
  std::memcpy(name, algorithm.data(), std::min(algorithm.size(), sizeof name - 1));
  std::memcpy(&call.record[3], name, sizeof name);
  std::uint64_t hash = 0;
  for (std::uint64_t word : call.record) hash = mix(hash, word);
  call.signature = hash & kSignatureMask;
  call.program = std::move(program);
  return call;
}

struct Group::Wave {
  int half;
  std::uint64_t word;           // that announces a message of this wave
  std::uint64_t previous_word;  // that announced the messages taken now
  std::size_t number;           // in the call, from 0
  std::size_t slot, previous_slot;
  std::size_t slice, column;  // number of the slice; its place among those in flight
  bool stream;                // write the output past the caches
  const Level* level;
  std::size_t length;  // elements of this slice (horizontal) or of each block's slice (vertical)
  std::size_t pitch;   // elements from one block to the next, in the slice and in messages
};

Group::Group(int fd, int rank, GroupOptions options)
    : segment_(fd),
      rank_(rank),
      waiting_(segment_, rank, options.waiting, std::move(options.interrupted)),
      check_(options.check),
      arithmetic_(arithmetic()),
      seen_clock_(static_cast<std::size_t>(segment_.n_ranks()), 0),
      sent_pieces_(static_cast<std::size_t>(segment_.n_ranks()), 0),
      received_pieces_(static_cast<std::size_t>(segment_.n_ranks()), 0) {
  if (rank < 0 || rank >= n_ranks())
    throw BadArgument("rank " + std::to_string(rank) + " is not in a group of " + std::to_string(n_ranks()),
                      "give each process a rank from 0 to " + std::to_string(n_ranks() - 1));
  RankLine& line = segment_.line(rank);
  line.pid.store(static_cast<std::int32_t>(getpid()));
  line.clock.store(1);
  std::uint32_t absent = static_cast<std::uint32_t>(Presence::Absent);
  if (!line.presence.compare_exchange_strong(absent, static_cast<std::uint32_t>(Presence::Joined)))
    waiting_.fail("two processes joined as rank " + std::to_string(rank), "give each process a rank of its own");
  waiting_.ring();
  for (int other = 0; other < n_ranks(); other++) {
    const auto& presence = segment_.line(other).presence;
    waiting_.until(
        other, [&] { return presence.load() != static_cast<std::uint32_t>(Presence::Absent); }, [] {},
        [&] { return "rank " + std::to_string(rank_) + " waits for rank " + std::to_string(other) + " to join"; });
    waiting_.watch(other);
  }
}

Group::~Group() { leave(); }

void Group::leave() {
  RankLine& line = segment_.line(rank_);
  if (line.pid.load() != static_cast<std::int32_t>(getpid())) return;  // a forked child's copy: the rank is its parent
  line.presence.store(static_cast<std::uint32_t>(Presence::Left));
  waiting_.ring();
}

void Group::run(const Call& call, const void* input, void* output, const Splits* splits) {
  const OneAtATime guard(busy_);
  begin(call);
  const Program& program = *call.program;
  const Plan& plan = call.plan;
  const std::size_t levels = program.levels.size();
  const int half = static_cast<int>(call_ & 1);
  const std::uint64_t start = epoch_;
  const auto announced = [&](std::size_t wave) { return (start + wave) << kSignatureBits | chain_; };
  RankLine& line = segment_.line(rank_);

  Wave wave{};
  wave.half = half;
  wave.stream = call.stream && input != output;
  std::size_t newest = 0, oldest = 0;             // slices that are under way
  std::size_t row = 0, previous_row = plan.window - 1;  // w and w - 1, modulo the window
  for (std::size_t w = 0; w < plan.waves; w++) {
    if (w >= (newest + 1) * plan.spacing && newest + 1 < plan.slices) newest++;
    if (w >= levels + oldest * plan.spacing) oldest++;
    wave.number = w;
    wave.word = announced(w);
    wave.previous_word = announced(w - 1);  // of no wave at w = 0, where nothing is taken
    // The newest slice first: its peers wait longest for it.
    for (std::size_t s = newest + 1; s-- > oldest;) {
      const bool last = s + 1 == plan.slices;
      const std::size_t column = plan.in_flight == 1 ? 0 : s % plan.in_flight;
      wave.slot = row * plan.in_flight + column;
      wave.previous_slot = previous_row * plan.in_flight + column;
      wave.slice = s;
      wave.column = column;
      wave.level = &program.levels[w - plan.spacing * s];
      wave.length = last ? plan.last_slice : plan.slice;
      wave.pitch = last ? plan.last_pitch : plan.block_limit;
      run_level(call, wave, static_cast<const char*>(input), static_cast<char*>(output), splits);
    }
    previous_row = row;
    if (++row == plan.window) row = 0;
    // Nobody reads the clock inside a call whose slots are never used again.
    if (plan.waves > plan.window || w + 1 == plan.waves) {
      line.clock.store(start + w + 1, std::memory_order_release);
      waiting_.ring();
    }
  }
  if (wave.stream) store_fence();  // the caller may hand the output to another thread
  previous_start_ = start;
  previous_synchronising_ = program.synchronising;
  epoch_ = start + plan.waves;
}

void Group::begin(const Call& call) {
  waiting_.check_usable();
  call_++;
  chain_ = (chain_ * kChain + call.signature) & kSignatureMask;
  CallRecord& record = segment_.line(rank_).history[call_ % kHistory];
  // A sequence lock without fences: each store releases the tag's 0 before it, each load of the reader acquires.
  record.tag.store(0, std::memory_order_relaxed);
  record.count.store(call.record[0], std::memory_order_release);
  record.segment.store(call.record[1], std::memory_order_release);
  record.what.store(call.record[2], std::memory_order_release);
  for (int i = 0; i < 4; i++) record.algorithm[i].store(call.record[3 + i], std::memory_order_release);
  record.tag.store(call_ << kSignatureBits | chain_, std::memory_order_release);
  if (check_) {
    waiting_.ring();
    for (int other = 0; other < n_ranks(); other++) {
      const CallRecord& theirs = segment_.line(other).history[call_ % kHistory];
      waiting_.until(
          other, [&] { return theirs.tag.load(std::memory_order_acquire) >> kSignatureBits == call_; }, [] {},
          [&] { return describe(rank_, call_) + " waits for rank " + std::to_string(other) + call_counts(); });
      compare_with(other);
    }
  }
  // This half of the outbox was last read in the call before the previous one. A synchronising previous call has
  // shown that everyone had started it, and so had left the one before.
  if (!previous_synchronising_)
    for (int other = 0; other < n_ranks(); other++)
      if (other != rank_) await_clock(other, previous_start_);
  const auto needed = static_cast<std::size_t>(call.program->scratch_blocks) * call.plan.block_limit * call.plan.item *
                      call.plan.in_flight;
  if (scratch_.size() < needed) scratch_.resize(needed);
  const auto operands = static_cast<std::size_t>(call.program->max_sources);
  if (sources_.size() < operands) sources_.resize(operands);
}

void Group::run_level(const Call& call, const Wave& wave, const char* input, char* output, const Splits* splits) {
  const Program& program = *call.program;
  const Plan& plan = call.plan;
  const std::size_t item = plan.item;
  const Level& level = *wave.level;
  Header& mine = segment_.headers(rank_, wave.half)[wave.slot];
  char* const outbox = plan.fits_in_line ? mine.payload : segment_.outbox(rank_, wave.half) + wave.slot * plan.slot_bytes;
  if (level.outgoing && wave.number >= plan.window)
    for (std::int32_t reader : program.readers)
      await_clock(reader, epoch_ + wave.number - plan.window + 2);

  // Elements before block `index` of this slice in a user's buffer.
  const auto offset = [&](int index, const std::vector<std::size_t>* starts) -> std::size_t {
    if (starts) return (*starts)[static_cast<std::size_t>(index)] + wave.slice * plan.slice;
    if (program.vertical) return static_cast<std::size_t>(index) * plan.count + wave.slice * plan.slice;
    return wave.slice * plan.slice + block_start(wave.length, wave.pitch, index);
  };
  // Elements of a part that belong to this slice.
  const auto share = [&](std::size_t part) {
    const std::size_t before = wave.slice * plan.slice;
    return part > before ? std::min(part - before, plan.slice) : 0;
  };
  char* const scratch = scratch_.data() + wave.column *
                                              static_cast<std::size_t>(program.scratch_blocks) * plan.block_limit * item;

  int left = level.outgoing;
  for (int i = level.first; i < level.last; i++) {
    const Instruction& op = program.instructions[static_cast<std::size_t>(i)];
    std::size_t elements = program.vertical ? wave.length
                                            : block_start(wave.length, wave.pitch, op.block + op.width) -
                                                  block_start(wave.length, wave.pitch, op.block);
    for (int k = 0; k < op.n_sources; k++) {
      const Source& source = program.sources[static_cast<std::size_t>(op.first_source + k)];
      const void*& at = sources_[static_cast<std::size_t>(k)];
      switch (source.space) {
        case Space::Peer: {
          const Header& theirs = segment_.headers(source.rank, wave.half)[wave.previous_slot];
          await_message(source.rank, theirs, wave.previous_word);
          const char* message = plan.fits_in_line ? theirs.payload
                                                  : segment_.outbox(source.rank, wave.half) +
                                                        wave.previous_slot * plan.slot_bytes;
          at = message + static_cast<std::size_t>(source.index) * wave.pitch * item;
          break;
        }
        case Space::Input:
          at = input + offset(source.index, splits ? &splits->input_offsets : nullptr) * item;
          if (splits)
            elements = std::min(elements, share(splits->input_counts[static_cast<std::size_t>(source.index)]));
          break;
        case Space::Output:
          at = output + offset(source.index, splits ? &splits->output_offsets : nullptr) * item;
          break;
        case Space::Scratch: at = scratch + static_cast<std::size_t>(source.index) * wave.pitch * item; break;
      }
    }
    char* memory = nullptr;
    if (op.destinations & kToOutput) {
      memory = output + offset(op.memory_index, splits ? &splits->output_offsets : nullptr) * item;
      if (splits)
        elements = std::min(elements, share(splits->output_counts[static_cast<std::size_t>(op.memory_index)]));
    } else if (op.destinations & kToScratch) {
      memory = scratch + static_cast<std::size_t>(op.memory_index) * wave.pitch * item;
    }
    const bool outgoing = (op.destinations & kToOutbox) != 0;
    if (elements)
      execute(call, wave, op, sources_.data(), memory,
              outgoing ? outbox + static_cast<std::size_t>(op.piece) * wave.pitch * item : nullptr, elements);
    if (outgoing && --left == 0) {
      mine.word.store(wave.word, std::memory_order_release);
      waiting_.ring();
    }
  }
}

void Group::execute(const Call& call, const Wave& wave, const Instruction& op, const void* const* sources, char* memory,
                    char* outbox, std::size_t elements) {
  const std::size_t bytes = elements * call.plan.item;
  const bool stream = wave.stream && (op.destinations & kToOutput);
  if (op.n_sources == 1) {
    const char* from = static_cast<const char*>(sources[0]);
    if (!memory || !outbox) {
      char* to = memory ? memory : outbox;
      if (to == from) return;
      if (stream) arithmetic_.stream_copy(to, from, bytes);
      else std::memcpy(to, from, bytes);
      return;
    }
    for (std::size_t at = 0; at < bytes; at += kTileBytes) {
      const std::size_t length = std::min(kTileBytes, bytes - at);
      std::memcpy(outbox + at, from + at, length);
      if (stream) arithmetic_.stream_copy(memory + at, outbox + at, length);
      else std::memcpy(memory + at, outbox + at, length);
    }
    return;
  }
  const ReduceFn reduce = arithmetic_.reduce[static_cast<int>(call.dtype)][static_cast<int>(call.op)];
  const int divisor = op.completes && call.op == Op::Avg ? call.program->n_ranks : 1;
  if (memory && !outbox && !stream) {
    reduce(memory, sources, op.n_sources, elements, divisor);
    return;
  }
  // The result goes to a tile of own memory first: plain vector stores into lines that a peer has read are slow,
  // memcpy into them is not.
  alignas(64) static thread_local char tile_memory[kTileBytes];
  static thread_local std::vector<const void*> parts;
  parts.resize(static_cast<std::size_t>(op.n_sources));
  const std::size_t tile_elements = kTileBytes / call.plan.item;
  for (std::size_t first = 0; first < elements; first += tile_elements) {
    const std::size_t length = std::min(tile_elements, elements - first);
    const std::size_t at = first * call.plan.item, length_bytes = length * call.plan.item;
    for (int k = 0; k < op.n_sources; k++) parts[static_cast<std::size_t>(k)] = static_cast<const char*>(sources[k]) + at;
    char* const tile = memory && !stream ? memory + at : tile_memory;
    reduce(tile, parts.data(), op.n_sources, length, divisor);
    if (stream) arithmetic_.stream_copy(memory + at, tile, length_bytes);
    if (outbox) std::memcpy(outbox + at, tile, length_bytes);
  }
}

void Group::await_message(int source, const Header& header, std::uint64_t word) {
  if (__builtin_expect(header.word.load(std::memory_order_acquire) == word, 1)) return;
  waiting_.until(
      source, [&] { return header.word.load(std::memory_order_acquire) == word; },
      [&] { compare_with(source); },
      [&] { return describe(rank_, call_) + " waits for rank " + std::to_string(source) + call_counts(); });
}

void Group::await_clock(int source, std::uint64_t clock) {
  std::uint64_t& seen = seen_clock_[static_cast<std::size_t>(source)];
  if (seen >= clock) return;
  const Word& theirs = segment_.line(source).clock;
  seen = theirs.load(std::memory_order_acquire);
  if (seen >= clock) return;
  waiting_.until(
      source, [&] { return (seen = theirs.load(std::memory_order_acquire)) >= clock; },
      [&] { compare_with(source); },
      [&] { return describe(rank_, call_) + " waits for rank " + std::to_string(source) + call_counts(); });
}

}  // namespace autotune
