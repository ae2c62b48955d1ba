// libautotune_nccl_tuner.so: NCCL and RCCL ask it for algorithm, protocol and channels of a collective.
//
// In:  communicators and calls, from NCCL. Out: the costs of a call changed, or nothing touched; always success, since NCCL
// fails a collective whose tuner does not succeed. A decision takes no lock, no memory and no clock.
//
// Unlike the example plugin, what a rule does not say is left to NCCL: channels stay unset, and of an algorithm without a
// protocol NCCL chooses the protocol (by version 2, which cannot say that, such a rule is passed over).
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "abi_nccl.h"
#include "machine.h"
#include "words.h"

namespace autotune::plugin {
namespace {

constexpr float kIgnored = -1.0f;
constexpr int kAnyProtocol = -1;
constexpr std::int64_t kMaxChannels = 64;
constexpr std::array<std::string_view, kNcclAlgorithms> kAlgorithms = {"tree", "ring",      "collnet_direct", "collnet_chain",
                                                                       "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, kNcclProtocols> kProtocols = {"ll", "ll128", "simple"};
constexpr std::array<std::string_view, kNcclFunctions> kFunctions = {"broadcast", "reduce", "all_gather", "reduce_scatter",
                                                                     "all_reduce"};

struct Choice {
  std::uint64_t low, high;
  int algorithm, protocol, channels;  // channels 0: NCCL's own number
};

// A communicator's context: what is decided for it, by function.
struct Decisions {
  std::array<std::vector<Choice>, kNcclFunctions> choices;
};

template <std::size_t N>
int index_of(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<int>(i);
  return -1;
}

// Protocol and channels of a config; false where they are none of NCCL's.
bool read_knobs(const Config& config, Choice& choice) {
  choice.protocol = kAnyProtocol, choice.channels = 0;
  if (const Knob* knob = config.knob("protocol")) {
    const auto* name = std::get_if<std::string>(&knob->value);
    choice.protocol = name ? index_of(kProtocols, *name) : -1;
    if (choice.protocol < 0) return false;
  }
  if (const Knob* knob = config.knob("channels")) {
    const auto* number = std::get_if<std::int64_t>(&knob->value);
    if (!number || *number < 1 || *number > kMaxChannels) return false;
    choice.channels = static_cast<int>(*number);
  }
  return true;
}

std::unique_ptr<Decisions> decide(const Loaded& from, std::size_t n_ranks, std::size_t n_nodes) {
  auto made = std::make_unique<Decisions>();
  const Shape shape{.n_ranks = static_cast<std::int64_t>(n_ranks), .n_hosts = n_nodes, .dtype = {}, .sees_dtype = false};
  for (const Words& words : kNccl.words) {
    auto& choices = made->choices[static_cast<std::size_t>(index_of(kFunctions, words.collective))];
    for (const Line& line : lines_of(*from.table, kNccl, words, shape, from.evidence)) {
      Choice choice{line.low, line.high, index_of(kAlgorithms, line.word), kAnyProtocol, 0};
      if (choice.algorithm >= 0 && read_knobs(*line.config, choice)) choices.push_back(choice);
    }
  }
  return made;
}

void log(NcclLogger logger, int level, int line, const char* words) {
  if (logger) logger(level, kNcclTuning, "autotune", line, "autotune tuner: %s", words);
}

int init(std::size_t n_ranks, std::size_t n_nodes, NcclLogger logger, void** context) noexcept {
  if (!context) return kNcclSuccess;
  *context = nullptr;
  try {
    const Loaded& from = loaded();
    {
      static std::mutex mutex;
      static bool said = false;
      const std::lock_guard lock(mutex);
      if (!said) log(logger, from.table ? kNcclLogInfo : kNcclLogWarning, __LINE__, from.words.c_str());
      said = true;
    }
    if (from.table) *context = decide(from, n_ranks, n_nodes).release();
  } catch (const std::exception& fault) {
    log(logger, kNcclLogWarning, __LINE__, fault.what());
  }
  return kNcclSuccess;
}

int init_v5(void** context, std::uint64_t, std::size_t n_ranks, std::size_t n_nodes, NcclLogger logger, void*, void*) noexcept {
  return init(n_ranks, n_nodes, logger, context);
}

int destroy(void* context) noexcept {
  delete static_cast<Decisions*>(context);
  return kNcclSuccess;
}

const Choice* choice_of(const void* context, int function, std::size_t bytes) {
  if (!context || function < 0 || function >= kNcclFunctions) return nullptr;
  return find(static_cast<const Decisions*>(context)->choices[static_cast<std::size_t>(function)], bytes);
}

// Whether the table of costs offers what was chosen; it then is what costs least.
bool apply(const Choice& choice, float* costs, int n_algorithms, int n_protocols) {
  if (choice.algorithm >= n_algorithms || choice.protocol >= n_protocols) return false;
  float* const row = costs + choice.algorithm * n_protocols;
  if (choice.protocol != kAnyProtocol) {
    if (row[choice.protocol] == kIgnored) return false;
    row[choice.protocol] = 0.0f;
    return true;
  }
  bool offered = false;
  for (int p = 0; p < n_protocols; ++p) offered = offered || row[p] != kIgnored;
  for (int a = 0; offered && a < n_algorithms; ++a)
    for (int p = 0; a != choice.algorithm && p < n_protocols; ++p) costs[a * n_protocols + p] = kIgnored;
  return offered;
}

int get_coll_info(void* context, int function, std::size_t bytes, int, float** costs, int n_algorithms, int n_protocols, int,
                  int* n_channels) noexcept {
  const Choice* const choice = choice_of(context, function, bytes);
  if (choice && costs && apply(*choice, reinterpret_cast<float*>(costs), n_algorithms, n_protocols) && n_channels &&
      choice->channels > 0)
    *n_channels = choice->channels;
  return kNcclSuccess;
}

int get_coll_info_v3(void* context, int function, std::size_t bytes, int pipe_ops, float** costs, int n_algorithms,
                     int n_protocols, int* n_channels) noexcept {
  return get_coll_info(context, function, bytes, pipe_ops, costs, n_algorithms, n_protocols, 0, n_channels);
}

int get_coll_info_v2(void* context, int function, std::size_t bytes, int coll_net, int nvls, int, int* algorithm, int* protocol,
                     int* n_channels) noexcept {
  const Choice* const choice = choice_of(context, function, bytes);
  if (!choice || !algorithm || !protocol || choice->protocol == kAnyProtocol) return kNcclSuccess;
  const std::string_view name = kAlgorithms[static_cast<std::size_t>(choice->algorithm)];
  if ((name.starts_with("collnet") && !coll_net) || (name.starts_with("nvls") && !nvls)) return kNcclSuccess;
  *algorithm = choice->algorithm, *protocol = choice->protocol;
  if (n_channels && choice->channels > 0) *n_channels = choice->channels;
  return kNcclSuccess;
}

constexpr const char* kName = "autotune";

}  // namespace
}  // namespace autotune::plugin

#define EXPORTED extern __attribute__((visibility("default")))
extern "C" {
EXPORTED const NcclTunerV2 ncclTunerPlugin_v2;
EXPORTED const NcclTunerV3 ncclTunerPlugin_v3;
EXPORTED const NcclTunerV4 ncclTunerPlugin_v4;
EXPORTED const NcclTunerV5 ncclTunerPlugin_v5;
}
const NcclTunerV2 ncclTunerPlugin_v2 = {autotune::plugin::kName, autotune::plugin::init, autotune::plugin::get_coll_info_v2,
                                        autotune::plugin::destroy};
const NcclTunerV3 ncclTunerPlugin_v3 = {autotune::plugin::kName, autotune::plugin::init, autotune::plugin::get_coll_info_v3,
                                        autotune::plugin::destroy};
const NcclTunerV4 ncclTunerPlugin_v4 = {autotune::plugin::kName, autotune::plugin::init, autotune::plugin::get_coll_info,
                                        autotune::plugin::destroy};
const NcclTunerV5 ncclTunerPlugin_v5 = {autotune::plugin::kName, autotune::plugin::init_v5, autotune::plugin::get_coll_info,
                                        autotune::plugin::destroy};
