// See ucx_library.h.
#include "ucx_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "failure.h"

namespace autotune::ucx {
namespace {

constexpr unsigned kMajor = 1, kMinor = 14;  // the oldest whose active messages copy their headers

// What UCX reads when it is loaded, and only then; it has no other way to be told. Set for that moment, where the user has
// not set it. (Another thread that calls getenv() just then could read a variable that is being replaced: so libraries are
// loaded while a group is made, before it has threads of its own.)
class LoadingEnvironment {
 public:
  LoadingEnvironment() {
    constexpr std::array<std::pair<const char*, const char*>, 4> kWanted{{{"UCX_MEM_EVENTS", "n"},
                                                                           {"UCX_ERROR_SIGNALS", ""},
                                                                           {"UCX_WARN_UNUSED_ENV_VARS", "n"},
                                                                           {"UCX_LOG_LEVEL", "fatal"}}};
    for (const auto& [name, value] : kWanted) {
      if (std::getenv(name)) continue;
      setenv(name, value, 1);
      set_.push_back(name);
    }
  }
  ~LoadingEnvironment() {
    for (const char* name : set_) unsetenv(name);
  }
  LoadingEnvironment(const LoadingEnvironment&) = delete;
  LoadingEnvironment& operator=(const LoadingEnvironment&) = delete;

 private:
  std::vector<const char*> set_;
};

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

bool bind(void* handle, Library& library) {
  return find(handle, "ucp_config_read", library.config_read) &&
         find(handle, "ucp_config_modify", library.config_modify) &&
         find(handle, "ucp_config_release", library.config_release) &&
         find(handle, "ucp_init_version", library.init_version) && find(handle, "ucp_cleanup", library.cleanup) &&
         find(handle, "ucp_worker_create", library.worker_create) &&
         find(handle, "ucp_worker_destroy", library.worker_destroy) &&
         find(handle, "ucp_worker_get_address", library.worker_get_address) &&
         find(handle, "ucp_worker_release_address", library.worker_release_address) &&
         find(handle, "ucp_worker_progress", library.worker_progress) &&
         find(handle, "ucp_worker_get_efd", library.worker_get_efd) &&
         find(handle, "ucp_worker_arm", library.worker_arm) &&
         find(handle, "ucp_worker_set_am_recv_handler", library.worker_set_am_recv_handler) &&
         find(handle, "ucp_ep_create", library.ep_create) && find(handle, "ucp_ep_close_nbx", library.ep_close_nbx) &&
         find(handle, "ucp_ep_query", library.ep_query) && find(handle, "ucp_am_send_nbx", library.am_send_nbx) &&
         find(handle, "ucp_am_recv_data_nbx", library.am_recv_data_nbx) &&
         find(handle, "ucp_request_check_status", library.request_check_status) &&
         find(handle, "ucp_request_free", library.request_free) &&
         find(handle, "ucs_status_string", library.status_string);  // of libucs, which libucp brings
}

// Why not, or nothing.
std::string try_to_load(const std::string& candidate, Library& library) {
  void* const handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return dlerror();
  unsigned major = 0, minor = 0, release = 0;
  std::string problem;
  if (!find(handle, "ucp_get_version", library.get_version)) {
    problem = candidate + " is not libucp";
  } else {
    library.get_version(&major, &minor, &release);
    library.version = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
    if (major != kMajor || minor < kMinor)
      problem = candidate + " is UCX " + library.version + ", not " + std::to_string(kMajor) + "." +
                std::to_string(kMinor) + " or newer";
    else if (!bind(handle, library))
      problem = candidate + ": " + dlerror();
  }
  if (!problem.empty()) return problem;  // stays loaded: UCX does not survive being unloaded
  Dl_info where{};
  library.path = dladdr(reinterpret_cast<void*>(library.get_version), &where) ? where.dli_fname : candidate;
  return "";
}

}  // namespace

const Library& Library::load(const std::vector<std::string>& candidates) {
  static std::mutex mutex;
  static std::optional<Library> loaded;
  const std::lock_guard held(mutex);
  if (loaded) return *loaded;
  const LoadingEnvironment environment;
  std::string tried;
  for (const std::string& candidate : candidates) {
    Library library{};
    const std::string problem = try_to_load(candidate, library);
    if (problem.empty()) return loaded.emplace(std::move(library));
    tried += (tried.empty() ? "" : "; ") + problem;
  }
  throw Failure("no usable UCX library: " + tried, "pip install 'mc2-autotune[ucx]', or install your system's libucp");
}

}  // namespace autotune::ucx
