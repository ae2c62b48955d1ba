// Random calls of all programs, one after the other without a barrier, against plain loops.
//
// Every rank draws the same calls from the same seed. Buffers have exactly the size of their contents, so that an
// address sanitizer sees the first byte beside them. Those of zero-copy calls lie in symmetric memory, where every call
// overwrites what the one before left, and have guards instead. Ranks are busy for random whiles, so that they come in
// any order.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>

#include "check.h"
#include "tests.h"
#include "values.h"

namespace autotune::test {
namespace {

struct Drawn {
  const Algorithm* algorithm;
  Arguments arguments;
  std::uint64_t in_place;  // by rank, a bit
  std::size_t shift;  // bytes from aligned memory to the buffers
  std::size_t place;  // of the first buffer in symmetric memory
  std::uint64_t seed;
};

std::size_t draw_count(Random& random, std::size_t segment_bytes, std::size_t item) {
  const std::size_t segment = segment_bytes / item;
  switch (between(random, 0, 6)) {
    case 0: return between(random, 0, 2);
    case 1: return between(random, 0, 40);
    case 2: return segment + between(random, 0, 2) - 1;
    case 3: return between(random, 0, 300);
    case 4: return between(random, 0, 3000);
    case 5: return between(random, 0, 20'000) / item;
    default: return between(random, 0, 60'000) / item;  // several slices of what is large between hosts
  }
}

constexpr std::uint64_t kEveryRank = ~std::uint64_t{0};

Drawn draw(Random& random, const std::vector<const Algorithm*>& algorithms) {
  constexpr std::size_t kSegments[] = {64, 100, 256, 1024, 4096, 12'000, 65'536};
  Drawn call{};
  call.algorithm = algorithms[between(random, 0, algorithms.size() - 1)];
  Arguments& arguments = call.arguments;
  arguments.dtype = static_cast<DType>(between(random, 0, kDTypes - 1));
  arguments.op = static_cast<Op>(between(random, 0, kOps - 1));
  if (call.algorithm->exchange == Exchange::Encoded) {  // only floating types, and no products
    arguments.dtype = static_cast<DType>(between(random, 0, kFloatTypes - 1));
    if (arguments.op == Op::Prod) arguments.op = Op::Avg;
  }
  arguments.segment_bytes = kSegments[between(random, 0, std::size(kSegments) - 1)];
  arguments.count = draw_count(random, arguments.segment_bytes, item_bytes(arguments.dtype));
  arguments.in_flight = static_cast<int>(between(random, 1, 8));
  arguments.stream = between(random, 0, 3) == 0;
  arguments.outbox = static_cast<Outbox>(between(random, 0, kOutboxes - 1));
  switch (call.algorithm->exchange) {
    case Exchange::Staged:
    case Exchange::Encoded:
    case Exchange::SingleCopy: {  // each rank as it likes
      const std::uint64_t drawn[] = {0, kEveryRank, random()};
      if (call.algorithm->collective != Collective::AllToAll) call.in_place = drawn[between(random, 0, 2)];
      break;
    }
    case Exchange::ZeroCopy: call.in_place = call.algorithm->collective == Collective::Broadcast ? kEveryRank : 0; break;
    case Exchange::InPlace: call.in_place = kEveryRank; break;
  }
  call.shift = between(random, 0, 3) == 0 ? between(random, 1, 63) : 0;
  call.place = between(random, 0, 1) * between(random, 0, 5000);
  call.seed = random();
  return call;
}

constexpr std::size_t kGuardBytes = 64;
constexpr char kUntouched = '\xA5';

// The buffers of a call on one rank: the input filled, everything else untouched.
class Buffers {
 public:
  Buffers(Group& group, const Drawn& call, const std::vector<char>& filled, std::size_t output_bytes) {
    const bool shared = shares_buffers(call.algorithm->exchange);
    output_memory_ = Block(group, call, shared ? call.place : kNowhere, output_bytes);
    input_memory_ = Block(group, call, shared ? call.place + output_memory_.bytes() : kNowhere, filled.size());
    input = input_memory_.data();
    output = output_memory_.data();
    const std::size_t item = item_bytes(call.arguments.dtype);
    const std::size_t part = call.arguments.count * item * static_cast<std::size_t>(group.rank());
    const bool both = shared || (!filled.empty() && output_bytes);  // a rank that is not the root has one buffer only
    if ((call.in_place >> group.rank() & 1) && both) switch (call.algorithm->collective) {
        case Collective::AllReduce:
        case Collective::Reduce:
        case Collective::Broadcast: input = output; break;
        case Collective::AllGather:
        case Collective::Gather: input = output + part; break;
        case Collective::ReduceScatter:
        case Collective::Scatter: output = input + part; break;
        case Collective::AllToAll: break;
      }
    if (!filled.empty()) std::memcpy(input, filled.data(), filled.size());
  }

  bool guards_whole() const { return input_memory_.guards_whole() && output_memory_.guards_whole(); }

  char* input;
  char* output;

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  // Memory of its own, of exactly this size, or a part of symmetric memory between guards.
  class Block {
   public:
    Block() = default;
    Block(Group& group, const Drawn& call, std::size_t place, std::size_t size)
        : guard_(place == kNowhere ? 0 : kGuardBytes), shift_(call.shift), size_(size) {
      CHECK(place == kNowhere || place + bytes() <= group.heap_bytes(), std::to_string(size));
      if (place == kNowhere) own_.reset(new char[bytes()]);
      start_ = own_ ? own_.get() : group.heap() + place;
      std::memset(start_, kUntouched, bytes());
    }

    char* data() const { return start_ + guard_ + shift_; }
    std::size_t bytes() const { return size_ + shift_ + 2 * guard_; }
    bool guards_whole() const {
      const auto untouched = [](char byte) { return byte == kUntouched; };
      return std::all_of(start_, data(), untouched) && std::all_of(data() + size_, start_ + bytes(), untouched);
    }

   private:
    std::unique_ptr<char[]> own_;
    char* start_ = nullptr;
    std::size_t guard_ = 0, shift_ = 0, size_ = 0;
  };

  Block input_memory_, output_memory_;
};

void make(Group& group, const Drawn& drawn, int number) {
  const Algorithm& algorithm = *drawn.algorithm;
  const Arguments& arguments = drawn.arguments;
  const int n = group.n_ranks(), rank = group.rank();
  Call call = make_call(algorithm, rank, arguments, group.half_bytes());
  if (drawn.seed >> rank & 1) call.script = nullptr;  // the others cannot tell whether this rank interprets
  std::vector<char> filled = input_of(algorithm.collective, arguments.dtype, arguments.op, n, rank, arguments.count,
                                      drawn.seed);
  if (!call.input_elements) filled.clear();  // this rank is not the root
  const std::vector<char> wanted = output_of(algorithm.collective, arguments.dtype, arguments.op, n, rank,
                                             algorithm.root, arguments.count, drawn.seed);
  const Buffers buffers(group, drawn, filled, call.output_elements * item_bytes(arguments.dtype));
  // What is dropped are zeros.
  std::vector<char> residual(call.codec ? call.input_elements * residual_bytes(arguments.dtype) : 0);
  group.run(call, buffers.input, buffers.output, nullptr, call.codec ? residual.data() : nullptr);
  const std::string about = "call " + std::to_string(number) + " on rank " + std::to_string(rank) + " of " +
                            std::to_string(n) + ": " + algorithm.name + ", collective " +
                            std::to_string(static_cast<int>(algorithm.collective)) + ", exchange " +
                            std::to_string(static_cast<int>(algorithm.exchange)) + ", dtype " +
                            std::to_string(static_cast<int>(arguments.dtype)) + ", op " +
                            std::to_string(static_cast<int>(arguments.op)) + ", count " +
                            std::to_string(arguments.count) + ", segment " + std::to_string(arguments.segment_bytes);
  CHECK(wanted.empty() || std::memcmp(buffers.output, wanted.data(), wanted.size()) == 0, about);
  CHECK(buffers.guards_whole(), about);
  CHECK(std::all_of(residual.begin(), residual.end(), [](char byte) { return byte == 0; }), about);
  const bool shared = buffers.input >= buffers.output && buffers.input < buffers.output + wanted.size();
  const bool holds = buffers.output >= buffers.input && buffers.output < buffers.input + filled.size();
  CHECK(shared || holds || filled.empty() || std::memcmp(buffers.input, filled.data(), filled.size()) == 0, about);
}

void exchange(Group& group, Random& random) {
  const std::size_t bytes = between(random, 0, 3) ? between(random, 0, 300'000) : 0;
  const int n = group.n_ranks(), to = (group.rank() + 1) % n, from = (group.rank() + n - 1) % n;
  const auto byte = [](int rank, std::size_t i) { return static_cast<char>(i * 7 + static_cast<std::size_t>(rank)); };
  std::vector<char> sent(bytes), received(bytes);
  for (std::size_t i = 0; i < bytes; i++) sent[i] = byte(group.rank(), i);
  // Around the ring; one rank receives first, or large messages would wait for each other for ever.
  const auto send = [&] { group.send(to, sent.data(), bytes, DType::Int8); };
  const auto receive = [&] { group.recv(from, received.data(), bytes, DType::Int8); };
  if (group.rank()) send(), receive();
  else receive(), send();
  for (std::size_t i = 0; i < bytes; i++)
    CHECK(received[i] == byte(from, i), "byte " + std::to_string(i) + " of " + std::to_string(bytes));
}

// Everybody has come here once anybody returns.
void meet(Group& group, const Programs& programs) {
  const Algorithm& flat = find(programs, Collective::AllReduce, "flat", group.n_ranks());
  char token = 0, sink = 0;
  group.run(make_call(flat, group.rank(), {DType::Int8, Op::Max, 1}, group.half_bytes()), &token, &sink);
}

const WaitPolicy policies[] = {{2000, 400, 60}, {0, 400, 60}, {0, 0, 60}};  // spin, yield, sleep at once

void make_random_calls(Group& group, const std::vector<const Algorithm*>& algorithms, std::uint64_t seed, int calls) {
  const int n = group.n_ranks();
  Random random(seed + static_cast<std::uint64_t>(n));
  Random own(seed * 1000 + static_cast<std::uint64_t>(group.rank()));
  for (int i = 0; i < calls; i++) {
    const Drawn drawn = draw(random, algorithms);
    for (std::size_t busy = between(own, 0, 3) ? 0 : between(own, 0, 2000); busy; busy--) cpu_relax();
    make(group, drawn, i);
    if (n > 1 && between(random, 0, 19) == 0) exchange(group, random);
  }
}

}  // namespace

void test_random_calls(const Programs& programs, RanksAre kind, std::uint64_t seed, int calls) {
  for (int n = 1; n <= 5; n++) {
    std::vector<const Algorithm*> algorithms;
    for (const Algorithm& algorithm : programs)
      if (algorithm.n == n && algorithm.hosts == "1") algorithms.push_back(&algorithm);
    GroupOptions options;
    options.waiting = policies[static_cast<std::size_t>(n + static_cast<int>(seed % 3)) % 3];
    options.check = (seed + static_cast<std::uint64_t>(n)) % 4 == 0;
    run_ranks_well(kind, n, options, [&](Group& group) {
      group.heap();
      meet(group, programs);
      // The same on every rank. Emulators may lack the call to the kernel.
      std::vector<const Algorithm*> able;
      for (const Algorithm* algorithm : algorithms)
        if (algorithm->exchange != Exchange::SingleCopy || group.single_copy_fault().empty()) able.push_back(algorithm);
      if (kind == RanksAre::Threads) CHECK(mappings_shared_by(n) == 2, "ranks that are threads do not share memory");
      make_random_calls(group, able, seed, calls);
    });
  }
}

void test_random_calls_over_hosts(const Programs& programs, RanksAre kind, std::uint64_t seed, int calls) {
  for (const PerHost& per_host : std::vector<PerHost>{{1, 1}, {2, 1}, {1, 1, 1, 1}, {3, 2}}) {
    int n = 0;
    for (int ranks : per_host) n += ranks;
    std::vector<const Algorithm*> algorithms;
    for (const Algorithm& algorithm : programs)
      if (algorithm.hosts == hosts_named(per_host)) algorithms.push_back(&algorithm);
    CHECK(!algorithms.empty(), hosts_named(per_host));
    GroupOptions options;
    options.waiting = policies[static_cast<std::size_t>(n + static_cast<int>(seed % 3)) % 3];
    options.check = (seed + static_cast<std::uint64_t>(n)) % 4 == 0;
    const auto main = [&](Group& group) { make_random_calls(group, algorithms, seed, calls); };
    run_ranks_well(kind, n, options, main, per_host);
  }
}

}  // namespace autotune::test
