// Reading peers' private memory through the kernel (process_vm_readv; MPI libraries call it CMA), instead of an outbox.
//
// In: an instruction whose operands lie in other processes, at places that their messages told. Out: its result in own
// memory. The waits are those of the program; see kernels/README.md for why the edges of a message suffice.
#include "single_copy.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wave.h"

namespace autotune {
namespace {

// What is read of all peers together before it is combined: it and its sum stay in a second-level cache, and a call to the
// kernel costs little beside it.
constexpr std::size_t kReadAheadBytes = 256 << 10;
constexpr std::size_t kLeastTileBytes = 16 << 10;

// A number from which the others see that they read the right process.
std::uint64_t probe_of(int rank) { return kMagic + static_cast<std::uint64_t>(rank); }

}  // namespace

int read_memory(pid_t process, std::uint64_t from, void* to, std::size_t bytes) {
  while (bytes) {
    const iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
    const ssize_t got = process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (got < 0) return errno;
    if (got == 0) return EFAULT;
    // Less than asked for: the rest again, which tells why.
    to = static_cast<char*>(to) + got;
    from += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return 0;
}

std::string own_memory_fault() {
  const std::uint64_t word = kMagic;
  std::uint64_t read = 0;
  const int error = read_memory(getpid(), reinterpret_cast<std::uintptr_t>(&word), &read, sizeof read);
  return error ? std::strerror(error) : "";
}

void Group::announce_probe() {
  probe_ = probe_of(rank_);
  segment_.line(rank_).probe.store(reinterpret_cast<std::uintptr_t>(&probe_));
}

// Every rank tries to read a word of every other one, and all learn of every failure, so that they agree.
void Group::try_single_copy() {
  if (network_) {
    single_copy_fault_ = "the ranks are on several hosts";
    return;
  }
  constexpr std::uint64_t kFine = 1;
  std::uint64_t found = kFine;
  for (int other = 0; other < n_ranks() && found == kFine; other++) {
    const RankLine& line = segment_.line(other);
    std::uint64_t word = 0;
    int error = read_memory(line.pid.load(), line.probe.load(), &word, sizeof word);
    if (!error && word != probe_of(other)) error = ESRCH;  // another process has that number here
    if (error) found = static_cast<std::uint64_t>(other + 1) << 32 | static_cast<std::uint64_t>(error);
  }
  segment_.line(rank_).probed.store(found);
  waiting_.ring();
  for (int other = 0; other < n_ranks(); other++) {
    const Word& theirs = segment_.line(other).probed;
    waiting_.until(
        other, [&] { return theirs.load() != 0; }, [] {},
        [&] { return "rank " + std::to_string(rank_) + " waits for rank " + std::to_string(other) + " to join"; });
    const std::uint64_t result = theirs.load();
    if (result == kFine || !single_copy_fault_.empty()) continue;
    single_copy_fault_ = "rank " + std::to_string(other) + " may not read the memory of rank " +
                         std::to_string((result >> 32) - 1) + ": " +
                         std::strerror(static_cast<int>(result & 0xFFFFFFFF));
  }
}

void Group::read_peer(int source, std::uint64_t from, void* to, std::size_t bytes) {
  const pid_t process = segment_.line(source).pid.load(std::memory_order_relaxed);
  if (process == own_pid_) {  // ranks that are threads share their memory
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return;
  }
  const int error = read_memory(process, from, to, bytes);
  if (!error) return;
  const std::string who = "rank " + std::to_string(source), pid = " (pid " + std::to_string(process) + ")";
  if (error == ESRCH)
    waiting_.fail(describe(rank_, call_) + " reads from " + who + ": " + who + pid + " died",
                  "look at the output of " + who + " for why it ended");
  waiting_.fail(describe(rank_, call_) + " cannot read " + std::to_string(bytes) + " bytes of " + who + pid + ": " +
                    std::strerror(error),
                "look at what " + who + " did to its buffers while the call ran; exchange=staged does not read them");
}

// The operands of which `origins_` names a rank lie there, at the addresses in `sources_`.
void Group::pull(const Call& call, const Wave& wave, const Instruction& op, char* memory, std::size_t elements) {
  const std::size_t item = call.plan.item;
  if (op.n_sources == 1) {
    read_peer(origins_[0], reinterpret_cast<std::uintptr_t>(sources_[0]), memory, elements * item);
  } else {
    const auto peers = static_cast<std::size_t>(op.n_sources - 1);
    const std::size_t tile = std::max(kLeastTileBytes, kReadAheadBytes / peers / 4096 * 4096);
    if (read_ahead_.size() < tile * static_cast<std::size_t>(op.n_sources))
      read_ahead_.resize(tile * static_cast<std::size_t>(op.n_sources));
    const std::size_t tile_elements = tile / item;
    for (std::size_t first = 0; first < elements; first += tile_elements) {
      const std::size_t length = std::min(tile_elements, elements - first);
      for (std::size_t k = 0; k < static_cast<std::size_t>(op.n_sources); k++) {
        const char* const from = static_cast<const char*>(sources_[k]) + first * item;
        if (origins_[k] < 0) {
          operands_[k] = from;
          continue;
        }
        char* const to = read_ahead_.data() + k * tile;
        read_peer(origins_[k], reinterpret_cast<std::uintptr_t>(from), to, length * item);
        operands_[k] = to;
      }
      execute(call, wave, op, operands_.data(), memory + first * item, nullptr, length);
    }
  }
  // A peer whose call has failed may have let go of its buffers; it has said so first. When the kernel lets go of the pages
  // that it has read, it passes a full barrier, so this look comes after.
  waiting_.check_usable();
}

}  // namespace autotune
