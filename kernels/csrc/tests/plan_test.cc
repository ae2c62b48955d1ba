// Plan::derive: what must hold of every cut. Program::load: what it refuses.
#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "check.h"
#include "failure.h"
#include "script.h"
#include "segment.h"
#include "tests.h"

namespace autotune::test {
namespace {

std::string describe(const Algorithm& algorithm, const Plan& plan) {
  return algorithm.name + " n=" + std::to_string(algorithm.n) + " count=" + std::to_string(plan.count) + " item=" +
         std::to_string(plan.item) + " slices=" + std::to_string(plan.slices) + " window=" + std::to_string(plan.window);
}

void check_cut(const Algorithm& algorithm, const Plan& plan, std::size_t segment_bytes, std::size_t half_bytes) {
  const Program& program = *algorithm.programs[0];
  const std::string about = describe(algorithm, plan);
  const auto blocks = static_cast<std::size_t>(program.blocks), pieces = static_cast<std::size_t>(program.piece_blocks);
  CHECK(plan.slices >= 1, about);
  CHECK((plan.slices - 1) * plan.slice + plan.last_slice == plan.count, about);
  CHECK(plan.count == 0 || (plan.last_slice >= 1 && plan.last_slice <= plan.slice), about);
  if (program.vertical) {
    CHECK(plan.block_limit == plan.slice, about);
  } else {
    CHECK(plan.block_limit * blocks >= plan.slice && plan.last_pitch * blocks >= plan.last_slice, about);
    CHECK(plan.last_pitch <= plan.block_limit, about);
  }
  const std::size_t cut = pieces * plan.block_limit * plan.item, message = program.zero_copy ? 0 : cut;
  CHECK(cut <= std::max<std::size_t>(segment_bytes, 64 * pieces), about);
  CHECK(plan.fits_in_line ? message <= kInlineBytes : plan.slot_bytes >= message, about);
  CHECK(plan.fits_in_line || plan.window * plan.in_flight * plan.slot_bytes <= half_bytes, about);
  CHECK(plan.window * plan.in_flight <= kSlots, about);
}

// Follows slices through waves: no two messages share a slot while one of them may be read, no two slices share scratch.
void check_slots(const Algorithm& algorithm, const Plan& plan) {
  const std::string about = describe(algorithm, plan);
  const std::size_t levels = algorithm.programs[0]->levels.size();
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> last_wave;  // of each slot
  std::map<std::size_t, std::set<std::size_t>> under_way;                // by wave: columns in use
  std::size_t waves = 0;
  for (std::size_t s = 0; s < plan.slices; s++)
    for (std::size_t level = 0; level < levels; level++) {
      const std::size_t wave = plan.spacing * s + level, column = s % plan.in_flight;
      waves = std::max(waves, wave + 1);
      CHECK(under_way[wave].insert(column).second, about);
      const auto [slot, fresh] = last_wave.try_emplace({wave % plan.window, column}, wave);
      CHECK(fresh || slot->second + plan.window <= wave, about);
      CHECK(fresh || plan.window >= 2, about);  // one wave to write, one to read
      slot->second = wave;
    }
  CHECK(plan.waves == waves, about);
}

void check_random_plans(const Programs& programs, std::uint64_t seed) {
  Random random(seed);
  for (int i = 0; i < 20'000; i++) {
    const Algorithm& algorithm = programs[between(random, 0, programs.size() - 1)];
    const auto dtype = static_cast<DType>(between(random, 0, kDTypes - 1));
    const std::size_t count = between(random, 0, 1) ? between(random, 0, 70) : between(random, 0, 100'000);
    const std::size_t segment_bytes = std::size_t{1} << between(random, 0, 22);
    const std::size_t half_bytes = std::size_t{1} << between(random, 15, 22);
    const int in_flight = static_cast<int>(between(random, 1, 8));
    const Plan plan = Plan::derive(*algorithm.programs[0], count, dtype, segment_bytes, half_bytes, in_flight);
    check_cut(algorithm, plan, segment_bytes, half_bytes);
    if (plan.slices < 200) check_slots(algorithm, plan);
    CHECK(plan.in_flight <= static_cast<std::size_t>(in_flight), describe(algorithm, plan));
    for (const auto& program : algorithm.programs) {  // every rank cuts alike
      const Plan same = Plan::derive(*program, count, dtype, segment_bytes, half_bytes, in_flight);
      CHECK(same.slices == plan.slices && same.slice == plan.slice && same.waves == plan.waves &&
                same.window == plan.window && same.slot_bytes == plan.slot_bytes && same.block_limit == plan.block_limit,
            describe(algorithm, plan));
    }
  }
}

// With a codec, a slot holds what a message may encode to, and the cut is the same.
void check_encoded(const Programs& programs) {
  const Codec codec({CodecKind::Int8, 0}, DType::Float32);
  for (const Algorithm& algorithm : programs) {
    if (algorithm.exchange != Exchange::Encoded) continue;
    const Program& program = *algorithm.programs[0];
    for (std::size_t count : {0, 1, 1000, 70'000}) {
      const Plan plain = Plan::derive(program, count, DType::Float32, 4096, 1 << 20, 4);
      const Plan plan = Plan::derive(program, count, DType::Float32, 4096, 1 << 20, 4, &codec);
      const std::string about = describe(algorithm, plan);
      CHECK(plan.slices == plain.slices && plan.slice == plain.slice && plan.last_pitch == plain.last_pitch, about);
      CHECK(plan.piece_bytes == codec.limit(plan.block_limit) && plan.last_piece_bytes <= plan.piece_bytes, about);
      CHECK(!plan.fits_in_line, about);
      CHECK(plan.slot_bytes >= static_cast<std::size_t>(program.piece_blocks) * plan.piece_bytes, about);
      CHECK(plan.window * plan.in_flight * plan.slot_bytes <= 1 << 20, about);
      check_slots(algorithm, plan);
    }
  }
}

// A script is for the short calls of the staged programs, and says of each instruction what the program does.
void check_scripts(const Programs& programs) {
  for (const Algorithm& algorithm : programs)
    for (std::size_t count : {0, 1, 100, 70'000}) {
      const Program& program = *algorithm.programs[0];
      const Plan plan = Plan::derive(program, count, DType::Float32, 1 << 20, 8 << 20, 4);
      const auto script = Script::resolved(program, plan, true);
      const std::string about = describe(algorithm, plan);
      const bool staged = algorithm.exchange == Exchange::Staged;
      CHECK(!script || (staged && plan.slices == 1 && plan.window == program.levels.size()), about);
      CHECK(script || count > 1 || !staged || program.levels.size() > 8, about);
      if (!script) continue;
      CHECK(script->steps.size() == program.instructions.size(), about);
      for (std::size_t i = 0; i < script->steps.size(); i++) {
        const Step& step = script->steps[i];
        const Instruction& op = program.instructions[i];
        CHECK(step.n_sources == op.n_sources, about);
        CHECK((step.memory != 0) == ((op.destinations & (kToOutput | kToScratch)) != 0), about);
        CHECK((step.piece_at >= 0) == ((op.destinations & kToOutbox) != 0), about);
        CHECK(step.piece_at < 0 || step.piece_at + step.bytes <= std::max<std::size_t>(plan.slot_bytes, kInlineBytes), about);
      }
    }
}

void check_extremes(const Programs& programs) {
  const Algorithm& ring = find(programs, Collective::AllReduce, "ring", 4);
  const std::size_t large = std::size_t{1} << 42;
  const Plan plan = Plan::derive(*ring.programs[0], large + 1, DType::Int64, 1 << 20, 4 << 20, 4);
  check_cut(ring, plan, 1 << 20, 4 << 20);
  CHECK(plan.slices > 1'000'000, describe(ring, plan));
  const Plan none = Plan::derive(*ring.programs[0], 0, DType::Int8, 1, 1 << 16, 1);
  CHECK(none.slices == 1 && none.waves == ring.programs[0]->levels.size(), describe(ring, none));
  const Plan segment_0 = Plan::derive(*ring.programs[0], 100, DType::Float64, 0, 1 << 16, 4);
  check_cut(ring, segment_0, 0, 1 << 16);
  bool refused = false;
  try {
    Plan::derive(*ring.programs[0], 1000, DType::Float32, 4096, 128, 4);
  } catch (const BadArgument&) {
    refused = true;
  }
  CHECK(refused, "an outbox of 128 bytes");
}

bool refuses(const std::vector<std::int64_t>& words) {
  try {
    Program::load(words);
  } catch (const BadArgument&) {
    return true;
  }
  return false;
}

// A broken compiler must not become a wild pointer: every number of a program is moved out of its range.
void check_loading(const Programs& programs) {
  for (const Algorithm& algorithm : programs) {
    const std::vector<std::int64_t>& words = algorithm.words.back();
    for (std::size_t length = 0; length < words.size(); length += 1 + words.size() / 40)
      CHECK(refuses({words.begin(), words.begin() + static_cast<std::ptrdiff_t>(length)}), "a truncated program");
    std::vector<std::int64_t> changed = words;
    changed.push_back(0);
    CHECK(refuses(changed), "words after the end");
    for (std::size_t at = 0; at < words.size(); at++)
      for (std::int64_t wild : {std::int64_t{-1}, std::int64_t{1} << 40}) {
        changed = words;
        changed[at] = wild;
        CHECK(refuses(changed), algorithm.name + ": word " + std::to_string(at) + " is " + std::to_string(wild));
      }
  }
}

struct Place {
  Space space;
  int rank;
  int index;
};

// The words of a program of rank 0 of 2 with one level of one instruction. As it is here, everything is right.
struct Words {
  int vertical = 0, scratch = 2, pieces = 3, exchanges = 0, zero_copy = 0, single_copy = 0, in_place = 0, shares_input = 0,
      shares_output = 0;
  int lossy = 0, charged = 0;  // 1 + the block
  unsigned destinations = kToOutput | kToOutbox;
  int memory = 2, piece = 1, width = 2, block = 2;
  std::vector<Place> sources = {{Space::Input, 0, 2}}, stores = {};
  std::vector<int> waits = {};
  int posts = 1;
  std::vector<RemoteReader> remote_readers = {};

  std::vector<std::int64_t> all() const {
    //                                rank blocks                     sync
    std::vector<std::int64_t> words{2,         0,           4,        vertical,     scratch,       pieces, 1, exchanges,
                                    zero_copy, single_copy, in_place, shares_input, shares_output, lossy};
    const auto add = [&](std::initializer_list<std::int64_t> more) { words.insert(words.end(), more); };
    add({1, 1});        // a reader
    add({0});           // final waits
    add({1, 1, posts, static_cast<std::int64_t>(remote_readers.size())});  // levels, instructions
    for (const RemoteReader& reader : remote_readers) {
      add({reader.rank, static_cast<std::int64_t>(reader.pieces.size())});
      for (const auto& [first, many] : reader.pieces) add({first, many});
    }
    add({destinations, memory, piece, width, block, 0, charged, 0});
    for (const std::vector<Place>& places : {sources, stores}) {
      add({static_cast<std::int64_t>(places.size())});
      for (const Place& place : places) add({static_cast<std::int64_t>(place.space), place.rank, place.index});
    }
    add({static_cast<std::int64_t>(waits.size())});
    words.insert(words.end(), waits.begin(), waits.end());
    return words;
  }
};

// A right program with one thing changed, which is refused.
template <class Change>
void check_refused(Words words, const char* about, Change change) {
  CHECK(!refuses(words.all()), std::string("a right program, before: ") + about);
  change(words);
  CHECK(refuses(words.all()), about);
}

// Each number is in its range, but a wide instruction reaches beyond the end.
void check_widths() {
  const Words right;
  check_refused(right, "memory", [](Words& words) { words.memory = 3; });
  check_refused(right, "piece", [](Words& words) { words.piece = 2; });
  check_refused(right, "block", [](Words& words) { words.block = 3; });
  check_refused(right, "input", [](Words& words) { words.sources[0].index = 3; });
  check_refused(right, "scratch", [](Words& words) { words.sources[0] = {Space::Scratch, 0, 1}; });
  check_refused(right, "piece of a peer", [](Words& words) { words.sources[0] = {Space::Peer, 1, 2}; });
}

// What goes to other hosts: to somebody else, of a message that is there.
void check_remote_readers() {
  Words right;
  right.remote_readers = {{1, {{0, 1}, {2, 1}}}};
  check_refused(right, "a message to oneself", [](Words& words) { words.remote_readers[0].rank = 0; });
  check_refused(right, "a reader of nothing", [](Words& words) { words.remote_readers[0].pieces.clear(); });
  check_refused(right, "pieces beyond the end", [](Words& words) { words.remote_readers[0].pieces[1].second = 2; });
  check_refused(right, "a reader where nothing is sent", [](Words& words) { words.posts = 0; });
}

// Each number is in its range, but no buffer or message is there for what it means.
void check_meaning() {
  const Words staged;
  check_refused(staged, "a peer's buffer without zero copy", [](Words& w) { w.sources[0] = {Space::PeerInput, 1, 2}; });
  check_refused(staged, "a store without zero copy", [](Words& w) { w.stores = {{Space::PeerOutput, 1, 2}}; });
  check_refused(staged, "own memory of a peer", [](Words& words) { words.sources[0].rank = 1; });
  check_refused(staged, "in place without zero copy", [](Words& words) { words.in_place = 1; });
  check_refused(staged, "shared input without zero copy", [](Words& words) { words.shares_input = 1; });
  check_refused(staged, "shared output without zero copy", [](Words& words) { words.shares_output = 1; });
  check_refused(staged, "no source without zero copy", [](Words& words) { words.sources.clear(); });
  check_refused(staged, "a charge without a codec", [](Words& words) { words.charged = 1; });
  Words encoded;
  encoded.lossy = 1, encoded.charged = 1 + 2;
  check_refused(encoded, "a charge beyond the end", [](Words& words) { words.charged = 1 + 3; });
  check_refused(encoded, "a charge where nothing is sent", [](Words& words) { words.destinations = kToOutput; });
  Words shared;
  shared.zero_copy = shared.shares_input = shared.shares_output = 1;
  shared.destinations = kToOutput | kBeforePost;
  shared.sources = {{Space::Input, 0, 2}, {Space::PeerInput, 1, 2}};
  shared.stores = {{Space::PeerOutput, 1, 2}};
  shared.waits = {1};
  check_refused(shared, "an exchange with zero copy", [](Words& words) { words.exchanges = 1; });
  check_refused(shared, "a codec with zero copy", [](Words& words) { words.lossy = 1; });
  check_refused(shared, "a message with zero copy", [](Words& words) { words.destinations |= kToOutbox; });
  check_refused(shared, "a peer's message with zero copy", [](Words& w) { w.sources[1] = {Space::Peer, 1, 1}; });
  check_refused(shared, "an input that is not shared", [](Words& words) { words.shares_input = 0; });
  check_refused(shared, "an output that is not shared", [](Words& words) { words.shares_output = 0; });
  check_refused(shared, "a peer that is oneself", [](Words& words) { words.sources[1].rank = 0; });
  check_refused(shared, "a store to oneself", [](Words& words) { words.stores[0].rank = 0; });
  check_refused(shared, "a store beyond the end", [](Words& words) { words.stores[0].index = 3; });
  check_refused(shared, "a store to an input", [](Words& words) { words.stores[0].space = Space::PeerInput; });
  check_refused(shared, "a store to own memory", [](Words& words) { words.stores[0] = {Space::Output, 0, 2}; });
  check_refused(shared, "a store of nothing", [](Words& words) { words.sources.clear(); });
  check_refused(shared, "a wait for oneself", [](Words& words) { words.waits[0] = 0; });
  Words read = shared;
  read.single_copy = 1;
  read.stores.clear();
  check_refused(read, "single copy of what is not announced", [](Words& words) { words.zero_copy = 0; });
  check_refused(read, "single copy in place only", [](Words& words) { words.in_place = 1; });
  check_refused(read, "a store into a private buffer", [](Words& words) { words.stores = {{Space::PeerOutput, 1, 2}}; });
  check_refused(read, "a sum without a place", [](Words& words) { words.destinations = kBeforePost; });
}

// Two ranks swap their outboxes or both do not; who has a root never answers every message.
void check_exchanges(const Programs& programs) {
  for (const Algorithm& algorithm : programs) {
    const std::string about = algorithm.name + " n=" + std::to_string(algorithm.n);
    for (const auto& program : algorithm.programs)
      CHECK(program->exchanges == algorithm.programs[0]->exchanges, about);
    const bool rooted = algorithm.collective == Collective::Broadcast || algorithm.collective == Collective::Reduce ||
                        algorithm.collective == Collective::Scatter || algorithm.collective == Collective::Gather;
    if (algorithm.n != 2 || rooted) CHECK(!algorithm.programs[0]->exchanges, about);
    else if (algorithm.name == "direct" && algorithm.exchange == Exchange::Staged)
      CHECK(algorithm.programs[0]->exchanges, about);
  }
}

}  // namespace

void test_plans(const Programs& programs, std::uint64_t seed) {
  check_random_plans(programs, seed);
  check_encoded(programs);
  check_scripts(programs);
  check_extremes(programs);
  check_loading(programs);
  check_exchanges(programs);
  check_widths();
  check_remote_readers();
  check_meaning();
}

}  // namespace autotune::test
