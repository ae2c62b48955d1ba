// Random calls of all programs, one after the other without a barrier, against plain loops.
//
// Every rank draws the same calls from the same seed. Buffers have exactly the size of their contents, so that an
// address sanitizer sees the first byte beside them. Ranks are busy for random whiles, so that they come in any order.
#include <cstring>
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
  bool in_place;
  std::size_t shift;  // bytes from aligned memory to the buffers
  std::uint64_t seed;
};

std::size_t draw_count(Random& random, std::size_t segment_bytes, std::size_t item) {
  const std::size_t segment = segment_bytes / item;
  switch (between(random, 0, 5)) {
    case 0: return between(random, 0, 2);
    case 1: return between(random, 0, 40);
    case 2: return segment + between(random, 0, 2) - 1;
    case 3: return between(random, 0, 300);
    case 4: return between(random, 0, 3000);
    default: return between(random, 0, 20000) / item;
  }
}

Drawn draw(Random& random, const std::vector<const Algorithm*>& algorithms) {
  constexpr std::size_t kSegments[] = {64, 100, 256, 1024, 4096, 65536};
  Drawn call{};
  call.algorithm = algorithms[between(random, 0, algorithms.size() - 1)];
  Arguments& arguments = call.arguments;
  arguments.dtype = static_cast<DType>(between(random, 0, kDTypes - 1));
  arguments.op = static_cast<Op>(between(random, 0, kOps - 1));
  arguments.segment_bytes = kSegments[between(random, 0, 5)];
  arguments.count = draw_count(random, arguments.segment_bytes, item_bytes(arguments.dtype));
  arguments.in_flight = static_cast<int>(between(random, 1, 8));
  arguments.stream = between(random, 0, 3) == 0;
  call.in_place = call.algorithm->collective != Collective::AllToAll && between(random, 0, 1) == 0;
  call.shift = between(random, 0, 3) == 0 ? between(random, 1, 63) : 0;
  call.seed = random();
  return call;
}

// Where the input lies in the output, or the output in the input, when the call is in place.
struct Buffers {
  std::unique_ptr<char[]> input_memory, output_memory;
  char* input = nullptr;
  char* output = nullptr;

  Buffers(const Drawn& call, int rank, const std::vector<char>& filled, std::size_t output_bytes) {
    const std::size_t part = call.arguments.count * item_bytes(call.arguments.dtype) * static_cast<std::size_t>(rank);
    input_memory.reset(new char[filled.size() + call.shift]);
    output_memory.reset(new char[output_bytes + call.shift]);
    input = input_memory.get() + call.shift;
    output = output_memory.get() + call.shift;
    std::memset(output, 0xA5, output_bytes);
    if (call.in_place && !filled.empty() && output_bytes) switch (call.algorithm->collective) {
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
};

void make(Group& group, const Drawn& drawn, int number) {
  const Algorithm& algorithm = *drawn.algorithm;
  const Arguments& arguments = drawn.arguments;
  const int n = group.n_ranks(), rank = group.rank();
  const Call call = make_call(algorithm, rank, arguments, group.half_bytes());
  std::vector<char> filled = input_of(algorithm.collective, arguments.dtype, arguments.op, n, rank, arguments.count,
                                      drawn.seed);
  if (!call.input_elements) filled.clear();  // this rank is not the root
  const std::vector<char> wanted = output_of(algorithm.collective, arguments.dtype, arguments.op, n, rank,
                                             algorithm.root, arguments.count, drawn.seed);
  const Buffers buffers(drawn, rank, filled, wanted.size());
  group.run(call, buffers.input, buffers.output);
  const std::string about = "call " + std::to_string(number) + " on rank " + std::to_string(rank) + " of " +
                            std::to_string(n) + ": " + algorithm.name + ", collective " +
                            std::to_string(static_cast<int>(algorithm.collective)) + ", dtype " +
                            std::to_string(static_cast<int>(arguments.dtype)) + ", op " +
                            std::to_string(static_cast<int>(arguments.op)) + ", count " +
                            std::to_string(arguments.count) + ", segment " + std::to_string(arguments.segment_bytes);
  CHECK(wanted.empty() || std::memcmp(buffers.output, wanted.data(), wanted.size()) == 0, about);
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

}  // namespace

void test_random_calls(const Programs& programs, RanksAre kind, std::uint64_t seed, int calls) {
  const WaitPolicy policies[] = {{2000, 400, 60}, {0, 400, 60}, {0, 0, 60}};  // spin, yield, sleep at once
  for (int n = 1; n <= 5; n++) {
    std::vector<const Algorithm*> algorithms;
    for (const Algorithm& algorithm : programs)
      if (algorithm.n == n) algorithms.push_back(&algorithm);
    GroupOptions options;
    options.waiting = policies[static_cast<std::size_t>(n + static_cast<int>(seed % 3)) % 3];
    options.check = (seed + static_cast<std::uint64_t>(n)) % 4 == 0;
    run_ranks_well(kind, n, options, [&](Group& group) {
      if (kind == RanksAre::Threads) CHECK(mappings_shared_by(n) == 1, "ranks that are threads do not share memory");
      Random random(seed + static_cast<std::uint64_t>(n));
      Random own(seed * 1000 + static_cast<std::uint64_t>(group.rank()));
      for (int i = 0; i < calls; i++) {
        const Drawn drawn = draw(random, algorithms);
        for (std::size_t busy = between(own, 0, 3) ? 0 : between(own, 0, 2000); busy; busy--) cpu_relax();
        make(group, drawn, i);
        if (n > 1 && between(random, 0, 19) == 0) exchange(group, random);
      }
    });
  }
}

}  // namespace autotune::test
