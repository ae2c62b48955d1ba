// See ucx_wire.h.
#include "ucx_wire.h"

#include <poll.h>

#include <cstdlib>

#include "failure.h"

namespace autotune {
namespace {

constexpr unsigned kPacketId = 1;
constexpr const char* kRemedy = "run `autotune doctor`, or choose interfaces with AUTOTUNE_NET_DEVICES";

// What differs from UCX's defaults, where the user's environment does not say it (UCX_...).
// TLS: ranks of one host share memory without UCX, and nobody's accelerators are to be woken.
// NET_DEVICES: another namespace of this machine looks to UCX as if it were reached through the loopback.
// TCP_PUT_ENABLE: otherwise whoever can reach the port could write anywhere in this process.
// TCP_CONN_NB: a host that does not answer must not stop this rank for minutes.
// TCP_RX_SEG_SIZE: of several packets, which so come in one call of the system.
constexpr const char* kSettings[][2] = {{"TLS", "^shm,cuda,rocm,ze,gaudi"},
                                        {"NET_DEVICES", "^lo"},
                                        {"TCP_PUT_ENABLE", "n"},
                                        {"TCP_CONN_NB", "y"},
                                        {"TCP_RX_SEG_SIZE", "256k"},
                                        {"KEEPALIVE_INTERVAL", "5s"}};

}  // namespace

void UcxWire::check(ucx::Status status, const char* what) const {
  if (status != ucx::kOk)
    throw Failure(std::string("UCX ") + ucx_.version + ": " + what + ": " + ucx_.status_string(status), kRemedy);
}

void UcxWire::set(ucx::Config* config, const char* name, const char* value) const {
  if (std::getenv((std::string("UCX_") + name).c_str())) return;
  check(ucx_.config_modify(config, name, value), name);
}

UcxWire::UcxWire(const std::vector<std::string>& libraries, const std::string& devices, int n_ranks)
    : Wire(n_ranks), ucx_(ucx::Library::load(libraries)), peers_(static_cast<std::size_t>(n_ranks)) {
  for (int rank = 0; rank < n_ranks; rank++) peers_[static_cast<std::size_t>(rank)] = {this, rank, nullptr};
  ucx::Config* config = nullptr;
  check(ucx_.config_read(nullptr, nullptr, &config), "reading the settings");
  try {
    for (const auto& [name, value] : kSettings) set(config, name, value);
    if (!devices.empty()) check(ucx_.config_modify(config, "NET_DEVICES", devices.c_str()), "NET_DEVICES");
    ucx::Params params{};
    params.field_mask = ucx::kParamFeatures | ucx::kParamEndpoints;
    params.features = ucx::kFeatureActiveMessages | ucx::kFeatureWakeup;
    params.estimated_num_eps = static_cast<std::size_t>(n_ranks);
    check(ucx_.init_version(1, 14, &params, config, &context_), "opening the network");
  } catch (...) {
    ucx_.config_release(config);
    throw;
  }
  ucx_.config_release(config);
  try {
    ucx::WorkerParams params{};
    params.field_mask = ucx::kWorkerThreadMode | ucx::kWorkerFlags;
    params.thread_mode = ucx::kSerialized;
    params.flags = ucx::kIgnoreRequestLeak;
    check(ucx_.worker_create(context_, &params, &worker_), "starting");
    check(ucx_.worker_get_efd(worker_, &event_fd_), "waiting by events");
    ucx::HandlerParams handler{};
    handler.field_mask = ucx::kHandlerId | ucx::kHandlerFlags | ucx::kHandlerCallback | ucx::kHandlerArgument;
    handler.id = kPacketId;
    handler.flags = ucx::kWholeMessages;
    handler.handler = on_message;
    handler.argument = this;
    check(ucx_.worker_set_am_recv_handler(worker_, &handler), "receiving");
  } catch (...) {
    if (worker_) ucx_.worker_destroy(worker_);
    ucx_.cleanup(context_);
    throw;
  }
}

UcxWire::~UcxWire() {
  deliver_to(nullptr);  // what it would write to may be gone
  for (Peer& peer : peers_) close(peer);
  for (int turn = 0; !closing_.empty() && turn < 10'000; turn++) UcxWire::progress(-1);
  ucx_.worker_destroy(worker_);
  ucx_.cleanup(context_);
}

std::string UcxWire::address() const {
  ucx::Address* address = nullptr;
  std::size_t length = 0;
  check(ucx_.worker_get_address(worker_, &address, &length), "asking for this rank's address");
  std::string bytes(reinterpret_cast<const char*>(address), length);
  ucx_.worker_release_address(worker_, address);
  return bytes;
}

// The proofs are told by packets (network.h): UCX does not say who connects.
void UcxWire::connect(int rank, const std::string& address, const std::string&, const std::string&) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  ucx::EndpointParams params{};
  params.field_mask = ucx::kEndpointAddress | ucx::kEndpointErrorMode | ucx::kEndpointErrorHandler;
  params.address = reinterpret_cast<const ucx::Address*>(address.data());
  params.error_mode = ucx::kErrorsOfPeers;
  params.on_error = on_error;
  params.on_error_argument = &peer;
  const ucx::Status status = ucx_.ep_create(worker_, &params, &peer.endpoint);
  if (status != ucx::kOk)
    throw Failure("no transport of UCX " + ucx_.version + " reaches rank " + std::to_string(rank) + ": " +
                      ucx_.status_string(status),
                  kRemedy);
}

std::vector<std::string> UcxWire::transports(int rank) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (!peer.endpoint) return {};
  ucx::TransportEntry entries[8]{};
  ucx::EndpointAttributes attributes{};
  attributes.field_mask = ucx::kEndpointTransports;
  attributes.transports = {entries, 8, sizeof entries[0]};
  std::vector<std::string> found;
  if (ucx_.ep_query(peer.endpoint, &attributes) != ucx::kOk) return found;
  for (unsigned i = 0; i < attributes.transports.n_entries; i++)
    found.push_back(std::string(entries[i].transport) + "/" + entries[i].device);
  return found;
}

