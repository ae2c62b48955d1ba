// UCX, found at run time: the few of its functions and structures that are used here, as its documented binary interface
// has them (ucp.h of UCX 1.14 and newer, whose structures only grow at their ends and say what is filled by a mask).
//
// In: names of libucp to try. Out: its functions, or a Failure that says what was tried. Nothing of UCX is needed to
// build this. UCX is kept from hooking memory calls and from handling signals: a library has no business doing so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autotune::ucx {

using Status = signed char;  // ucs_status_t is a packed enumeration
inline constexpr Status kOk = 0, kInProgress = 1, kBusy = -15;
inline constexpr std::uintptr_t kFirstErrorPointer = static_cast<std::uintptr_t>(-100);  // UCS_ERR_LAST

struct Context;
struct Worker;
struct Endpoint;
struct Config;
struct Address;

struct Params {  // ucp_params_t
  std::uint64_t field_mask, features;
  std::size_t request_size;
  void *request_init, *request_cleanup;
  std::uint64_t tag_sender_mask;
  int mt_workers_shared;
  std::size_t estimated_num_eps, estimated_num_ppn;
  const char* name;
  std::size_t node_local_id;
};
inline constexpr std::uint64_t kParamFeatures = 1, kParamEndpoints = 1 << 6;
inline constexpr std::uint64_t kFeatureWakeup = 1 << 4, kFeatureActiveMessages = 1 << 6;

struct WorkerParams {  // ucp_worker_params_t
  std::uint64_t field_mask;
  int thread_mode;
  std::uint64_t cpu_mask[16];
  unsigned events;
  void* user_data;
  int event_fd;
  std::uint64_t flags;
  const char* name;
  std::size_t am_alignment;
  std::uint64_t client_id;
};
inline constexpr std::uint64_t kWorkerThreadMode = 1, kWorkerFlags = 1 << 5;
inline constexpr int kSerialized = 1;
inline constexpr std::uint64_t kIgnoreRequestLeak = 1;

struct SocketAddress {
  const void* address;
  unsigned length;
};

using ErrorHandler = void (*)(void* argument, Endpoint*, Status);

struct EndpointParams {  // ucp_ep_params_t
  std::uint64_t field_mask;
  const Address* address;
  int error_mode;
  ErrorHandler on_error;
  void* on_error_argument;
  void* user_data;
  unsigned flags;
  SocketAddress socket;
  void* connection_request;
  const char* name;
  SocketAddress local_socket;
};
inline constexpr std::uint64_t kEndpointAddress = 1, kEndpointErrorMode = 2, kEndpointErrorHandler = 4;
inline constexpr int kErrorsOfPeers = 1;

using SendDone = void (*)(void* request, Status, void* user_data);
using ReceiveDone = void (*)(void* request, Status, std::size_t length, void* user_data);

struct RequestParams {  // ucp_request_param_t
  std::uint32_t mask;
  std::uint32_t flags;
  void* request;
  union {
    SendDone send;
    ReceiveDone receive_data;
  } done;
  std::uint64_t datatype;
  void* user_data;
  void* reply_buffer;
  int memory_type;
  void* receive_info;
  void* memory_handle;
  std::uint64_t remote_datatype;
  const void* remote;
  std::size_t remote_count;
};
inline constexpr std::uint32_t kRequestCallback = 1 << 1, kRequestUserData = 1 << 2, kRequestFlags = 1 << 4;
inline constexpr std::uint32_t kSendEager = 1 << 1, kSendCopyHeader = 1 << 3;
inline constexpr std::uint32_t kCloseForce = 1;

struct ReceiveParams {  // ucp_am_recv_param_t
  std::uint64_t attributes;
  Endpoint* reply_endpoint;
};
inline constexpr std::uint64_t kReceivedRendezvous = 1 << 17;

using OnMessage = Status (*)(void* argument, const void* header, std::size_t header_length, void* data,
                             std::size_t length, const ReceiveParams*);

struct HandlerParams {  // ucp_am_handler_param_t
  std::uint64_t field_mask;
  unsigned id;
  std::uint32_t flags;
  OnMessage handler;
  void* argument;
};
inline constexpr std::uint64_t kHandlerId = 1, kHandlerFlags = 2, kHandlerCallback = 4, kHandlerArgument = 8;
inline constexpr std::uint32_t kWholeMessages = 1;

struct TransportEntry {  // ucp_transport_entry_t
  const char *transport, *device;
};

struct EndpointAttributes {  // ucp_ep_attr_t
  std::uint64_t field_mask;
  char name[32];
  alignas(8) char local_socket[128], remote_socket[128];
  struct {
    TransportEntry* entries;
    unsigned n_entries;
    std::size_t entry_size;
  } transports;
  void* user_data;
};
inline constexpr std::uint64_t kEndpointTransports = 1 << 3;

struct Library {
  void (*get_version)(unsigned* major, unsigned* minor, unsigned* release);
  Status (*config_read)(const char* prefix, const char* file, Config**);
  Status (*config_modify)(Config*, const char* name, const char* value);
  void (*config_release)(Config*);
  Status (*init_version)(unsigned major, unsigned minor, const Params*, const Config*, Context**);
  void (*cleanup)(Context*);
  Status (*worker_create)(Context*, const WorkerParams*, Worker**);
  void (*worker_destroy)(Worker*);
  Status (*worker_get_address)(Worker*, Address**, std::size_t* length);
  void (*worker_release_address)(Worker*, Address*);
  unsigned (*worker_progress)(Worker*);
  Status (*worker_get_efd)(Worker*, int* fd);
  Status (*worker_arm)(Worker*);
  Status (*worker_set_am_recv_handler)(Worker*, const HandlerParams*);
  Status (*ep_create)(Worker*, const EndpointParams*, Endpoint**);
  void* (*ep_close_nbx)(Endpoint*, const RequestParams*);
  Status (*ep_query)(Endpoint*, EndpointAttributes*);
  void* (*am_send_nbx)(Endpoint*, unsigned id, const void* header, std::size_t header_length, const void* buffer,
                       std::size_t count, const RequestParams*);
  void* (*am_recv_data_nbx)(Worker*, void* descriptor, void* buffer, std::size_t count, const RequestParams*);
  Status (*request_check_status)(void* request);
  void (*request_free)(void* request);
  const char* (*status_string)(Status);

  std::string path, version;

  // The first of these that loads and is new enough, loaded once a process. Throws Failure.
  static const Library& load(const std::vector<std::string>& candidates);
};

inline bool is_error(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) >= kFirstErrorPointer; }
inline Status status_of(const void* pointer) { return static_cast<Status>(reinterpret_cast<std::intptr_t>(pointer)); }

}  // namespace autotune::ucx
