// libautotune_hccl_tuner.so: HCCL asks it, on Ascend 950, which algorithm an all_reduce, all_gather or reduce_scatter takes.
//
// In:  communicators and calls, from HCCL. Out: the cost of one entry set to 0, or nothing touched.
// A decision takes no lock, no memory and no clock; no fault leaves this file.
//
// It looks at a communicator's ranks and servers, which all ranks know alike; not at the NPUs of the own server, which
// ranks on unequal servers know differently.
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi_hccl.h"
#include "machine.h"
#include "words.h"

namespace autotune::plugin {
namespace {

constexpr std::size_t kCommunicators = 4096;  // of one process, destroyed ones included unless their address is used again
constexpr std::size_t kTypes = 12;
constexpr std::size_t kCalls = 8;  // HcclCMDType up to ReduceScatter
// By HcclDataType; those that no table can name are empty.
constexpr std::array<std::string_view, kTypes> kTypeNames = {"int8", "",      "int32", "float16", "float32", "int64",
                                                             "",     "uint8", "",      "",        "float64", "bfloat16"};

struct Choice {
  std::uint64_t low, high;
  std::string engine, executor, algorithm;
};

// What is decided for communicators of one shape, by call and type.
struct Decisions {
  std::uint32_t n_ranks, n_servers;
  std::array<std::array<std::vector<Choice>, kTypes>, kCalls> choices;
};

struct Slot {
  std::atomic<void*> comm{nullptr};
  std::atomic<const Decisions*> decisions{nullptr};
};

// Zero at the start, and never given back: HCCL does not unload a plugin, and calls may still come while a process ends.
Slot slots[kCommunicators];
std::mutex mutex;

std::size_t home(const void* comm) { return (reinterpret_cast<std::uintptr_t>(comm) >> 4) * 0x9E3779B1u % kCommunicators; }

const Decisions* decisions_of(void* comm) {
  for (std::size_t i = 0, at = home(comm); i < kCommunicators; ++i, at = (at + 1) % kCommunicators) {
    void* const found = slots[at].comm.load(std::memory_order_acquire);
    if (found == comm) return slots[at].decisions.load(std::memory_order_acquire);
    if (!found) return nullptr;
  }
  return nullptr;
}

// Under the mutex. A reader that sees the address sees the decisions. False: there is no room.
bool remember(void* comm, const Decisions* decisions) {
  for (std::size_t i = 0, at = home(comm); i < kCommunicators; ++i, at = (at + 1) % kCommunicators) {
    void* const found = slots[at].comm.load(std::memory_order_relaxed);
    if (found && found != comm) continue;
    slots[at].decisions.store(decisions, std::memory_order_release);
    slots[at].comm.store(comm, std::memory_order_release);
    return true;
  }
  return false;
}

std::string text_of(const Config& config, std::string_view name, const char* otherwise) {
  const Knob* const knob = config.knob(name);
  if (!knob) return otherwise;
  const auto* text = std::get_if<std::string>(&knob->value);
  return text ? *text : std::to_string(std::get<std::int64_t>(knob->value));
}

std::unique_ptr<Decisions> decide(const Loaded& from, std::uint32_t n_ranks, std::uint32_t n_servers) {
  auto made = std::make_unique<Decisions>();
  made->n_ranks = n_ranks, made->n_servers = n_servers;
  for (const Words& words : kHcclTuner.words) {
    const std::size_t call = words.collective == "all_reduce"   ? kHcclAllReduce
                             : words.collective == "all_gather" ? kHcclAllGather
                                                                : kHcclReduceScatter;
    for (std::size_t type = 0; type < kTypes; ++type) {
      const Shape shape{.n_ranks = n_ranks, .n_hosts = n_servers, .dtype = kTypeNames[type], .sees_dtype = true};
      for (const Line& line : lines_of(*from.table, kHcclTuner, words, shape, from.evidence))
        made->choices[call][type].push_back({line.low, line.high, text_of(*line.config, "engine", "aicpu"),
                                             text_of(*line.config, "executor", "sole"), std::string(line.word)});
    }
  }
  return made;
}

// Under the mutex: the decisions for a shape, made once. At most one for each shape of the process's communicators.
const Decisions* decisions_for(const Loaded& from, std::uint32_t n_ranks, std::uint32_t n_servers) {
  static std::vector<std::unique_ptr<Decisions>>& kept = *new std::vector<std::unique_ptr<Decisions>>;
  for (const auto& one : kept)
    if (one->n_ranks == n_ranks && one->n_servers == n_servers) return one.get();
  kept.push_back(decide(from, n_ranks, n_servers));
  return kept.back().get();
}

void log(const HcclTunerHostFunctions* host, int level, int line, const char* words) {
  if (host && host->structSize >= offsetof(HcclTunerHostFunctions, structSize) && host->logFunction)
    host->logFunction(level, "autotune", line, "autotune tuner: %s", words);
}

std::int32_t init(void* comm, const HcclTunerCommInfo* info, const HcclTunerHostFunctions* host) noexcept {
  if (!comm || !info) return kHcclSuccess;
  try {
    const Loaded& from = loaded();
    const std::lock_guard lock(mutex);
    static bool said = false;
    if (!said) log(host, from.table ? kHcclLogInfo : kHcclLogWarning, __LINE__, from.words.c_str());
    said = true;
    const Decisions* const found = from.table ? decisions_for(from, info->nRanks, info->nServers) : nullptr;
    // Also where nothing is decided: the address may have been another communicator's.
    if (!remember(comm, found)) log(host, kHcclLogWarning, __LINE__, "does not intervene: too many communicators");
  } catch (const std::exception& fault) {
    log(host, kHcclLogWarning, __LINE__, fault.what());
  }
  return kHcclSuccess;
}

// Names differ within a few characters: a call of strcmp for each would take half of a decision's time.
inline bool is(const char* name, const std::string& wanted) {
  if (!name) return false;
  const char* at = wanted.c_str();
  while (*at && *name == *at) ++name, ++at;
  return *name == *at;
}

std::int32_t get_coll_info(void* comm, const HcclTunerCollInfo* call, HcclTunerAlgoEntry* entries, int count,
                           int* matched) noexcept {
  if (!call || !entries || count <= 0 || !matched) return kHcclSuccess;
  const Decisions* const decisions = decisions_of(comm);
  if (!decisions || call->collType < 0 || static_cast<std::size_t>(call->collType) >= kCalls || call->dataType < 0 ||
      static_cast<std::size_t>(call->dataType) >= kTypes)
    return kHcclSuccess;
  // A newer HCCL may have larger entries; one whose entries are smaller than these is not this interface.
  const std::size_t step = entries->structSize == 0 ? sizeof *entries : entries->structSize;
  if (step < sizeof *entries) return kHcclSuccess;
  const auto& choices =
      decisions->choices[static_cast<std::size_t>(call->collType)][static_cast<std::size_t>(call->dataType)];
  const Choice* const choice = find(choices, call->nBytes);
  for (int i = 0; choice && i < count; ++i) {
    auto* const entry = reinterpret_cast<HcclTunerAlgoEntry*>(reinterpret_cast<char*>(entries) + static_cast<std::size_t>(i) * step);
    // An entry that HCCL has ruled out stays out: then its own choice holds.
    if (entry->cost >= 0.0f && is(entry->engineName, choice->engine) && is(entry->executorName, choice->executor) &&
        is(entry->templateName, choice->algorithm)) {
      entry->cost = 0.0f;
      *matched = 1;
      break;  // several algorithms may have the same three names; HCCL would take the first of equal costs
    }
  }
  return kHcclSuccess;
}

}  // namespace
}  // namespace autotune::plugin

extern "C" {
__attribute__((visibility("default"))) HcclTunerFunctionsV1 hcclTunerPlugin_v1 = {
    autotune::plugin::init, autotune::plugin::get_coll_info, sizeof(HcclTunerFunctionsV1)};
}
