// See socket_wire.h.
#include "socket_wire.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "failure.h"

namespace autotune {

SocketWire::SocketWire(const std::string& devices, int rank, int n_ranks)
    : Wire(n_ranks),
      rank_(rank),
      meeting_(interfaces(devices)),
      peers_(static_cast<std::size_t>(n_ranks)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      shared_(SocketConnection::kReadBytes) {
  if (epoll_ < 0) throw Failure(std::string("epoll: ") + std::strerror(errno), "raise the limit of open files (ulimit -n)");
}

SocketWire::~SocketWire() { close(epoll_); }

bool SocketWire::open(int rank) const {
  const auto& connection = peers_[static_cast<std::size_t>(rank)].connection;
  return connection && connection->ended().empty();
}

bool SocketWire::meet(std::chrono::milliseconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (missing() >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    for (const auto& [rank, fd] : meeting_.step(left)) {
      peers_[static_cast<std::size_t>(rank)].connection = std::make_unique<SocketConnection>(fd);
      watch(rank, EPOLL_CTL_ADD, EPOLLIN);
    }
  }
  meeting_.finish();
  return true;
}

std::vector<std::string> SocketWire::transports(int rank) const {
  if (!open(rank)) return {};
  SocketPlace place;
  place.length = sizeof place.address;
  getsockname(peers_[static_cast<std::size_t>(rank)].connection->fd(), reinterpret_cast<sockaddr*>(&place.address),
              &place.length);
  return {"sockets/" + interface_of(place, meeting_.own())};
}

void SocketWire::watch(int rank, int operation, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = static_cast<std::uint32_t>(rank);
  if (epoll_ctl(epoll_, operation, peers_[static_cast<std::size_t>(rank)].connection->fd(), &event) != 0)
    throw Failure(std::string("epoll: ") + std::strerror(errno), "raise fs.epoll.max_user_watches");
}

void SocketWire::send(int rank, const void* header, std::size_t header_bytes, const void* data, std::size_t bytes) {
  if (!open(rank)) return;
  SocketConnection& connection = *peers_[static_cast<std::size_t>(rank)].connection;
  const int before = connection.queued();
  connection.send(header, header_bytes, data, bytes);
  if (connection.queued() != before) add_pending(rank, connection.queued() - before);
  if (!connection.cannot_send().empty()) [[unlikely]] failing_.push_back(rank);
  else if (connection.queued()) settle(rank);
}

// What follows from the state of a connection, after something was done with it.
void SocketWire::settle(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  SocketConnection& connection = *peer.connection;
  if (connection.queued() != pending(rank)) add_pending(rank, connection.queued() - pending(rank));
  if (!connection.cannot_send().empty()) connection.end(connection.cannot_send());
  if (!connection.ended().empty()) {
    if (peer.waits_to_send) n_waiting_to_send_--;
    peer.waits_to_send = false;
    note_lost(rank, connection.ended());
    return;
  }
  const bool waits = connection.queued() != 0;
  if (waits == peer.waits_to_send) return;
  peer.waits_to_send = waits;
  n_waiting_to_send_ += waits ? 1 : -1;
  watch(rank, EPOLL_CTL_MOD, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void SocketWire::end(int rank, const std::string& why) {
  peers_[static_cast<std::size_t>(rank)].connection->end(why);
  settle(rank);
}

void SocketWire::abandon(int rank) {
  if (open(rank)) peers_[static_cast<std::size_t>(rank)].connection->abandon();
}

void SocketWire::drop_unsent(const std::string& why) {
  for (int rank = 0; rank < n_ranks(); rank++)
    if (pending(rank)) end(rank, why);
}

bool SocketWire::handle_events() {
  bool busy = false;
  const int n = std::exchange(n_events_, 0);
  for (int i = 0; i < n; i++) {
    const int rank = static_cast<int>(events_[i].data.u32);
    if (!open(rank)) continue;
    SocketConnection& connection = *peers_[static_cast<std::size_t>(rank)].connection;
    if (events_[i].events & EPOLLOUT) busy = connection.flush() || busy;
    if (events_[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) busy = connection.receive(shared_.data(), taker()) || busy;
    settle(rank);
  }
  return busy;
}

bool SocketWire::progress(int rank) {
  if (!failing_.empty()) [[unlikely]] {
    for (int failing : std::exchange(failing_, {})) {
      if (!open(failing)) continue;
      peers_[static_cast<std::size_t>(failing)].connection->receive(shared_.data(), taker());  // its last words
      settle(failing);
    }
    return true;
  }
  if (rank >= 0 && n_waiting_to_send_ == 0 && n_events_ == 0 && open(rank)) {
    SocketConnection& connection = *peers_[static_cast<std::size_t>(rank)].connection;
    const bool busy = connection.receive(shared_.data(), taker());
    if (!connection.ended().empty()) [[unlikely]] settle(rank);
    return busy;
  }
  if (n_events_ == 0) n_events_ = std::max(0, epoll_wait(epoll_, events_, kEvents, 0));
  return handle_events();
}

void SocketWire::sleep(std::chrono::milliseconds at_most) {
  if (!failing_.empty() || n_events_) return;
  n_events_ = std::max(0, epoll_wait(epoll_, events_, kEvents, static_cast<int>(at_most.count())));
}

}  // namespace autotune
