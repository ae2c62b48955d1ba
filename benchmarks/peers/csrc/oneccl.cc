// oneCCL on the CPU as a library of sampler.h. Usage: oneccl SOCKET_NAME CORES RANK N_RANKS SCRATCH_FOLDER
//
// Ranks meet by oneCCL's own key-value store; rank 0 leaves its address in the scratch folder.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "oneapi/ccl.hpp"
#include "sampler.h"

// The profiler's hooks that the static library refers to and does not bring; null means that nobody profiles.
extern "C" {
#define HOOK(name) void* __itt_##name##_ptr__3_0 = nullptr
HOOK(domain_create);
HOOK(string_handle_create);
HOOK(task_begin);
HOOK(task_end);
HOOK(metadata_add);
HOOK(thread_set_name);
HOOK(event_create);
HOOK(event_start);
HOOK(event_end);
#undef HOOK
}

namespace {

std::unique_ptr<ccl::communicator> comm;

ccl::shared_ptr_class<ccl::kvs> meet(int rank, const std::string& file) {
  if (rank == 0) {
    auto kvs = ccl::create_main_kvs();
    const auto address = kvs->get_address();
    std::ofstream(file + ".new", std::ios::binary).write(address.data(), static_cast<std::streamsize>(address.size()));
    std::rename((file + ".new").c_str(), file.c_str());
    return kvs;
  }
  ccl::kvs::address_type address;
  constexpr int kMostTurns = 30'000;  // half a minute
  for (int turn = 0; !std::ifstream(file, std::ios::binary).read(address.data(), static_cast<std::streamsize>(address.size()));
       turn++) {
    if (turn == kMostTurns) throw std::runtime_error("rank 0 did not write " + file + " within 30 s");
    usleep(1000);
  }
  return ccl::create_kvs(address);
}

constexpr auto kFloat = ccl::datatype::float32;
constexpr auto kSum = ccl::reduction::sum;

// Its own wait has no setting that gives the core away, and falls to the scheduler's tick where ranks share one; its
// test makes progress too. So the waiting is done here where ranks exceed cores.
bool crowded = false;

void finish(ccl::event event) {
  if (!crowded) return event.wait();
  while (!event.test()) sched_yield();
}

void barrier() { finish(ccl::barrier(*comm)); }

void all_reduce(const float* in, float* out, std::size_t count) {
  finish(ccl::allreduce(in, out, count, kFloat, kSum, *comm));
}
void all_gather(const float* in, float* out, std::size_t count) {
  static std::vector<std::size_t> counts;
  counts.assign(static_cast<std::size_t>(comm->size()), count);
  finish(ccl::allgatherv(in, count, out, counts, kFloat, *comm));
}
void reduce_scatter(const float* in, float* out, std::size_t count) {
  finish(ccl::reduce_scatter(in, out, count, kFloat, kSum, *comm));
}
void broadcast(const float*, float* out, std::size_t count) { finish(ccl::broadcast(out, count, kFloat, 0, *comm)); }
void reduce(const float* in, float* out, std::size_t count) {
  finish(ccl::reduce(in, out, count, kFloat, kSum, 0, *comm));
}
void all_to_all(const float* in, float* out, std::size_t count) {
  finish(ccl::alltoall(in, out, count, kFloat, *comm));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int rank = std::atoi(argv[3]), ranks = std::atoi(argv[4]);
  crowded = ranks > 1 + std::count(argv[2], argv[2] + std::strlen(argv[2]), ',');
  setenv("CCL_LOCAL_RANK", argv[3], 1);  // what a launcher would say
  setenv("CCL_LOCAL_SIZE", argv[4], 1);
  ccl::init();
  comm = std::make_unique<ccl::communicator>(
      ccl::create_communicator(ranks, rank, meet(rank, std::string(argv[5]) + "/kvs")));
  const auto about = ccl::get_library_version();
  const std::string version = "oneCCL " + std::string(about.full);
  library lib{};
  lib.version = version.c_str();
  lib.rank = rank;
  lib.ranks = ranks;
  lib.barrier = barrier;
  const operation run[COLLECTIVES] = {all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all};
  for (int k = 0; k < COLLECTIVES; k++) lib.run[k] = run[k];
  const int code = serve(&lib, argv[1], argv[2]);
  comm.reset();
  return code;
}
