// What is said to ranks of other hosts, from the first greeting to the last words; see network.h. network_arrivals.cc takes
// what they say.
#include "network.h"

#include <algorithm>
#include <cstring>

#include "failure.h"
#include "network_packet.h"

namespace autotune {
namespace {

constexpr auto kFarewell = std::chrono::milliseconds(2000);
constexpr auto kSpread = std::chrono::milliseconds(1000);

}  // namespace

Network::Network(std::unique_ptr<Wire> wire, int rank, int n_ranks)
    : rank_(rank),
      n_ranks_(n_ranks),
      wire_(std::move(wire)),
      remote_(static_cast<std::size_t>(n_ranks), false),
      peers_(static_cast<std::size_t>(n_ranks)) {
  if (rank < 0 || rank >= n_ranks)
    throw BadArgument("rank " + std::to_string(rank) + " is not in a group of " + std::to_string(n_ranks),
                      "give each process a rank from 0 to " + std::to_string(n_ranks - 1));
}

void Network::connect(Neighbours neighbours) {
  const auto n = static_cast<std::size_t>(n_ranks_);
  if (connected()) throw BadArgument("a network is connected twice", "make a network for each group");
  if (neighbours.host_of.size() != n || neighbours.addresses.size() != n || neighbours.greetings_in.size() != n ||
      neighbours.greetings_out.size() != n)
    throw BadArgument("neighbours are not given for " + std::to_string(n) + " ranks", "give one entry for each rank");
  for (int host : neighbours.host_of)
    if (host < 0 || static_cast<std::size_t>(host) >= neighbours.host_names.size())
      throw BadArgument("host " + std::to_string(host) + " has no name", "name every host");
  neighbours_ = std::move(neighbours);
  const int mine = neighbours_.host_of[static_cast<std::size_t>(rank_)];
  for (std::size_t rank = 0; rank < n; rank++) {
    if (neighbours_.host_of[rank] == mine) continue;
    Peer& peer = peers_[rank];
    const std::string &out = neighbours_.greetings_out[rank], &in = neighbours_.greetings_in[rank];
    if (out.size() != kProofBytes + kTokenBytes || in.size() != kProofBytes + kTokenBytes)
      throw BadArgument("a greeting has not 40 bytes", "this is a bug in autotune: please report it with this message");
    std::memcpy(&peer.token_out, out.data() + kProofBytes, kTokenBytes);
    std::memcpy(&peer.token_in, in.data() + kProofBytes, kTokenBytes);
    peer.arriving.resize(2 * kSlots);
    peer.arrived.resize(2 * kSlots);
    remote_[rank] = true;
    wire_->connect(static_cast<int>(rank), neighbours_.addresses[rank], out.substr(0, kProofBytes), in.substr(0, kProofBytes));
  }
  wire_->deliver_to(this);
}

std::string Network::missing() const {
  const int rank = wire_->missing();
  return rank < 0 ? "" : "no connection to " + name_of(rank) + ": " + wire_->why_missing(rank);
}

std::string Network::name_of(int rank) const {
  const auto host = static_cast<std::size_t>(neighbours_.host_of[static_cast<std::size_t>(rank)]);
  return "rank " + std::to_string(rank) + " on " + neighbours_.host_names[host];
}

void Network::attach(Segment& segment) {
  segment_ = &segment;
  for (int rank = 0; rank < n_ranks_; rank++) {
    if (!remote(rank)) continue;
    Packet greeting;
    greeting.kind = PacketKind::Greeting;
    send(rank, greeting, neighbours_.greetings_out[static_cast<std::size_t>(rank)].data(), kProofBytes);
  }
}

void Network::detach() {
  segment_ = nullptr;
  for (int rank = 0; rank < n_ranks_; rank++)
    if (remote(rank)) wire_->abandon(rank);  // the mirror goes
}

bool Network::answer() {
  has_answers_ = false;  // not while the wire hands packets over
  for (int rank = 0; rank < n_ranks_; rank++) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.owed) {
      peer.owed = false;
      peer.told_call = std::min(peer.told_call, call_ ? call_ - 1 : 0);
      tell_clock(rank);
    }
    if (peer.thanked) {
      peer.thanked = false;
      Packet thanks;
      thanks.kind = PacketKind::Thanks;
      send(rank, thanks, nullptr, 0);
    }
  }
  return true;
}

int Network::busy_with() const {
  for (int rank = 0; rank < n_ranks_; rank++)
    if (wire_->pending(rank)) return rank;
  return -1;
}

