// Creation and mapping of the shared segment; see segment.h.
#include "segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "failure.h"

namespace autotune {
namespace {

struct Offsets {
  std::size_t lines, headers, banks, outboxes, channels, heaps, total;
};

constexpr std::size_t kHeapAlignment = 2 << 20;  // of a large page

std::size_t page_aligned(std::size_t bytes) { return (bytes + 4095) & ~std::size_t{4095}; }

Offsets offsets(std::size_t n, std::size_t half_bytes, std::size_t heap_bytes) {
  Offsets at{};
  at.lines = page_aligned(sizeof(GroupHeader));
  at.headers = at.lines + page_aligned(n * sizeof(RankLine));
  at.banks = at.headers + page_aligned(n * kBanks * kBankLines * sizeof(Header));
  at.outboxes = at.banks + n * kBanks * kBankBytes;
  at.channels = at.outboxes + n * 2 * half_bytes;
  at.heaps = (at.channels + n * n * sizeof(Channel) + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment;
  at.total = at.heaps + (heap_bytes ? n * (heap_bytes + kHeapSkew) : 0);
  return at;
}

[[noreturn]] void fail(const std::string& what, const std::string& remedy) {
  throw Failure("shared segment: " + what + ": " + std::strerror(errno), remedy);
}

void copy_text(char* to, const std::string& text) {
  const std::size_t length = std::min<std::size_t>(text.size(), kReportBytes - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

// Messages of some size go round a part of each half of the outbox, call by call (outbox_places.cc). A line that a peer's
// cache still holds costs its writer a trip to that cache. Between two ranks that share the last-level cache, Zen 4 with
// second-level caches of 1 MiB: a megabyte later the line is gone from there, and the whole is small enough to survive what
// the caller does between calls: 1.2 to 1.7x at 16 KiB, 1.5x at 64 KiB, 1.2x at 256 KiB, half of which is lost with 4 MiB;
// with 256 KiB broadcast and reduce of 64 KiB take 1.4 times as long. Where caches of 2 MiB keep the line all the same
// (Intel), the shorter way round is the faster one: 1.1x at 16 KiB, 1.2 to 1.4x at 64 KiB of broadcast and reduce, and 4 MiB
// gain nothing. With more ranks the outboxes share caches, and do not go round. 8 ranks on 2 cores, 1 MiB over 256 KiB
// (Zen 4): 1.3 to 1.5 for 64 KiB of all_reduce, reduce_scatter and all_to_all, 0.94 for all_gather and broadcast, 1.0 at
// 1 MiB; 256 KiB over none (Xeon): 1.1 to 1.3 for 16 KiB of all_reduce, 1.15 for 64 KiB of all_gather and all_to_all; 0.95 to
// 1.1, which is the spread of one and the same, for the others to 256 KiB.
std::size_t rotation_for(int n_ranks) {
  constexpr long kMegabyte = 1 << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  const bool evicts = sysconf(_SC_LEVEL2_CACHE_SIZE) <= kMegabyte;  // 0 or less: unknown
#else
  const bool evicts = true;
#endif
  if (n_ranks > 2) return 0;
  return evicts ? kMegabyte : kMegabyte / 4;
}

constexpr const char* kMemoryRemedy = "check the memory limit of the container (autotune doctor)";

}  // namespace

int Segment::create(int n_ranks, std::size_t staging_bytes, std::size_t symmetric_bytes) {
  if (n_ranks < 1 || n_ranks > kMaxRanks)
    throw BadArgument("n_ranks is " + std::to_string(n_ranks), "give a number of ranks from 1 to 1024");
  const std::size_t half_bytes = page_aligned(staging_bytes / 2);
  constexpr std::size_t kMostBytes = std::size_t{1} << 46;  // of the 2^47 that a process can address
  if (symmetric_bytes > kMostBytes / static_cast<std::size_t>(n_ranks))
    throw BadArgument("symmetric memory of " + std::to_string(symmetric_bytes) + " bytes for each of " +
                          std::to_string(n_ranks) + " ranks cannot be addressed",
                      "lower AUTOTUNE_SYMMETRIC");
  const std::size_t heap_bytes = (symmetric_bytes + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment;
  const Offsets at = offsets(static_cast<std::size_t>(n_ranks), half_bytes, heap_bytes);
  const int fd = memfd_create("autotune", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) fail("memfd_create", kMemoryRemedy);
  if (ftruncate(fd, static_cast<off_t>(at.total)) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    fail("cannot size it to " + std::to_string(at.total) + " bytes", kMemoryRemedy);
  }
  void* base = mmap(nullptr, sizeof(GroupHeader), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    close(fd);
    errno = error;
    fail("mmap", kMemoryRemedy);
  }
  auto* group = new (base) GroupHeader{};
  group->version = kLayoutVersion;
  group->n_ranks = static_cast<std::uint32_t>(n_ranks);
  group->half_bytes = half_bytes;
  group->rotation_bytes = rotation_for(n_ranks);
  group->heap_bytes = heap_bytes;
  group->total_bytes = at.total;
  group->magic = kMagic;
  munmap(base, sizeof(GroupHeader));
  // Nobody may change the size under a rank that has mapped it: that would end it with SIGBUS.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    fail("cannot seal it", "use a kernel with memfd sealing (3.17 or newer)");
  }
  return fd;
}

Segment::Segment(int fd, const std::vector<bool>& remote) {
  constexpr const char* kRemedy = "hand on the descriptor that create_segment() returned, to ranks of the same version";
  struct stat status{};
  if (fstat(fd, &status) != 0) fail("descriptor " + std::to_string(fd), kRemedy);
  const auto total_bytes = static_cast<std::size_t>(status.st_size);
  if (total_bytes < sizeof(GroupHeader)) throw Failure("shared segment: the descriptor is not one of ours", kRemedy);
  void* first = mmap(nullptr, sizeof(GroupHeader), PROT_READ, MAP_SHARED, fd, 0);
  if (first == MAP_FAILED) fail("mmap", kMemoryRemedy);
  const auto& header = *static_cast<const GroupHeader*>(first);
  const bool ours = header.magic == kMagic && header.version == kLayoutVersion && header.n_ranks >= 1 &&
                    header.n_ranks <= kMaxRanks && header.total_bytes == total_bytes &&
                    header.half_bytes < total_bytes && header.heap_bytes < total_bytes &&
                    offsets(header.n_ranks, header.half_bytes, header.heap_bytes).total == total_bytes;
  const std::size_t n = header.n_ranks;
  half_bytes_ = header.half_bytes;
  heap_bytes_ = header.heap_bytes;
  munmap(first, sizeof(GroupHeader));
  if (!ours) throw Failure("shared segment: made by another version of autotune, or not by autotune", kRemedy);
  const Offsets at = offsets(n, half_bytes_, heap_bytes_);
  mapped_bytes_ = at.heaps;
  heaps_at_ = at.heaps;
  void* base = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) fail("mmap of " + std::to_string(mapped_bytes_) + " bytes", kMemoryRemedy);
  fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (fd_ < 0) {
    const int error = errno;
    munmap(base, mapped_bytes_);
    errno = error;
    fail("cannot keep the descriptor", "raise the limit of open files (ulimit -n)");
  }
  base_ = static_cast<char*>(base);
  lines_at_ = at.lines;
  headers_at_ = at.headers;
  banks_at_ = at.banks;
  outboxes_at_ = at.outboxes;
  channels_at_ = at.channels;
  bases_.assign(n, base_);
  if (remote.empty()) return;
  void* mirror = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mirror == MAP_FAILED) {
    const int error = errno;
    munmap(base_, mapped_bytes_);
    close(fd_);
    errno = error;
    fail("mmap of " + std::to_string(mapped_bytes_) + " bytes", kMemoryRemedy);
  }
  mirror_ = static_cast<char*>(mirror);
  for (std::size_t rank = 0; rank < n; rank++)
    if (remote[rank]) bases_[rank] = mirror_;
}

bool Segment::report(int reporter, const std::string& message, const std::string& remedy) {
  std::uint32_t whole = 0;
  if (!group().broken.compare_exchange_strong(whole, 1)) return false;
  group().reporter = reporter;
  copy_text(group().report, message);
  copy_text(group().remedy, remedy);
  group().broken.store(2);
  return true;
}

void Segment::map_heaps() {
  if (heaps_) return;
  if (heap_bytes_ == 0)
    throw BadArgument("this group was made without symmetric memory", "set AUTOTUNE_SYMMETRIC, such as to 4G");
  const std::size_t bytes = (heap_bytes_ + kHeapSkew) * static_cast<std::size_t>(n_ranks());
  void* heaps = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(heaps_at_));
  if (heaps == MAP_FAILED)
    fail("mmap of " + std::to_string(bytes) + " bytes of symmetric memory", "lower AUTOTUNE_SYMMETRIC (and ulimit -v)");
  heaps_ = static_cast<char*>(heaps);
}

void Segment::forget(int rank, std::size_t offset, std::size_t bytes) {
  const std::size_t at = heaps_at_ + static_cast<std::size_t>(rank) * (heap_bytes_ + kHeapSkew) + offset;
  // Not madvise(MADV_REMOVE), which does the same where it is heeded: emulators take it for a hint.
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (bytes && fallocate(fd_, kHole, static_cast<off_t>(at), static_cast<off_t>(bytes)) != 0)
    fail("symmetric memory cannot be given back", "use Linux 3.5 or newer");
}

Segment::~Segment() {
  if (heaps_) munmap(heaps_, (heap_bytes_ + kHeapSkew) * static_cast<std::size_t>(n_ranks()));
  if (mirror_) munmap(mirror_, mapped_bytes_);
  munmap(base_, mapped_bytes_);
  close(fd_);
}

}  // namespace autotune
