// One TCP connection to a rank: packets in both directions, as much as the system takes and has at the moment.
//
// In: packets; what is read. Out: packets, to a taker. Never waits, and knows no other connection.
//
// On the wire a packet is two lengths, its header, its data. A packet that the system does not take at once keeps its header
// here and its data where the caller has it; several go in one call of the system. What arrives is read into a buffer that
// all connections share, packets from there; the rest of a packet that is larger goes straight to its room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "wire.h"

namespace autotune {

class SocketConnection {
 public:
  static constexpr std::size_t kMostHeaderBytes = Wire::kMostHeaderBytes;
  static constexpr std::size_t kMostBytes = 512 << 10;  // of a packet's data
  static constexpr std::size_t kReadBytes = 9 << 10;    // of the shared buffer: what is copied of a large packet

  explicit SocketConnection(int fd) : fd_(fd) {}
  ~SocketConnection();
  SocketConnection(const SocketConnection&) = delete;
  SocketConnection& operator=(const SocketConnection&) = delete;

  int fd() const { return fd_; }
  // Packets whose data is still needed.
  int queued() const { return static_cast<int>(outgoing_.size()); }
  void send(const void* header, std::size_t header_bytes, const void* data, std::size_t bytes);
  // Sends of the queue what the system takes. Returns whether it took anything.
  bool flush();
  // Reads what is there. Returns whether anything was.
  bool receive(char* shared, Wire::Taker* taker);
  // The room of the packet that is arriving goes.
  void abandon();

  // Why it has ended; "" while it has not. A connection that cannot send may still have something to read.
  const std::string& ended() const { return ended_; }
  const std::string& cannot_send() const { return cannot_send_; }
  void end(const std::string& why);

 private:
  struct Lengths {
    std::uint32_t header, data;
  };
  struct Outgoing {
    std::string head;  // lengths and header
    const char* data;
    std::size_t bytes;
    std::size_t sent;  // of both
  };
  static bool possible(const Lengths& lengths) {
    return lengths.header > 0 && lengths.header <= kMostHeaderBytes && lengths.data <= kMostBytes;
  }
  void refuse_to_send(int error);
  void begin(std::string header, std::size_t bytes, Wire::Taker* taker);
  bool take_from(const char* at, std::size_t bytes, Wire::Taker* taker);
  void arrived(Wire::Taker* taker);

  int fd_;
  std::deque<Outgoing> outgoing_;
  std::string ended_, cannot_send_;

  std::string partial_;     // the beginning of a packet whose data has not begun
  std::size_t wanted_ = 0;  // bytes of its lengths and header, once the lengths are there
  // The packet whose data is arriving:
  bool arriving_ = false;
  std::string header_;
  char* room_ = nullptr;      // the taker's, or staging_; null to throw it away
  std::size_t bytes_ = 0, got_ = 0;
  std::vector<char> staging_;
};

}  // namespace autotune