void Network::send(int rank, Packet& packet, const void* data, std::size_t bytes) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  packet.token = peer.token_out;
  packet.from = static_cast<std::uint32_t>(rank_);
  const RankLine& line = segment_->line(rank_);
  packet.clock = line.clock.load();
  alignas(8) char header[sizeof(Packet) + kRecordsBack * kWords];
  static_assert(sizeof header <= Wire::kMostHeaderBytes && kRecordsBack < kHistory);
  std::size_t length = sizeof(Packet);
  if (peer.told_call < call_) {
    const std::uint64_t oldest = std::max(peer.told_call + 1, call_ >= kRecordsBack ? call_ - kRecordsBack + 1 : 1);
    for (std::uint64_t number = oldest; number <= call_; number++, length += kWords)
      std::memcpy(header + length, static_cast<const void*>(&line.history[number % kHistory]), kWords);
    packet.records = static_cast<std::uint8_t>(call_ - oldest + 1);
    peer.told_call = call_;
  } else {
    packet.records = 0;
  }
  std::memcpy(header, &packet, sizeof packet);
  wire_->send(rank, header, length, data, bytes);
}

void Network::post(int reader, const Message& message, const std::vector<Stretch>& stretches) {
  Packet packet;
  packet.kind = PacketKind::Message;
  packet.word = message.word;
  packet.half = static_cast<std::uint8_t>(message.half);
  packet.slot = static_cast<std::uint8_t>(message.slot);
  packet.in_line = message.in_line;
  for (const Stretch& stretch : stretches) packet.total += stretch.bytes;
  const std::size_t base = message.in_line ? 0 : message.place, most = wire_->most_bytes();
  bool sent = false;
  for (const Stretch& stretch : stretches)
    for (std::size_t at = 0; at < stretch.bytes; at += most, sent = true) {
      packet.place = base + stretch.start + at;
      send(reader, packet, stretch.data + at, std::min(most, stretch.bytes - at));
    }
  if (!sent) send(reader, packet, nullptr, 0);
}

void Network::tell_clock(int rank) {
  Packet packet;
  packet.kind = PacketKind::Clock;
  send(rank, packet, nullptr, 0);
}

void Network::ask(int rank) {
  Packet packet;
  packet.kind = PacketKind::Question;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.told_call = std::min(peer.told_call, call_ ? call_ - 1 : 0);
  send(rank, packet, nullptr, 0);
}

void Network::send_piece(int to, std::uint64_t piece, std::size_t message_bytes, std::uint64_t what, const char* data,
                         std::size_t bytes) {
  Packet packet;
  packet.kind = PacketKind::Piece;
  packet.word = piece;
  packet.total = message_bytes;
  packet.what = static_cast<std::uint32_t>(what);
  send(to, packet, data, bytes);
}

void Network::send_credit(int to, std::uint64_t received) {
  Packet packet;
  packet.kind = PacketKind::Credit;
  packet.word = received;
  send(to, packet, nullptr, 0);
}

void Network::spread(const Report& report, int reporter) {
  Packet packet;
  packet.kind = PacketKind::Report;
  packet.what = static_cast<std::uint32_t>(reporter);
  tell_everyone(packet, report.message + '\0' + report.remedy, kSpread);
}

void Network::leave() {
  Packet packet;
  packet.kind = PacketKind::Farewell;
  tell_everyone(packet, "", kFarewell);
}

void Network::tell_everyone(Packet packet, const std::string& text, std::chrono::milliseconds at_most) {
  if (!segment_) return;
  last_words_ = text;  // stays until it is sent
  for (int rank = 0; rank < n_ranks_; rank++) {
    if (!remote(rank)) continue;
    peers_[static_cast<std::size_t>(rank)].heard = false;
    send(rank, packet, last_words_.data(), last_words_.size());
  }
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  const auto deaf = [&] {
    for (int rank = 0; rank < n_ranks_; rank++)
      if (remote(rank) && !peers_[static_cast<std::size_t>(rank)].heard && !wire_->lost(rank) &&
          segment_->line(rank).presence.load() == static_cast<std::uint32_t>(Presence::Joined))
        return true;
    return wire_->pending() != 0;
  };
  while (deaf() && std::chrono::steady_clock::now() < deadline)
    if (!progress()) wire_->sleep(std::chrono::milliseconds(10));
}

int Network::lost() const {
  for (int rank = 0; rank < n_ranks_; rank++)
    if (remote(rank) && wire_->lost(rank) &&
        segment_->line(rank).presence.load() != static_cast<std::uint32_t>(Presence::Left))
      return rank;
  return -1;
}

void Network::drop_unsent() { wire_->drop_unsent("a call failed before all was sent"); }

}  // namespace autotune
