// Reading another process's memory through the kernel. Knows no groups.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace autotune {

// Copies `bytes` from an address in a process to `to`; 0, or an errno. A process may always read itself, unless the
// kernel has no such call or a filter forbids it.
int read_memory(pid_t process, std::uint64_t from, void* to, std::size_t bytes);

// Why this process may not read even its own memory in this way; empty where it may.
std::string own_memory_fault();

}  // namespace autotune