void UcxWire::send(int rank, const void* header, std::size_t header_bytes, const void* data, std::size_t bytes) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (!peer.endpoint || lost(rank)) return;
  ucx::RequestParams params{};
  params.mask = ucx::kRequestCallback | ucx::kRequestUserData | ucx::kRequestFlags;
  params.flags = ucx::kSendCopyHeader | ucx::kSendEager;
  params.done.send = on_sent;
  params.user_data = &peer;
  void* const request = ucx_.am_send_nbx(peer.endpoint, kPacketId, header, header_bytes, data, bytes, &params);
  if (ucx::is_error(request)) {
    give_up(rank, ucx_.status_string(ucx::status_of(request)));
  } else if (request) {
    add_pending(rank, 1);
  }
}

void UcxWire::on_sent(void* request, ucx::Status, void* argument) {
  Peer& peer = *static_cast<Peer*>(argument);  // how it ended is told by on_error
  peer.wire->add_pending(peer.rank, -1);
  peer.wire->ucx_.request_free(request);
}

void UcxWire::on_error(void* argument, ucx::Endpoint*, ucx::Status status) {
  Peer& peer = *static_cast<Peer*>(argument);
  peer.wire->give_up(peer.rank, peer.wire->ucx_.status_string(status));
}

void UcxWire::give_up(int rank, const std::string& why) {
  note_lost(rank, why);
  any_lost_ = true;
}

ucx::Status UcxWire::on_message(void* self, const void* header, std::size_t header_length, void* data, std::size_t length,
                                const ucx::ReceiveParams* params) {
  const UcxWire& wire = *static_cast<UcxWire*>(self);
  // Nobody of ours asks before it sends, so this is somebody else, who is not answered.
  if (params->attributes & ucx::kReceivedRendezvous) return ucx::kOk;
  if (wire.taker())
    wire.taker()->take(static_cast<const char*>(header), header_length, static_cast<const char*>(data), length);
  return ucx::kOk;
}

bool UcxWire::progress(int) {
  const bool busy = ucx_.worker_progress(worker_) != 0;
  if (any_lost_) [[unlikely]] {
    any_lost_ = false;
    for (Peer& peer : peers_)
      if (lost(peer.rank)) close(peer);
  }
  if (!closing_.empty()) [[unlikely]]
    std::erase_if(closing_, [&](void* request) {
      if (ucx_.request_check_status(request) == ucx::kInProgress) return false;
      ucx_.request_free(request);
      return true;
    });
  return busy;
}

void UcxWire::drop_unsent(const std::string& why) {
  for (const Peer& peer : peers_)
    if (pending(peer.rank)) give_up(peer.rank, why);
  for (int turn = 0; pending() && turn < 10'000; turn++) UcxWire::progress(-1);
}

// By force: what was sent before has been taken by the system, or the peer is lost.
void UcxWire::close(Peer& peer) {
  if (!peer.endpoint) return;
  ucx::RequestParams params{};
  params.mask = ucx::kRequestFlags;
  params.flags = ucx::kCloseForce;
  void* const request = ucx_.ep_close_nbx(peer.endpoint, &params);
  peer.endpoint = nullptr;
  if (request && !ucx::is_error(request)) closing_.push_back(request);
}

void UcxWire::sleep(std::chrono::milliseconds at_most) {
  if (ucx_.worker_arm(worker_) != ucx::kOk) return;  // busy: there is something to do already
  pollfd entry{event_fd_, POLLIN, 0};
  poll(&entry, 1, static_cast<int>(at_most.count()));
}

}  // namespace autotune
