// See machine.h. What is refused is what autotune.table.load refuses, and a table of another machine.
#include "machine.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>

#include "sha256.h"

namespace autotune::plugin {
namespace {

constexpr std::size_t kMaxFingerprintFile = 4096;
constexpr std::string_view kAnyMachine = "any";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// The bytes of a regular file of at most `limit`. Throws Fault. Without O_NONBLOCK, a named pipe would wait for a writer;
// through mmap, a file that somebody cuts would kill the process.
std::string read_file(const std::string& path, std::size_t limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) throw Fault(std::strerror(errno));
  struct Closed {
    int fd;
    ~Closed() { ::close(fd); }
  } closed{fd};
  struct stat facts {};
  if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) throw Fault("not a regular file");
  if (static_cast<std::size_t>(facts.st_size) > limit) throw Fault("larger than a table can be");
  std::string bytes;
  std::array<char, 1 << 16> part;
  for (;;) {
    const ssize_t n = ::read(fd, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Fault(std::strerror(errno));
    if (n == 0) return bytes;
    bytes.append(part.data(), static_cast<std::size_t>(n));
    if (bytes.size() > limit) throw Fault("larger than a table can be");
  }
}

std::string stripped(const std::string& path) {
  std::string found;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);  // of /proc, so of no size
  if (fd < 0) return found;
  std::array<char, 128> part;
  const ssize_t n = ::read(fd, part.data(), part.size());
  ::close(fd);
  if (n > 0) found.assign(part.data(), static_cast<std::size_t>(n));
  const auto first = found.find_first_not_of(" \t\r\n"), last = found.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? "" : found.substr(first, last - first + 1);
}

std::string hashed(const char* what, const std::string& value) {
  return sha256_hex(std::string("autotune ") + what + " " + value).substr(0, 32);
}

// As autotune.topology.fingerprint, cached_fingerprint: what the last probe on this machine since it started has found.
std::optional<std::string> remembered() {
  const std::string boot = stripped("/proc/sys/kernel/random/boot_id");
  std::string machine = stripped("/etc/machine-id");
  if (machine.empty()) machine = stripped("/var/lib/dbus/machine-id");
  if (machine.empty()) machine = boot;
  std::string folder = variable("AUTOTUNE_CACHE_DIR");
  if (folder.empty()) {
    const std::string base = variable("XDG_CACHE_HOME");
    folder = (base.empty() ? variable("HOME") + "/.cache" : base) + "/autotune";
  }
  const std::string machine_hash = hashed("machine", machine), boot_hash = hashed("boot", boot);
  std::string found, said_machine, said_boot;
  try {
    const std::string text = read_file(folder + "/fingerprint-" + machine_hash.substr(0, 16) + ".json", kMaxFingerprintFile);
    Json json(text);
    json.object({"schema_version", "fingerprint", "machine", "boot"}, [&](std::string_view name) {
      if (name == "schema_version") json.whole(1, 1);
      else if (name == "fingerprint") found = json.text();
      else if (name == "machine") said_machine = json.text();
      else said_boot = json.text();
    });
  } catch (const Fault&) {
    return std::nullopt;  // as a host that was never probed
  }
  if (said_machine != machine_hash || said_boot != boot_hash) return std::nullopt;
  return found;
}

std::vector<std::string> admitted() {
  const std::string text = variable("AUTOTUNE_EVIDENCE");
  std::vector<std::string> kinds;
  for (std::size_t start = 0; start <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string kind = text.substr(start, end - start);
    if (kind != "measured" && kind != "simulated" && kind != "imported")
      throw Fault("AUTOTUNE_EVIDENCE is '" + text.substr(0, 60) + "', not a list of measured, simulated, imported");
    kinds.push_back(kind);
    start = end + 1;
  }
  if (kinds.empty()) kinds.push_back("measured");
  return kinds;
}

Loaded load() {
  Loaded found;
  found.evidence = admitted();
  const std::string path = variable("AUTOTUNE_TABLE");
  if (path.empty()) throw Fault("AUTOTUNE_TABLE is not set");
  if (path.find("://") != std::string::npos) throw Fault("AUTOTUNE_TABLE is a URL, not the path of a file");
  auto table = std::make_shared<Table>();
  try {
    *table = parse_table(read_file(path, kMaxFileBytes));
  } catch (const Fault& fault) {
    throw Fault(path + ": " + fault.what());
  }
  const std::string said = variable("AUTOTUNE_FINGERPRINT");
  const std::optional<std::string> machine = said.empty() ? remembered() : std::optional(said);
  if (machine && *machine != kAnyMachine && !table->fingerprint.empty() && !table->serves(*machine))
    throw Fault(path + ": the table is of the machine " + table->fingerprint + ", and this is " + machine->substr(0, 16));
  found.words = "table " + path + ", digest " + table->digest;
  found.table = std::move(table);
  return found;
}

}  // namespace

Loaded load_table() noexcept {
  Loaded none;
  try {
    return load();
  } catch (const std::exception& fault) {  // a Fault, or no memory
    try {
      none.words = std::string("does not intervene: ") + fault.what();
    } catch (const std::exception&) {
    }
  }
  return none;
}

const Loaded& loaded() noexcept {
  static const Loaded once = load_table();
  return once;
}

}  // namespace autotune::plugin
