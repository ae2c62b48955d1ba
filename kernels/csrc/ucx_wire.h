// Packets by UCX: for the networks that it knows and sockets do not, such as RoCE and InfiniBand. The contract is wire.h's.
//
// Packets to one peer may overtake each other (over several rails). TCP carries them in fragments of its own making only
// where one is larger than most_bytes(), so nobody should send larger ones. UCX's listeners take connections from anybody.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "ucx_library.h"
#include "wire.h"

namespace autotune {

class UcxWire final : public Wire {
 public:
  // `devices` as UCX_NET_DEVICES; "" for what that says, else all but the loopback. Throws Failure.
  UcxWire(const std::vector<std::string>& libraries, const std::string& devices, int n_ranks);
  ~UcxWire() override;

  std::string name() const override { return "ucx"; }
  std::string version() const override { return ucx_.version; }
  std::string library() const override { return ucx_.path; }
  std::string address() const override;
  void connect(int rank, const std::string& address, const std::string& proof_out, const std::string& proof_in) override;
  bool meet(std::chrono::milliseconds) override { return true; }  // endpoints connect when they first send
  std::vector<std::string> transports(int rank) const override;
  void send(int rank, const void* header, std::size_t header_bytes, const void* data, std::size_t bytes) override;
  std::size_t most_bytes() const override { return kFragmentBytes; }
  void abandon(int) override {}  // packets are handed over whole
  void drop_unsent(const std::string& why) override;
  bool progress(int rank) override;
  void sleep(std::chrono::milliseconds at_most) override;

 private:
  static constexpr std::size_t kFragmentBytes = 64 << 10;

  struct Peer {
    UcxWire* wire = nullptr;
    int rank = 0;
    ucx::Endpoint* endpoint = nullptr;
  };
  static ucx::Status on_message(void* self, const void* header, std::size_t header_length, void* data,
                                std::size_t length, const ucx::ReceiveParams* params);
  static void on_error(void* peer, ucx::Endpoint* endpoint, ucx::Status status);
  static void on_sent(void* request, ucx::Status status, void* peer);
  void give_up(int rank, const std::string& why);
  void close(Peer& peer);
  void check(ucx::Status status, const char* what) const;
  void set(ucx::Config* config, const char* name, const char* value) const;

  const ucx::Library& ucx_;
  ucx::Context* context_ = nullptr;
  ucx::Worker* worker_ = nullptr;
  int event_fd_ = -1;
  bool any_lost_ = false;
  std::vector<Peer> peers_;
  std::vector<void*> closing_;
};

}  // namespace autotune
