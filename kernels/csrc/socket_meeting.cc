// See socket_meeting.h.
#include "socket_meeting.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "failure.h"
#include "same_secret.h"

namespace autotune {
namespace {

constexpr char kMagic[8] = {'a', 'u', 't', 'o', 't', 'u', 'n', '1'};
constexpr char kTaken = '!';
constexpr auto kTry = std::chrono::seconds(4);            // of one address: a lost SYN is sent again after 1 and 3 s
constexpr auto kPause = std::chrono::milliseconds(200);   // before a rank is tried anew
constexpr auto kStrangerHas = std::chrono::seconds(5);    // to say who he is
constexpr std::size_t kMostStrangers = 256;
constexpr int kBacklog = 1024;

std::string reason(int error) { return std::strerror(error); }

// Small messages are not held back, and a host that has gone is noticed while nothing is sent.
void set_up(int fd) {
  const int on = 1, idle_s = 10, interval_s = 5, probes = 6;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

// Takes what is there of a first message. Returns why it will never be whole; "" while it may.
template <class Message>
std::string read_some(int fd, Message& message, std::size_t& got) {
  const ssize_t more = recv(fd, reinterpret_cast<char*>(&message) + got, sizeof message - got, 0);
  if (more > 0) got += static_cast<std::size_t>(more);
  else if (more == 0) return "it closed the connection";
  else if (errno != EAGAIN && errno != EINTR) return reason(errno);
  return "";
}

}  // namespace

SocketMeeting::SocketMeeting(std::vector<Interface> own) : own_(std::move(own)) {
  try {
    for (const Interface& interface : own_) listen_on(interface);
  } catch (...) {
    stop_listening();
    throw;
  }
}

SocketMeeting::~SocketMeeting() {
  stop_listening();
  for (const Peer& peer : peers_)
    if (peer.fd >= 0) close(peer.fd);
  for (const Stranger& stranger : strangers_) close(stranger.fd);
}

void SocketMeeting::listen_on(const Interface& interface) {
  const int fd = socket(interface.place.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  SocketPlace bound = interface.place;
  const auto address = reinterpret_cast<sockaddr*>(&bound.address);
  if (fd < 0 || bind(fd, address, bound.length) != 0 || listen(fd, kBacklog) != 0 ||
      getsockname(fd, address, &bound.length) != 0) {
    const std::string why = reason(errno);
    if (fd >= 0) close(fd);
    throw Failure("listening on " + interface.name + " at " + interface.place.words() + ": " + why,
                  "choose interfaces with AUTOTUNE_NET_DEVICES");
  }
  listeners_.emplace_back(fd, bound);
}

void SocketMeeting::stop_listening() {
  for (const auto& [fd, place] : listeners_) close(fd);
  listeners_.clear();
}

std::string SocketMeeting::address() const {
  std::vector<SocketPlace> places;
  for (const auto& [fd, place] : listeners_) places.push_back(place);
  return told(places);
}

void SocketMeeting::expect(int mine, int peer, const std::string& address, const std::string& proof_out,
                           const std::string& proof_in) {
  mine_ = mine;
  std::vector<Route> found = routes(address, own_);
  if (found.empty())
    throw Failure("rank " + std::to_string(peer) + " told no address", "start all ranks with the same version of autotune");
  if (peer < mine) found.clear();
  peers_.push_back({peer, std::move(found), proof_out, proof_in, 0, Stage::Idle, -1, {}, {}, 0, ""});
}

SocketMeeting::Hello SocketMeeting::hello(const Peer& peer) const {
  Hello hello{};
  std::memcpy(hello.magic, kMagic, sizeof kMagic);
  hello.from = static_cast<std::uint32_t>(mine_);
  hello.to = static_cast<std::uint32_t>(peer.rank);
  std::memcpy(hello.proof, peer.out.data(), kProofBytes);
  return hello;
}

void SocketMeeting::start(Peer& peer) {
  const Route& route = peer.routes[peer.route];
  peer.got = 0;
  peer.until = Clock::now() + kTry;
  peer.fd = socket(route.to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (peer.fd < 0) return fail(peer, reason(errno));
  set_up(peer.fd);
  if (route.from.length && bind(peer.fd, reinterpret_cast<const sockaddr*>(&route.from.address), route.from.length) != 0)
    return fail(peer, reason(errno));
  peer.stage = Stage::Connecting;
  if (::connect(peer.fd, reinterpret_cast<const sockaddr*>(&route.to.address), route.to.length) != 0 &&
      errno != EINPROGRESS)
    fail(peer, reason(errno));
}

void SocketMeeting::fail(Peer& peer, const std::string& why) {
  if (peer.fd >= 0) close(peer.fd);
  peer.fd = -1;
  peer.stage = Stage::Idle;
  peer.why = peer.routes[peer.route].to.words() + ": " + why;
  peer.route = (peer.route + 1) % peer.routes.size();
  peer.until = Clock::now() + (peer.route == 0 ? kPause : std::chrono::milliseconds(0));
}

void SocketMeeting::advance(Peer& peer, std::vector<Met>& met) {
  if (peer.stage == Stage::Connecting) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(peer.fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) return fail(peer, reason(error));
    const Hello first = hello(peer);  // fits an empty buffer
    if (::send(peer.fd, &first, sizeof first, MSG_NOSIGNAL) != sizeof first) return fail(peer, reason(errno));
    peer.stage = Stage::Asked;
    return;
  }
  const std::string why = read_some(peer.fd, peer.heard, peer.got);
  if (!why.empty()) return fail(peer, why);
  if (peer.got < sizeof peer.heard) return;
  if (std::memcmp(peer.heard.magic, kMagic, sizeof kMagic) != 0 ||
      peer.heard.from != static_cast<std::uint32_t>(peer.rank) || peer.heard.to != static_cast<std::uint32_t>(mine_) ||
      !same_secret(peer.heard.proof, peer.in.data(), kProofBytes))
    return fail(peer, "who answers there does not prove the run's secret");
  if (::send(peer.fd, &kTaken, 1, MSG_NOSIGNAL) != 1) return fail(peer, reason(errno));
  met.push_back({peer.rank, std::exchange(peer.fd, -1)});
}

void SocketMeeting::accept_from(int listener) {
  while (true) {
    SocketPlace from;
    from.length = sizeof from.address;
    const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&from.address), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
      throw Failure("connections to ranks of other hosts: " + reason(errno), "raise the limit of open files: ulimit -n 65536");
    if (fd < 0) return;
    if (strangers_.size() == kMostStrangers) {
      refuse(strangers_.front());
      strangers_.erase(strangers_.begin());
    }
    set_up(fd);
    strangers_.push_back({fd, from.words(), Clock::now() + kStrangerHas});
  }
}

void SocketMeeting::refuse(const Stranger& stranger) {
  close(stranger.fd);
  refused_++;
  last_refused_ = stranger.from;
}

// The peer that says so and proves it; null for none.
const SocketMeeting::Peer* SocketMeeting::proved(const Hello& heard) const {
  if (std::memcmp(heard.magic, kMagic, sizeof kMagic) != 0 || heard.to != static_cast<std::uint32_t>(mine_)) return nullptr;
  for (const Peer& peer : peers_)
    if (peer.routes.empty() && static_cast<std::uint32_t>(peer.rank) == heard.from)
      return same_secret(heard.proof, peer.in.data(), kProofBytes) ? &peer : nullptr;
  return nullptr;
}

// Returns whether it is a stranger still.
bool SocketMeeting::advance(Stranger& stranger, std::vector<Met>& met) {
  if (stranger.rank < 0) {
    const std::string why = read_some(stranger.fd, stranger.heard, stranger.got);
    if (why.empty() && stranger.got < sizeof stranger.heard) return true;
    const Peer* const peer = why.empty() ? proved(stranger.heard) : nullptr;
    if (peer) {
      const Hello answer = hello(*peer);
      stranger.rank = peer->rank;
      if (::send(stranger.fd, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer) return true;
    }
    refuse(stranger);
    return false;
  }
  char taken = 0;
  std::size_t got = 0;
  const std::string why = read_some(stranger.fd, taken, got);
  if (why.empty() && got == 0) return true;
  const auto is_met = [&](const Met& other) { return other.rank == stranger.rank; };
  if (taken != kTaken || std::any_of(met.begin(), met.end(), is_met)) {
    close(stranger.fd);  // gave up, and will come again; or has come
    return false;
  }
  met.push_back({stranger.rank, stranger.fd});
  return false;
}

void SocketMeeting::forget_met(const std::vector<Met>& met) {
  std::erase_if(peers_, [&](const Peer& peer) {
    return std::any_of(met.begin(), met.end(), [&](const Met& m) { return m.rank == peer.rank; });
  });
}

void SocketMeeting::finish() {
  stop_listening();
  for (const Stranger& stranger : strangers_) refuse(stranger);
  strangers_.clear();
}

std::vector<SocketMeeting::Met> SocketMeeting::step(std::chrono::milliseconds at_most) {
  std::vector<Met> met;
  const Clock::time_point end = Clock::now() + at_most;
  while (met.empty() && !peers_.empty()) {
    Clock::time_point next = end;
    std::vector<pollfd> entries;
    for (Peer& peer : peers_) {
      if (!peer.routes.empty() && peer.stage == Stage::Idle && Clock::now() >= peer.until) start(peer);
      if (!peer.routes.empty()) next = std::min(next, peer.until);
      entries.push_back({peer.fd, static_cast<short>(peer.stage == Stage::Connecting ? POLLOUT : POLLIN), 0});
    }
    for (const Stranger& stranger : strangers_) {
      entries.push_back({stranger.fd, POLLIN, 0});
      next = std::min(next, stranger.until);
    }
    for (const auto& [fd, place] : listeners_) entries.push_back({fd, POLLIN, 0});
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    poll(entries.data(), entries.size(), static_cast<int>(std::max<std::int64_t>(0, wait.count())));

    std::size_t at = 0;
    const Clock::time_point now = Clock::now();
    for (Peer& peer : peers_) {
      const bool ready = entries[at++].revents != 0;
      if (peer.fd < 0) continue;
      if (ready) advance(peer, met);
      else if (now >= peer.until) fail(peer, "no answer");
    }
    std::erase_if(strangers_, [&](Stranger& stranger) {
      if (entries[at++].revents != 0) return !advance(stranger, met);
      if (now < stranger.until) return false;
      refuse(stranger);
      return true;
    });
    for (const auto& [fd, place] : listeners_)
      if (entries[at++].revents != 0) accept_from(fd);
    forget_met(met);
    if (now >= end) break;
  }
  return met;
}

std::string SocketMeeting::why_missing(int rank) const {
  for (const Peer& peer : peers_) {
    if (peer.rank != rank) continue;
    if (peer.routes.empty()) return "it has not connected to this rank";
    return peer.why.empty() ? peer.routes[peer.route].to.words() + ": no answer yet" : peer.why;
  }
  return "";
}

}  // namespace autotune
