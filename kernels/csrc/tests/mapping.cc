// Gives all ranks that are threads one mapping of their segment. Every Group maps the segment itself; as separate
// mappings of the same pages they would run, but a thread sanitizer, which knows addresses, would see no two threads at
// one place and so no race. The linker sends the executor's mmap and munmap here (--wrap).
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <map>
#include <mutex>

#include "ranks.h"

extern "C" {
void* __real_mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* address, std::size_t length);
}

namespace autotune::test {
namespace {

struct Shared {
  ino_t inode;
  off_t offset;
  std::size_t length;
  int users;
};

std::mutex mutex;
std::map<void*, Shared> mappings;
bool sharing = false;

}  // namespace

void share_mappings(bool share) { sharing = share; }

int mappings_shared_by(int users) {
  const std::lock_guard<std::mutex> guard(mutex);
  int found = 0;
  for (const auto& [address, shared] : mappings) found += shared.users == users;
  return found;
}

extern "C" void* __wrap_mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
  struct stat status{};
  if (!sharing || !(flags & MAP_SHARED) || fstat(fd, &status) != 0)
    return __real_mmap(address, length, protection, flags, fd, offset);
  const std::lock_guard<std::mutex> guard(mutex);
  for (auto& [base, shared] : mappings)
    if (shared.inode == status.st_ino && shared.offset == offset && shared.length == length) {
      shared.users++;
      return base;
    }
  void* base = __real_mmap(address, length, protection, flags, fd, offset);
  if (base != MAP_FAILED) mappings[base] = {status.st_ino, offset, length, 1};
  return base;
}

extern "C" int __wrap_munmap(void* address, std::size_t length) {
  const std::lock_guard<std::mutex> guard(mutex);
  const auto known = mappings.find(address);
  if (known != mappings.end()) {
    if (--known->second.users > 0) return 0;
    mappings.erase(known);
  }
  return __real_munmap(address, length);
}

}  // namespace autotune::test
