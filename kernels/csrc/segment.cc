// Creation and mapping of the shared segment; see segment.h.
#include "segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "failure.h"

namespace autotune {
namespace {

struct Offsets {
  std::size_t lines, headers, outboxes, channels, total;
};

std::size_t page_aligned(std::size_t bytes) { return (bytes + 4095) & ~std::size_t{4095}; }

Offsets offsets(std::size_t n, std::size_t half_bytes) {
  Offsets at{};
  at.lines = page_aligned(sizeof(GroupHeader));
  at.headers = at.lines + page_aligned(n * sizeof(RankLine));
  at.outboxes = at.headers + page_aligned(n * 2 * kSlots * sizeof(Header));
  at.channels = at.outboxes + n * 2 * half_bytes;
  at.total = at.channels + n * n * sizeof(Channel);
  return at;
}

[[noreturn]] void fail(const std::string& what, const std::string& remedy) {
  throw Failure("shared segment: " + what + ": " + std::strerror(errno), remedy);
}

constexpr const char* kMemoryRemedy = "check the memory limit of the container (autotune doctor)";

}  // namespace

int Segment::create(int n_ranks, std::size_t staging_bytes) {
  if (n_ranks < 1 || n_ranks > kMaxRanks)
    throw BadArgument("n_ranks is " + std::to_string(n_ranks), "give a number of ranks from 1 to 1024");
  const std::size_t half_bytes = page_aligned(staging_bytes / 2);
  const Offsets at = offsets(static_cast<std::size_t>(n_ranks), half_bytes);
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

Segment::Segment(int fd) {
  constexpr const char* kRemedy = "hand on the descriptor that create_segment() returned, to ranks of the same version";
  struct stat status{};
  if (fstat(fd, &status) != 0) fail("descriptor " + std::to_string(fd), kRemedy);
  total_bytes_ = static_cast<std::size_t>(status.st_size);
  if (total_bytes_ < sizeof(GroupHeader)) throw Failure("shared segment: the descriptor is not one of ours", kRemedy);
  void* base = mmap(nullptr, total_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) fail("mmap of " + std::to_string(total_bytes_) + " bytes", kMemoryRemedy);
  base_ = static_cast<char*>(base);
  const GroupHeader& header = group();
  const bool ours = header.magic == kMagic && header.version == kLayoutVersion && header.n_ranks >= 1 &&
                    header.n_ranks <= kMaxRanks && header.total_bytes == total_bytes_ &&
                    header.half_bytes < total_bytes_ &&
                    offsets(header.n_ranks, header.half_bytes).total == total_bytes_;
  if (!ours) {
    munmap(base_, total_bytes_);
    throw Failure("shared segment: made by another version of autotune, or not by autotune", kRemedy);
  }
  half_bytes_ = header.half_bytes;
  const Offsets at = offsets(header.n_ranks, half_bytes_);
  lines_ = reinterpret_cast<RankLine*>(base_ + at.lines);
  headers_ = reinterpret_cast<Header*>(base_ + at.headers);
  outboxes_ = base_ + at.outboxes;
  channels_ = reinterpret_cast<Channel*>(base_ + at.channels);
}

Segment::~Segment() { munmap(base_, total_bytes_); }

}  // namespace autotune
