// See socket_connection.h.
#include "socket_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace autotune {
namespace {

constexpr std::size_t kTogetherBytes = 1 << 10;
constexpr std::size_t kPacketsAtOnce = 16;  // of a queue, in one call of the system
constexpr int kReadsAtOnce = 16;            // from one connection, before others have their turn

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS; }

}  // namespace

SocketConnection::~SocketConnection() {
  if (fd_ >= 0) close(fd_);
}

void SocketConnection::end(const std::string& why) {
  if (!ended_.empty()) return;
  ended_ = why;
  outgoing_.clear();
  abandon();
  close(fd_);
  fd_ = -1;
}

// What the peer said before it went may still be read.
void SocketConnection::refuse_to_send(int error) {
  cannot_send_ = std::strerror(error);
  outgoing_.clear();
}

void SocketConnection::send(const void* header, std::size_t header_bytes, const void* data, std::size_t bytes) {
  if (!ended_.empty() || !cannot_send_.empty()) return;
  const Lengths lengths{static_cast<std::uint32_t>(header_bytes), static_cast<std::uint32_t>(bytes)};
  const std::size_t head = sizeof lengths + header_bytes;
  std::size_t sent = 0;
  if (outgoing_.empty()) {
    ssize_t taken = 0;
    if (head + bytes <= kTogetherBytes) {  // a list of parts would cost the system more than this copy
      char together[kTogetherBytes];
      std::memcpy(together, &lengths, sizeof lengths);
      std::memcpy(together + sizeof lengths, header, header_bytes);
      if (bytes) std::memcpy(together + head, data, bytes);
      taken = ::send(fd_, together, head + bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
      iovec parts[3] = {{const_cast<Lengths*>(&lengths), sizeof lengths},
                        {const_cast<void*>(header), header_bytes},
                        {const_cast<void*>(data), bytes}};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = 3;
      taken = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (taken < 0 && !would_block(errno)) return refuse_to_send(errno);
    if (taken > 0) sent = static_cast<std::size_t>(taken);
    if (sent == head + bytes) return;
  }
  Outgoing& rest = outgoing_.emplace_back(Outgoing{{}, static_cast<const char*>(data), bytes, sent});
  rest.head.append(reinterpret_cast<const char*>(&lengths), sizeof lengths);
  rest.head.append(static_cast<const char*>(header), header_bytes);
}

bool SocketConnection::flush() {
  bool any = false;
  while (!outgoing_.empty()) {
    std::array<iovec, 2 * kPacketsAtOnce> parts;
    std::size_t n = 0, wanted = 0;
    for (std::size_t i = 0; i < std::min(outgoing_.size(), kPacketsAtOnce); i++) {
      Outgoing& packet = outgoing_[i];
      const std::size_t head = std::min(packet.sent, packet.head.size()), data = packet.sent - head;
      if (head < packet.head.size()) parts[n++] = {packet.head.data() + head, packet.head.size() - head};
      if (data < packet.bytes) parts[n++] = {const_cast<char*>(packet.data) + data, packet.bytes - data};
      wanted += packet.head.size() + packet.bytes - packet.sent;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = n;
    const ssize_t taken = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) {
      if (!would_block(errno)) refuse_to_send(errno);
      return any;
    }
    any = any || taken > 0;
    auto left = static_cast<std::size_t>(taken);
    while (!outgoing_.empty()) {
      Outgoing& packet = outgoing_.front();
      const std::size_t rest = packet.head.size() + packet.bytes - packet.sent;
      if (left < rest) {
        packet.sent += left;
        break;
      }
      left -= rest;
      outgoing_.pop_front();
    }
    if (static_cast<std::size_t>(taken) < wanted) return any;
  }
  return any;
}

bool SocketConnection::receive(char* shared, Wire::Taker* taker) {
  bool any = false;
  for (int turn = 0; turn < kReadsAtOnce && ended_.empty(); turn++) {
    // What is thrown away goes to the shared buffer, too.
    const bool placed = arriving_ && room_;
    const std::size_t missing = placed ? bytes_ - got_ : 0;
    ssize_t taken = 0;
    if (placed) {
      iovec parts[2] = {{room_ + got_, missing}, {shared, kReadBytes}};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      taken = recvmsg(fd_, &message, MSG_DONTWAIT);
    } else {
      taken = recv(fd_, shared, kReadBytes, MSG_DONTWAIT);
    }
    if (taken == 0) {
      end("it closed the connection");
      return any;
    }
    if (taken < 0) {
      if (!would_block(errno)) end(std::strerror(errno));
      return any;
    }
    any = true;
    const auto bytes = static_cast<std::size_t>(taken), straight = std::min(bytes, missing);
    const bool all = bytes < missing + kReadBytes;
    got_ += straight;
    if (placed && got_ == bytes_) arrived(taker);
    if (bytes > straight && !take_from(shared, bytes - straight, taker)) {
      end("it sent what is no packet");
      return any;
    }
    if (all) break;
  }
  return any;
}

// Lengths and header are here; the data begins.
void SocketConnection::begin(std::string header, std::size_t bytes, Wire::Taker* taker) {
  header_ = std::move(header);
  bytes_ = bytes, got_ = 0;
  arriving_ = true;
  room_ = taker ? taker->room(header_.data(), header_.size(), bytes) : nullptr;
  if (room_ || !taker) return;
  // Never empty, and so never null: a packet without data would be thrown away.
  if (staging_.size() < std::max<std::size_t>(bytes, 1)) staging_.resize(std::max<std::size_t>(bytes, 1));
  room_ = staging_.data();
}

void SocketConnection::arrived(Wire::Taker* taker) {
  arriving_ = false;
  if (taker && room_) taker->take(header_.data(), header_.size(), room_, bytes_);
  room_ = nullptr;
}

void SocketConnection::abandon() {
  if (arriving_ && room_ != staging_.data()) room_ = nullptr;
}

// Returns false where it cannot be packets.
bool SocketConnection::take_from(const char* at, std::size_t left, Wire::Taker* taker) {
  Lengths lengths{};
  while (left) {
    if (arriving_) {
      const std::size_t more = std::min(left, bytes_ - got_);
      if (room_) std::memcpy(room_ + got_, at, more);
      got_ += more, at += more, left -= more;
      if (got_ == bytes_) arrived(taker);
      continue;
    }
    if (partial_.empty() && left >= sizeof lengths) {
      std::memcpy(&lengths, at, sizeof lengths);
      if (!possible(lengths)) return false;
      const char* const header = at + sizeof lengths;
      const std::size_t head = sizeof lengths + lengths.header;
      if (left >= head + lengths.data) {
        if (taker) taker->take(header, lengths.header, header + lengths.header, lengths.data);
        at += head + lengths.data, left -= head + lengths.data;
        continue;
      }
      if (left >= head) {
        begin(std::string(header, lengths.header), lengths.data, taker);
        at += head, left -= head;
        continue;
      }
    }
    const std::size_t wanted = partial_.size() < sizeof lengths ? sizeof lengths : wanted_;
    const std::size_t more = std::min(left, wanted - partial_.size());
    partial_.append(at, more);
    at += more, left -= more;
    if (partial_.size() < wanted) continue;
    std::memcpy(&lengths, partial_.data(), sizeof lengths);
    if (!possible(lengths)) return false;
    wanted_ = sizeof lengths + lengths.header;
    if (partial_.size() < wanted_) continue;
    begin(partial_.substr(sizeof lengths), lengths.data, taker);
    partial_.clear();
    if (bytes_ == 0) arrived(taker);
  }
  return true;
}

}  // namespace autotune
