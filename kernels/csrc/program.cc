// Loading of programs; see program.h.
#include "program.h"

#include <algorithm>
#include <set>

#include "failure.h"
#include "segment.h"

namespace autotune {
namespace {

constexpr const char* kBug = "this is a bug in autotune: please report it with this message";

class Reader {
 public:
  explicit Reader(const std::vector<std::int64_t>& words) : words_(words) {}

  std::int32_t take(const char* what, std::int64_t low, std::int64_t high) {
    if (at_ >= words_.size()) throw BadArgument(std::string("program ends before ") + what, kBug);
    const std::int64_t value = words_[at_++];
    if (value < low || value >= high)
      throw BadArgument(std::string("program: ") + what + " is " + std::to_string(value) + ", not in [" +
                            std::to_string(low) + ", " + std::to_string(high) + ")",
                        kBug);
    return static_cast<std::int32_t>(value);
  }
  bool exhausted() const { return at_ == words_.size(); }

 private:
  const std::vector<std::int64_t>& words_;
  std::size_t at_ = 0;
};

// An instruction touches `width` neighbouring blocks everywhere: none of them may lie beyond the end.
void check_extent(const Program& p, const Instruction& op) {
  const int buffer_blocks = p.vertical ? p.n_ranks : p.blocks;
  const auto within = [&](const char* what, int first, int blocks) {
    if (first + op.width > blocks)
      throw BadArgument(std::string("program: ") + what + " blocks " + std::to_string(first) + " to " +
                            std::to_string(first + op.width) + " of " + std::to_string(blocks),
                        kBug);
  };
  within("logical", op.block, p.blocks);
  if (op.destinations & kToOutput) within("output", op.memory_index, buffer_blocks);
  else if (op.destinations & kToScratch) within("scratch", op.memory_index, p.scratch_blocks);
  if (op.destinations & kToOutbox) within("outbox", op.piece, p.piece_blocks);
  if (op.charged >= 0) within("charged", op.charged, buffer_blocks);
  for (int k = 0; k < op.n_sources; k++) {
    const Source& source = p.sources[static_cast<std::size_t>(op.first_source + k)];
    const bool peer = source.space >= Space::Peer;
    if (peer == (source.rank == p.rank))
      throw BadArgument("program: rank " + std::to_string(p.rank) + " takes rank " + std::to_string(source.rank) +
                            (peer ? " for another" : " for itself"),
                        kBug);
    switch (source.space) {
      case Space::Input:
      case Space::Output:
      case Space::PeerInput:
      case Space::PeerOutput: within("source", source.index, buffer_blocks); break;
      case Space::Scratch: within("source scratch", source.index, p.scratch_blocks); break;
      case Space::Peer: within("source message", source.index, p.piece_blocks); break;
    }
  }
  for (int k = 0; k < op.n_stores; k++)
    within("stored", p.sources[static_cast<std::size_t>(op.first_store + k)].index, buffer_blocks);
}

// Without zero copy there are no places of peers' buffers, with it messages have no room for data.
void check_exchange(const Program& p, const Instruction& op) {
  const auto refuse = [](const char* what) { throw BadArgument(std::string("program: ") + what, kBug); };
  if (p.zero_copy && (op.destinations & kToOutbox)) refuse("a zero-copy message with data");
  if (op.n_stores && !op.n_sources) refuse("stores of nothing");
  if (op.n_stores && p.single_copy) refuse("stores to a buffer that can only be read");
  if (p.single_copy && op.n_sources && !(op.destinations & (kToOutput | kToScratch))) refuse("a result without a place");
  if (op.charged >= 0 && !(p.lossy && (op.destinations & kToOutbox))) refuse("a charge where nothing is encoded");
  for (int k = 0; k < op.n_sources + op.n_stores; k++) {  // they follow each other
    const Source& place = p.sources[static_cast<std::size_t>(op.first_source + k)];
    const bool shared = (place.space == Space::PeerInput && p.shares_input) ||
                        (place.space == Space::PeerOutput && p.shares_output);
    if (place.space == Space::Peer && p.zero_copy) refuse("data of a zero-copy message");
    if (place.space > Space::Peer && !shared) refuse("a peer's buffer that is not shared");
    if (k >= op.n_sources && (place.space != Space::PeerOutput || place.rank == p.rank))
      refuse("a store to what is no peer's output");
  }
  for (int k = 0; k < op.n_waits; k++)
    if (p.waits[static_cast<std::size_t>(op.first_wait + k)] == p.rank) refuse("a rank that waits for itself");
}

std::vector<std::int32_t> awaited_by(const Program& p, const Level& level) {
  std::set<std::int32_t> ranks;
  for (int i = level.first; i < level.last; i++) {
    const Instruction& op = p.instructions[static_cast<std::size_t>(i)];
    for (int k = 0; k < op.n_sources; k++) {
      const Source& source = p.sources[static_cast<std::size_t>(op.first_source + k)];
      if (source.space >= Space::Peer) ranks.insert(source.rank);
    }
    for (int k = 0; k < op.n_waits; k++) ranks.insert(p.waits[static_cast<std::size_t>(op.first_wait + k)]);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace

Program Program::load(const std::vector<std::int64_t>& words) {
  constexpr std::int64_t kMany = 1 << 30;
  Reader in(words);
  Program p{};
  p.n_ranks = in.take("n_ranks", 1, kMaxRanks + 1);
  p.rank = in.take("rank", 0, p.n_ranks);
  p.blocks = in.take("blocks", 1, kMany);
  p.vertical = in.take("vertical", 0, 2) != 0;
  p.scratch_blocks = in.take("scratch blocks", 0, p.blocks + 1);
  p.piece_blocks = in.take("piece blocks", 1, p.blocks + 1);
  p.synchronising = in.take("synchronising", 0, 2) != 0;
  p.exchanges = in.take("exchanges", 0, 2) != 0;
  p.zero_copy = in.take("zero copy", 0, 2) != 0;
  p.single_copy = in.take("single copy", 0, 2) != 0;
  p.in_place = in.take("in place", 0, 2) != 0;
  p.shares_input = in.take("shares input", 0, 2) != 0;
  p.shares_output = in.take("shares output", 0, 2) != 0;
  p.lossy = in.take("lossy", 0, 2) != 0;
  if (p.exchanges && (p.n_ranks != 2 || p.zero_copy)) throw BadArgument("program: more than two exchange, or no data", kBug);
  if (p.zero_copy && p.lossy) throw BadArgument("program: encodes messages without data", kBug);
  if (p.single_copy && (!p.zero_copy || p.in_place))
    throw BadArgument("program: reads what is not announced, or for one way of placing buffers only", kBug);
  if (!p.zero_copy && (p.in_place || p.shares_input || p.shares_output))
    throw BadArgument("program: shares buffers without zero copy", kBug);
  const auto take_ranks = [&](const char* what, std::vector<std::int32_t>& ranks) {
    const std::int32_t length = in.take(what, 0, p.n_ranks);
    for (std::int32_t i = 0; i < length; i++) ranks.push_back(in.take(what, 0, p.n_ranks));
    return length;
  };
  const auto take_places = [&](const char* what, std::int32_t low) {
    const std::int32_t length = in.take(what, low, p.n_ranks + 1);
    for (std::int32_t k = 0; k < length; k++) {
      Source place{};
      place.space = static_cast<Space>(in.take("space", 0, kSpaces));
      place.rank = in.take("source rank", 0, p.n_ranks);
      place.index = in.take("source index", 0, p.blocks);
      p.sources.push_back(place);
    }
    return length;
  };
  take_ranks("readers", p.readers);
  take_ranks("final waits", p.final_waits);
  p.levels.resize(static_cast<std::size_t>(in.take("levels", 1, kMany)));
  for (Level& level : p.levels) {
    level.first = static_cast<std::int32_t>(p.instructions.size());
    const int length = in.take("instructions", 0, kMany);
    level.posts = in.take("posts", 0, 2) != 0;
    level.remote_readers.resize(static_cast<std::size_t>(in.take("remote readers", 0, level.posts ? p.n_ranks : 1)));
    for (RemoteReader& reader : level.remote_readers) {
      reader.rank = in.take("remote reader", 0, p.n_ranks);
      if (reader.rank == p.rank || p.zero_copy) throw BadArgument("program: sends to itself, or nothing", kBug);
      const std::int32_t stretches = in.take("stretches", 1, p.piece_blocks + 1);
      for (std::int32_t i = 0; i < stretches; i++) {
        const std::int32_t first = in.take("first piece", 0, p.piece_blocks);
        reader.pieces.emplace_back(first, in.take("pieces", 1, p.piece_blocks - first + 1));
      }
    }
    for (int i = 0; i < length; i++) {
      Instruction op{};
      op.destinations = static_cast<std::uint8_t>(in.take("destinations", 0, 16));
      op.memory_index = in.take("memory index", 0, p.blocks);
      op.piece = in.take("piece", 0, p.piece_blocks);
      op.width = in.take("width", 1, p.blocks + 1);
      op.block = in.take("block", 0, p.blocks);
      op.completes = in.take("completes", 0, 2) != 0;
      op.charged = in.take("charged", 0, p.blocks + 1) - 1;
      op.divided = in.take("divided", 0, 2) != 0;
      op.first_source = static_cast<std::int32_t>(p.sources.size());
      op.n_sources = take_places("sources", p.zero_copy ? 0 : 1);
      op.first_store = static_cast<std::int32_t>(p.sources.size());
      op.n_stores = take_places("stores", 0);
      op.first_wait = static_cast<std::int32_t>(p.waits.size());
      op.n_waits = take_ranks("waits", p.waits);
      check_extent(p, op);
      check_exchange(p, op);
      p.max_sources = std::max(p.max_sources, op.n_sources);
      p.max_stores = std::max(p.max_stores, op.n_stores);
      level.before_post += (op.destinations & kBeforePost) != 0;
      p.instructions.push_back(op);
    }
    level.last = static_cast<std::int32_t>(p.instructions.size());
    level.awaited = awaited_by(p, level);
  }
  if (!in.exhausted()) throw BadArgument("program has words after its end", kBug);
  std::set<std::int32_t> writers;
  for (const Source& source : p.sources)
    if (source.space == Space::Peer) writers.insert(source.rank);
  p.writers.assign(writers.begin(), writers.end());
  return p;
}

}  // namespace autotune
