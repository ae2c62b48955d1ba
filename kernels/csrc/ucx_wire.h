// Packets between processes of different hosts, by UCX. The only file that sends.
//
// In: addresses of peers, packets of a header and data. Out: the peers' packets, handed to one function while progress()
// runs; which peers are lost. Knows ranks, and no more of collectives.
//
// A packet arrives whole or not at all; packets to one peer may overtake each other (over several rails). TCP carries them
// in fragments of its own making only where one is larger than most_bytes(), so nobody should send larger ones. One
// thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ucx_library.h"

namespace autotune {

class Wire {
 public:
  using Handler = std::function<void(const char* header, std::size_t header_bytes, const char* data, std::size_t bytes)>;

  // `devices` as UCX_NET_DEVICES; "" for what that says, else all but the loopback. Throws Failure.
  Wire(const std::vector<std::string>& libraries, const std::string& devices, int n_ranks);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  std::string address() const;
  const ucx::Library& library() const { return ucx_; }
  void on_packet(Handler handler) { handler_ = std::move(handler); }

  // Connects to a rank. Throws Failure where no transport reaches the address.
  void connect(int rank, const std::string& address);
  // "tcp/eth0" and the like, in UCX's order.
  std::vector<std::string> transports(int rank) const;

  // Data stays the caller's, unchanged until pending(rank) is 0; the header is copied. Does nothing for lost peers.
  void send(int rank, const void* header, std::size_t header_bytes, const void* data, std::size_t bytes);
  // Packets whose data is still needed.
  int pending(int rank) const { return peers_[static_cast<std::size_t>(rank)].pending; }
  int pending() const { return pending_; }
  static constexpr std::size_t most_bytes() { return kFragmentBytes; }

  // Sends and receives what is possible now. Returns whether anything happened.
  bool progress();
  // Waits until progress() has something to do; at most so long. `also`: another descriptor to wake for, or -1.
  void sleep(std::chrono::milliseconds at_most, int also = -1);

  bool lost(int rank) const { return !peers_[static_cast<std::size_t>(rank)].lost.empty(); }
  const std::string& why_lost(int rank) const { return peers_[static_cast<std::size_t>(rank)].lost; }
  void give_up(int rank, const std::string& why);

 private:
  static constexpr std::size_t kFragmentBytes = 64 << 10;

  struct Peer {
    Wire* wire = nullptr;
    ucx::Endpoint* endpoint = nullptr;
    int pending = 0;
    std::string lost;  // why; empty while it is there
    bool closing = false;
  };
  static ucx::Status on_message(void* self, const void* header, std::size_t header_length, void* data,
                                std::size_t length, const ucx::ReceiveParams* params);
  static void on_error(void* peer, ucx::Endpoint* endpoint, ucx::Status status);
  static void on_sent(void* request, ucx::Status status, void* peer);
  void close(Peer& peer);
  void check(ucx::Status status, const char* what) const;
  void set(ucx::Config* config, const char* name, const char* value) const;

  const ucx::Library& ucx_;
  ucx::Context* context_ = nullptr;
  ucx::Worker* worker_ = nullptr;
  int event_fd_ = -1;
  int pending_ = 0;
  bool any_lost_ = false;
  std::vector<Peer> peers_;
  std::vector<void*> closing_;
  Handler handler_;
};

}  // namespace autotune
