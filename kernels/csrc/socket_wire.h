// Packets by TCP sockets: for networks that need nothing else. The contract is wire.h's.
//
// A rank has one connection to each rank of another host, which socket_meeting.h makes and no stranger gets. While a rank
// waits for another it reads that one's socket: one call of the system finds nothing, or the whole packet. epoll tells of
// the others. A packet leaves with the call of the system that was made for it, where the system takes it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <sys/epoll.h>

#include "socket_connection.h"
#include "socket_meeting.h"
#include "wire.h"

namespace autotune {

class SocketWire final : public Wire {
 public:
  // `devices`: names of interfaces with commas between them; "" for all but the loopback. Throws Failure.
  SocketWire(const std::string& devices, int rank, int n_ranks);
  ~SocketWire() override;

  std::string name() const override { return "sockets"; }
  std::string address() const override { return meeting_.address(); }
  void connect(int rank, const std::string& address, const std::string& proof_out, const std::string& proof_in) override {
    meeting_.expect(rank_, rank, address, proof_out, proof_in);
  }
  bool meet(std::chrono::milliseconds at_most) override;
  int missing() const override { return meeting_.missing(); }
  std::string why_missing(int rank) const override { return meeting_.why_missing(rank); }
  std::uint64_t refused() const override { return meeting_.refused(); }
  std::string last_refused() const override { return meeting_.last_refused(); }
  std::vector<std::string> transports(int rank) const override;

  void send(int rank, const void* header, std::size_t header_bytes, const void* data, std::size_t bytes) override;
  std::size_t most_bytes() const override { return SocketConnection::kMostBytes; }
  void abandon(int rank) override;
  void drop_unsent(const std::string& why) override;
  bool progress(int rank) override;
  void sleep(std::chrono::milliseconds at_most) override;

 private:
  static constexpr int kEvents = 64;  // that are taken at once

  struct Peer {
    std::unique_ptr<SocketConnection> connection;
    bool waits_to_send = false;  // epoll tells when the system takes more
  };
  bool open(int rank) const;
  void settle(int rank);
  void end(int rank, const std::string& why);
  void watch(int rank, int operation, std::uint32_t events);
  bool handle_events();

  const int rank_;
  SocketMeeting meeting_;
  std::vector<Peer> peers_;
  int epoll_ = -1;
  int n_waiting_to_send_ = 0;
  std::vector<int> failing_;  // ranks to which sending failed
  epoll_event events_[kEvents] = {};
  int n_events_ = 0;  // that sleep() left
  std::vector<char> shared_;
};

}  // namespace autotune
