// Ranks that differ, hang, leave or die: every other rank gets the same text, in time, and again at the next call.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "check.h"
#include "failure.h"
#include "single_copy.h"
#include "tests.h"

namespace autotune::test {
namespace {

constexpr double kTimeoutS = 1.0;

// What a call throws; "" if it returns.
template <class Action>
std::string thrown_by(Action action) {
  try {
    action();
  } catch (const Failure& failure) {
    CHECK(!failure.remedy.empty(), failure.what());
    const std::string text = failure.what();
    return text.substr(0, text.find(" (reported by"));
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Scene {
 public:
  Scene(const Programs& programs, RanksAre kind, int n) : programs_(programs), kind_(kind), n_(n) {
    options_.waiting = {0, 10, kTimeoutS};
  }

  // Every rank does its action; all that return must have got a Failure with these parts, and get it again.
  template <class Action>
  void all_fail(const std::vector<std::string>& parts, Action action) {
    const std::vector<int> ended = run_ranks(kind_, n_, options_, [&](Group& group) {
      const std::string text = thrown_by([&] { action(group), call(group, {}); });
      for (const std::string& part : parts) CHECK(contains(text, part), "\"" + part + "\" in \"" + text + "\"");
      const std::string again = thrown_by([&] { call(group, {}); });
      CHECK(again == text, "\"" + again + "\" after \"" + text + "\"");
    });
    for (int status : ended) CHECK(status == 0 || status == SIGKILL, std::to_string(status));
  }

  void call(Group& group, Arguments arguments, const char* name = "ring", Collective kind = Collective::AllReduce,
            int root = 0) const {
    if (!arguments.count) arguments.count = 1000;
    const std::size_t bytes = arguments.count * item_bytes(arguments.dtype);
    std::vector<char> input(bytes), output(bytes);
    group.run(make_call(find(programs_, kind, name, n_, root), group.rank(), arguments, group.half_bytes()),
              input.data(), output.data());
  }

  GroupOptions options_;

 private:
  const Programs& programs_;
  const RanksAre kind_;
  const int n_;
};

void differ(const Programs& programs, RanksAre kind, int n, const char* field, const Arguments& odd,
            const char* algorithm = "ring") {
  Scene scene(programs, kind, n);
  scene.all_fail({"rank " + std::to_string(n - 1), "disagree at call 3 in: " + std::string(field)}, [&](Group& group) {
    scene.call(group, {});
    scene.call(group, {});
    if (group.rank() == n - 1) scene.call(group, odd, algorithm);
    else scene.call(group, {});
  });
}

void mismatches(const Programs& programs, RanksAre kind, int n) {
  Arguments odd;
  odd.count = 1001;
  differ(programs, kind, n, "count", odd);
  differ(programs, kind, n, "algorithm", {}, "direct");
  odd = {};
  odd.dtype = DType::Int32;
  differ(programs, kind, n, "dtype", odd);
  odd = {};
  odd.op = Op::Max;
  differ(programs, kind, n, "op", odd);
  odd = {};
  odd.segment_bytes = 64;
  differ(programs, kind, n, "segment_bytes", odd);
  odd = {};
  odd.in_flight = 2;
  differ(programs, kind, n, "knobs", odd);
  Scene roots(programs, kind, n);
  roots.all_fail({"disagree at call 1 in: root"}, [&](Group& group) {
    roots.call(group, {}, "flat", Collective::Broadcast, group.rank() ? 1 : 0);
  });
  for (int lag : {1, 2}) {  // nobody waits for anybody until the next call that everybody takes part in
    Scene unseen(programs, kind, n);
    unseen.options_.check = lag == 2;
    unseen.all_fail({"disagree at call 1 in: collective"}, [&](Group& group) {
      if (group.rank()) unseen.call(group, {}, "tree", Collective::Reduce);
      else unseen.call(group, {}, "flat", Collective::Broadcast);
    });
  }
}

// A call over the given places, of symmetric memory where the exchange is by zero copy.
class SharedCall {
 public:
  SharedCall(const Programs& programs, Exchange exchange, Collective kind = Collective::AllReduce)
      : algorithm_(find(programs, kind, "direct", 2, 0, exchange)) {
    arguments_.count = kCount;
  }

  static constexpr std::size_t kCount = 1000, kBytes = 4000;

  void run(Group& group, const char* input, char* output) const {
    group.run(make_call(algorithm_, group.rank(), arguments_, group.half_bytes()), input, output);
  }

 private:
  const Algorithm& algorithm_;
  Arguments arguments_;
};

// What a rank finds out alone costs nothing: nobody has been told of the call.
void unusable_buffers(const Programs& programs, RanksAre kind) {
  const SharedCall apart(programs, Exchange::ZeroCopy), in_place(programs, Exchange::InPlace);
  const SharedCall broadcast(programs, Exchange::ZeroCopy, Collective::Broadcast);
  run_ranks_well(kind, 2, Scene(programs, kind, 2).options_, [&](Group& group) {
    std::vector<char> outside(SharedCall::kBytes);
    char *const input = group.heap(), *const output = input + 8192, *const end = input + group.heap_bytes();
    const auto check = [&](const SharedCall& call, const char* from, char* to, const char* what) {
      const std::string text = thrown_by([&] { call.run(group, from, to); });
      CHECK(contains(text, what), "\"" + text + "\" instead of: " + what);
    };
    check(apart, outside.data(), output, "input is not in this rank's symmetric memory");
    check(apart, input, outside.data(), "output is not in this rank's symmetric memory");
    check(apart, input, end - SharedCall::kBytes + 1, "output is not in this rank's symmetric memory");
    check(apart, input, input, "made for buffers that are not in place");
    check(in_place, input, output, "made for buffers that are in place");
    if (group.rank() == 0) check(broadcast, input, output, "two buffers");
    CHECK(contains(thrown_by([&] { group.forget(group.heap_bytes(), 1); }), "symmetric memory ends"), "beyond the end");
    apart.run(group, input, output);
    in_place.run(group, input, input);
    std::memset(output, 7, SharedCall::kBytes);
    group.forget(8192, 4096);
    for (std::size_t i = 0; i < 4096; i++) CHECK(output[i] == 0, "a page that was given back");
  });
}

void different_buffers(const Programs& programs, RanksAre kind) {
  const SharedCall apart(programs, Exchange::ZeroCopy), in_place(programs, Exchange::InPlace);
  const auto differ_in = [&](const char* field, auto odd) {
    Scene scene(programs, kind, 2);
    scene.all_fail({"ranks 0 and 1 disagree at call 2 in: " + std::string(field)}, [&](Group& group) {
      char *const input = group.heap(), *const output = input + 8192;
      apart.run(group, input, output);
      if (group.rank() == 1) odd(group, input, output);
      else apart.run(group, input, output);
    });
  };
  differ_in("place in symmetric memory", [&](Group& g, char* in, char* out) { apart.run(g, in, out + 64); });
  differ_in("place in symmetric memory", [&](Group& g, char* in, char* out) { apart.run(g, in + 1, out); });
  differ_in("in place or not", [&](Group& g, char* in, char*) { in_place.run(g, in, in); });
  differ_in("exchange", [&](Group& group, char* in, char* out) {
    Arguments same;
    same.count = SharedCall::kCount;
    const Algorithm& staged = find(programs, Collective::AllReduce, "direct", 2);
    group.run(make_call(staged, group.rank(), same, group.half_bytes()), in, out);
  });
}

// The root's buffer may be read by nobody, itself included: the rank that tries says so, and all end with its words.
void unreadable_buffer(const Programs& programs) {
  const Algorithm& broadcast = find(programs, Collective::Broadcast, "flat", 3, 0, Exchange::SingleCopy);
  Scene scene(programs, RanksAre::Processes, 3);
  scene.options_.waiting.timeout_s = 30;  // not by the time-out
  scene.all_fail({"cannot read 4000 bytes of rank 0 (pid ", "Bad address"}, [&](Group& group) {
    Arguments arguments;
    arguments.count = 1000;
    std::vector<char> output(4000);
    void* const closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* const buffer = group.rank() ? output.data() : static_cast<char*>(closed);
    group.run(make_call(broadcast, group.rank(), arguments, group.half_bytes()), buffer, buffer);
  });
}

void different_exchange(const Programs& programs, RanksAre kind) {
  const SharedCall single(programs, Exchange::SingleCopy), staged(programs, Exchange::Staged);
  Scene scene(programs, kind, 2);
  scene.all_fail({"ranks 0 and 1 disagree at call 2 in: exchange"}, [&](Group& group) {
    std::vector<char> input(SharedCall::kBytes), output(SharedCall::kBytes);
    single.run(group, input.data(), output.data());
    (group.rank() ? single : staged).run(group, input.data(), output.data());
  });
}

// A counter that ranks share, be they threads or processes.
class Counter {
 public:
  Counter()
      : count_(new (mmap(nullptr, sizeof *count_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   std::atomic<int>(0)) {}
  ~Counter() { munmap(count_, sizeof *count_); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  void add() { count_->fetch_add(1); }
  void wait_for(int count) const {
    while (count_->load() < count) sched_yield();
  }

 private:
  std::atomic<int>* count_;
};

void hang(const Programs& programs, RanksAre kind) {
  Scene scene(programs, kind, 3);
  Counter failed_ranks;
  const auto start = std::chrono::steady_clock::now();
  scene.all_fail({"no sign of rank", "calls made: rank 0 1, rank 1 1, rank 2 0"}, [&](Group& group) {
    if (group.rank() == 2) failed_ranks.wait_for(2);  // hangs
    try {
      scene.call(group, {});
    } catch (const Failure&) {
      failed_ranks.add();
      throw;
    }
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() > 0.9 * kTimeoutS && took.count() < kTimeoutS + 20, std::to_string(took.count()));
}

void leave(const Programs& programs, RanksAre kind) {
  Scene scene(programs, kind, 3);
  run_ranks_well(kind, 3, scene.options_, [&](Group& group) {
    if (group.rank() == 2) return group.leave();
    const std::string text = thrown_by([&] { scene.call(group, {}); });
    CHECK(contains(text, "rank 2 has closed its communicator"), text);
  });
}

void die(const Programs& programs) {
  Scene scene(programs, RanksAre::Processes, 3);
  scene.options_.waiting.timeout_s = 30;  // not by the time-out
  scene.all_fail({"rank 1 (pid ", "died"}, [&](Group& group) {
    if (group.rank() == 1) raise(SIGKILL);
    scene.call(group, {});
  });
}

void mismatched_messages(const Programs& programs, RanksAre kind) {
  Scene scene(programs, kind, 2);
  scene.all_fail({"rank 0 sends 300000 bytes of int8 to rank 1, which receives 300001 bytes of int8"}, [](Group& group) {
    std::vector<char> data(300'001);
    if (group.rank()) group.recv(0, data.data(), data.size(), DType::Int8);
    else group.send(1, data.data(), data.size() - 1, DType::Int8);
  });
}

void interrupt(const Programs& programs, RanksAre kind) {
  struct Interrupted {};
  static thread_local bool pressed = false;  // Ctrl-C, on one rank
  Scene scene(programs, kind, 2);
  Counter interrupted_ranks;
  scene.options_.waiting.timeout_s = 30;
  scene.options_.interrupted = [] {
    if (pressed) throw Interrupted{};
  };
  scene.all_fail({"rank 0 was interrupted while it waited for rank 1"}, [&](Group& group) {
    if (group.rank() == 1) return interrupted_ranks.wait_for(1);
    pressed = true;
    try {
      scene.call(group, {});
      CHECK(false, "not interrupted");
    } catch (const Interrupted&) {
      interrupted_ranks.add();
    }
  });
}

// A wake-up that gets lost costs a nap of 50 ms; ranks that sleep at once and never lose one take far less.
void wake(const Programs& programs, RanksAre kind) {
  constexpr int kCalls = 2000;
  Scene scene(programs, kind, 2);
  scene.options_.waiting = {0, 0, 30};
  const auto start = std::chrono::steady_clock::now();
  run_ranks_well(kind, 2, scene.options_, [&](Group& group) {
    for (int i = 0; i < kCalls; i++) scene.call(group, {}, "flat");
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() < kCalls * 0.05 / 4, std::to_string(took.count()) + " s");
}

}  // namespace

void test_failures(const Programs& programs, RanksAre kind) {
  for (int n : {2, 3}) mismatches(programs, kind, n);
  unusable_buffers(programs, kind);
  different_buffers(programs, kind);
  const bool reads = own_memory_fault().empty();
  if (reads) different_exchange(programs, kind);
  wake(programs, kind);
  hang(programs, kind);
  leave(programs, kind);
  mismatched_messages(programs, kind);
  interrupt(programs, kind);
  if (kind == RanksAre::Processes) {
    if (reads) unreadable_buffer(programs);
    die(programs);
  }
}

}  // namespace autotune::test
