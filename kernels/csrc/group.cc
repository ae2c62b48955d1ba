// The interpreter; see group.h for the protocol.
#include "group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace autotune {
namespace {

constexpr int kSignatureBits = 20;
constexpr std::uint64_t kSignatureMask = (std::uint64_t{1} << kSignatureBits) - 1;
constexpr std::size_t kTileBytes = 16 << 10;  // what is combined before it is copied on: fits the first-level cache

const char* const kCollectiveNames[kCollectives] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                    "reduce",     "scatter",    "gather",         "all_to_all"};
const char* const kTypeNames[kDTypes] = {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"};
const char* const kOpNames[kOps] = {"sum", "prod", "max", "min", "avg"};
constexpr std::uint64_t kLookBack = kHistory - 4;  // a peer is at most two calls ahead, so these records are whole
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

// Another thread in the same communicator would take this rank's place in the order of calls.
class OneAtATime {
 public:
  explicit OneAtATime(std::atomic_flag& busy) : busy_(busy) {
    if (busy_.test_and_set(std::memory_order_acquire))
      throw BadArgument("two threads use one communicator at once",
                        "give each thread a communicator of its own: calls must come in the same order on all ranks");
  }
  ~OneAtATime() { busy_.clear(std::memory_order_release); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  std::atomic_flag& busy_;
};

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

// Ends the group's use if `source` has made this call, and this one or an earlier one differed. An earlier one may have
// gone unseen, since neither waited for the other (two roots of one broadcast).
void Group::compare_with(int source) {
  const std::uint64_t tag = segment_.line(source).history[call_ % kHistory].tag.load(std::memory_order_acquire);
  if (tag >> kSignatureBits != call_) return;
  const bool alike = (tag & kSignatureMask) == chain_;
  if (alike && !check_) return;
  const int low = std::min(rank_, source), high = std::max(rank_, source);
  const std::string who = "ranks " + std::to_string(low) + " and " + std::to_string(high) + " disagree at call ";
  const char* const remedy = "make the same calls in the same order, with the same arguments and table, on every rank";
  const std::uint64_t oldest = alike ? call_ : call_ > kLookBack ? call_ - kLookBack : 1;
  for (std::uint64_t number = oldest; number <= call_; number++) {
    const std::string fields = differences(number, source);
    if (!fields.empty())
      waiting_.fail(who + std::to_string(number) + " in: " + fields + ". " + describe(low, number) + "; " +
                        describe(high, number),
                    remedy);
  }
  if (!alike) waiting_.fail(who + std::to_string(oldest) + " or before", remedy);
}

// The fields in which this rank's and another's records of a call differ; empty if they do not, or are gone.
std::string Group::differences(std::uint64_t number, int source) const {
  const CallRecord& mine = segment_.line(rank_).history[number % kHistory];
  const CallRecord& theirs = segment_.line(source).history[number % kHistory];
  const std::uint64_t tag = theirs.tag.load(std::memory_order_acquire);
  if (tag >> kSignatureBits != number) return "";
  const std::uint64_t differing = theirs.what.load(std::memory_order_acquire) ^ mine.what.load();
  const bool count = theirs.count.load(std::memory_order_acquire) != mine.count.load();
  const bool segment = theirs.segment.load(std::memory_order_acquire) != mine.segment.load();
  bool algorithm = false;
  for (int i = 0; i < 4; i++)
    algorithm |= theirs.algorithm[i].load(std::memory_order_acquire) != mine.algorithm[i].load();
  if (theirs.tag.load(std::memory_order_relaxed) != tag) return "";  // it has gone on: the record is of a later call
  std::string fields;
  const auto name = [&](const char* field, bool differs) {
    if (differs) fields += (fields.empty() ? "" : ", ") + std::string(field);
  };
  name("collective", (differing & 0xFF) != 0);
  name("dtype", (differing >> 8 & 0xFF) != 0);
  name("op", (differing >> 16 & 0xFF) != 0);
  name("root", differing >> 32 != 0);
  name("count", count);
  name("segment_bytes", segment);
  name("algorithm", algorithm);
  name("knobs", (differing >> 24 & 0xFF) != 0);
  return fields;
}

std::string Group::describe(int rank, std::uint64_t call_number) const {
  const CallRecord& record = segment_.line(rank).history[call_number % kHistory];
  std::string text = "rank " + std::to_string(rank);
  if (record.tag.load(std::memory_order_acquire) >> kSignatureBits != call_number) return text;
  const std::uint64_t what = record.what.load(std::memory_order_relaxed);
  const auto collective = static_cast<std::size_t>(what & 0xFF);
  if (collective >= kCollectives || (what >> 8 & 0xFF) >= kDTypes || (what >> 16 & 0xFF) >= kOps) return text;
  char name[33] = {};
  for (int i = 0; i < 4; i++) {
    const std::uint64_t part = record.algorithm[i].load(std::memory_order_relaxed);
    std::memcpy(name + 8 * i, &part, 8);
  }
  text += std::string(": ") + kCollectiveNames[collective] + "(count=" + std::to_string(record.count.load()) +
          ", dtype=" + kTypeNames[what >> 8 & 0xFF];
  const auto kind = static_cast<Collective>(collective);
  if (kind == Collective::AllReduce || kind == Collective::ReduceScatter || kind == Collective::Reduce)
    text += std::string(", op=") + kOpNames[what >> 16 & 0xFF];
  if (kind == Collective::Broadcast || kind == Collective::Reduce || kind == Collective::Scatter ||
      kind == Collective::Gather)
    text += ", root=" + std::to_string(what >> 32);
  return text + ") by " + name + "/" + std::to_string(record.segment.load());
}

// How many calls each rank has made, for time-outs: the one that is behind is the one to look at.
std::string Group::call_counts() const {
  std::string text = " (calls made:";
  for (int rank = 0; rank < n_ranks(); rank++) {
    std::uint64_t latest = 0;
    for (const CallRecord& record : segment_.line(rank).history)
      latest = std::max(latest, record.tag.load(std::memory_order_relaxed) >> kSignatureBits);
    text += (rank ? ", rank " : " rank ") + std::to_string(rank) + " " + std::to_string(latest);
  }
  return text + ")";
}

void Group::send(int to, const void* data, std::size_t bytes, DType dtype) {
  const OneAtATime guard(busy_);
  waiting_.check_usable();
  Channel& channel = segment_.channel(rank_, to);
  std::uint64_t& sent = sent_pieces_[static_cast<std::size_t>(to)];
  const char* from = static_cast<const char*>(data);
  std::size_t left = bytes;
  do {  // an empty message is one empty piece
    const std::size_t length = std::min(left, kChannelPieceBytes);
    const std::uint64_t piece = ++sent;
    waiting_.until(
        to, [&] { return channel.received.load(std::memory_order_acquire) + kChannelSlots >= piece; }, [] {},
        [&] {
          return "rank " + std::to_string(rank_) + " sends " + std::to_string(bytes) + " bytes to rank " +
                 std::to_string(to) + ", which does not receive them";
        });
    const std::size_t slot = piece % kChannelSlots;
    ChannelHeader& header = channel.headers[slot];
    header.message_bytes.store(bytes, std::memory_order_relaxed);
    header.what.store(static_cast<std::uint64_t>(dtype), std::memory_order_relaxed);
    if (length) std::memcpy(channel.pieces[slot], from, length);
    header.word.store(piece, std::memory_order_release);
    waiting_.ring();
    from += length;
    left -= length;
  } while (left);
}

void Group::recv(int from, void* data, std::size_t bytes, DType dtype) {
  const OneAtATime guard(busy_);
  waiting_.check_usable();
  Channel& channel = segment_.channel(from, rank_);
  std::uint64_t& received = received_pieces_[static_cast<std::size_t>(from)];
  char* to = static_cast<char*>(data);
  std::size_t left = bytes;
  do {
    const std::size_t length = std::min(left, kChannelPieceBytes);
    const std::uint64_t piece = ++received;
    const std::size_t slot = piece % kChannelSlots;
    const ChannelHeader& header = channel.headers[slot];
    waiting_.until(
        from, [&] { return header.word.load(std::memory_order_acquire) == piece; }, [] {},
        [&] {
          return "rank " + std::to_string(rank_) + " receives " + std::to_string(bytes) + " bytes from rank " +
                 std::to_string(from) + ", which does not send them";
        });
    const std::uint64_t sent_bytes = header.message_bytes.load(std::memory_order_relaxed);
    const auto sent_type = static_cast<std::size_t>(header.what.load(std::memory_order_relaxed));
    if (sent_bytes != bytes || sent_type != static_cast<std::size_t>(dtype))
      waiting_.fail("rank " + std::to_string(from) + " sends " + std::to_string(sent_bytes) + " bytes of " +
                        kTypeNames[sent_type % kDTypes] + " to rank " + std::to_string(rank_) + ", which receives " +
                        std::to_string(bytes) + " bytes of " + kTypeNames[static_cast<std::size_t>(dtype)],
                    "send and receive the same count and type, in the same order");
    if (length) std::memcpy(to, channel.pieces[slot], length);
    channel.received.store(piece, std::memory_order_release);
    waiting_.ring();
    to += length;
    left -= length;
  } while (left);
}

}  // namespace autotune
