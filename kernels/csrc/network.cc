// See network.h.
#include "network.h"

#include <algorithm>
#include <cstring>

#include "failure.h"
#include "same_secret.h"

namespace autotune {
namespace {

enum class Kind : std::uint8_t { Greeting, Message, Clock, Question, Piece, Credit, Report, Farewell, Thanks };
constexpr std::uint8_t kKinds = 9;

constexpr std::size_t kProofBytes = 32, kTokenBytes = 8;
constexpr std::size_t kWords = sizeof(CallRecord::tag) + 11 * sizeof(Word);  // of a record, the tag first
constexpr std::uint64_t kRecordsBack = 12;  // that a packet carries at most
constexpr auto kFarewell = std::chrono::milliseconds(2000);
constexpr auto kSpread = std::chrono::milliseconds(1000);

}  // namespace

struct Network::Packet {
  std::uint64_t token = 0;
  std::uint64_t word = 0;   // of a message, number of a piece
  std::uint64_t clock = 0;  // of the sender
  std::uint64_t place = 0;  // of the data: in the half of the outbox, in the header's payload, in the piece
  std::uint64_t total = 0;  // bytes of the whole message for this reader, of the whole send
  std::uint32_t from = 0;
  std::uint32_t what = 0;   // the type of a piece
  Kind kind = Kind::Clock;
  std::uint8_t half = 0, slot = 0;
  std::uint8_t in_line = 0;
  std::uint8_t records = 0;  // that follow the header
  std::uint8_t pad[3] = {};
};

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
    greeting.kind = Kind::Greeting;
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
      thanks.kind = Kind::Thanks;
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
  packet.kind = Kind::Message;
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
  packet.kind = Kind::Clock;
  send(rank, packet, nullptr, 0);
}

void Network::ask(int rank) {
  Packet packet;
  packet.kind = Kind::Question;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.told_call = std::min(peer.told_call, call_ ? call_ - 1 : 0);
  send(rank, packet, nullptr, 0);
}

void Network::send_piece(int to, std::uint64_t piece, std::size_t message_bytes, std::uint64_t what, const char* data,
                         std::size_t bytes) {
  Packet packet;
  packet.kind = Kind::Piece;
  packet.word = piece;
  packet.total = message_bytes;
  packet.what = static_cast<std::uint32_t>(what);
  send(to, packet, data, bytes);
}

void Network::send_credit(int to, std::uint64_t received) {
  Packet packet;
  packet.kind = Kind::Credit;
  packet.word = received;
  send(to, packet, nullptr, 0);
}

void Network::spread(const Report& report, int reporter) {
  Packet packet;
  packet.kind = Kind::Report;
  packet.what = static_cast<std::uint32_t>(reporter);
  tell_everyone(packet, report.message + '\0' + report.remedy, kSpread);
}

void Network::leave() {
  Packet packet;
  packet.kind = Kind::Farewell;
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

// What arrives may be from anybody: nothing is believed that is not checked here.
bool Network::read(const char* header, std::size_t header_bytes, Packet& packet) const {
  if (!segment_ || header_bytes < sizeof packet) return false;
  std::memcpy(&packet, header, sizeof packet);
  if (packet.from >= static_cast<std::uint32_t>(n_ranks_) || !remote(static_cast<int>(packet.from))) return false;
  const std::uint64_t& token = peers_[packet.from].token_in;
  return same_secret(reinterpret_cast<const char*>(&packet.token), reinterpret_cast<const char*>(&token), kTokenBytes) &&
         static_cast<std::uint8_t>(packet.kind) < kKinds && packet.records <= kRecordsBack &&
         header_bytes == sizeof packet + packet.records * kWords;
}

void Network::take(const char* header, std::size_t header_bytes, const char* data, std::size_t bytes) {
  Packet packet;
  const auto refuse = [&] { refused_++; };
  if (!read(header, header_bytes, packet)) return refuse();
  const int from = static_cast<int>(packet.from);
  Peer& peer = peers_[packet.from];
  peer.lands = false;
  RankLine& line = segment_->line(from);
  for (std::size_t i = 0; i < packet.records; i++) take_record(header + sizeof packet + i * kWords, from);
  if (line.clock.load() < packet.clock) line.clock.store(packet.clock);
  bool sound = true;
  switch (packet.kind) {
    case Kind::Greeting:
      sound = bytes == kProofBytes && same_secret(data, neighbours_.greetings_in[packet.from].data(), kProofBytes);
      if (sound) {
        std::uint32_t absent = static_cast<std::uint32_t>(Presence::Absent);
        line.presence.compare_exchange_strong(absent, static_cast<std::uint32_t>(Presence::Joined));
      }
      break;
    case Kind::Message: sound = take_message(packet, peer, data, bytes); break;
    case Kind::Clock: break;
    case Kind::Question: peer.owed = has_answers_ = true; break;
    case Kind::Piece: sound = take_piece(packet, data, bytes); break;
    case Kind::Credit: {
      Word& received = segment_->channel(rank_, from).received;
      if (received.load() < packet.word) received.store(packet.word);
      break;
    }
    case Kind::Report: {
      if (!(sound = packet.what < static_cast<std::uint32_t>(n_ranks_))) break;
      peer.thanked = has_answers_ = true;
      const std::string text(data, bytes);
      const std::size_t end = text.find('\0');
      segment_->report(static_cast<int>(packet.what), text.substr(0, end), end < bytes ? text.substr(end + 1) : "");
      break;
    }
    case Kind::Farewell:
      line.presence.store(static_cast<std::uint32_t>(Presence::Left));
      peer.thanked = has_answers_ = true;
      break;
    case Kind::Thanks: peer.heard = true; break;
  }
  if (!sound) refuse();
}

void Network::take_record(const char* record, int from) {
  std::uint64_t tag = 0;
  std::memcpy(&tag, record, sizeof tag);
  CallRecord& place = segment_->line(from).history[(tag >> kSignatureBits) % kHistory];
  if (place.tag.load() >> kSignatureBits > tag >> kSignatureBits) return;  // overtaken by a later call
  std::memcpy(static_cast<void*>(&place), record, kWords);
}

bool Network::fits(const Packet& packet, std::size_t bytes) const {
  const std::size_t space = packet.in_line ? kInlineBytes : segment_->half_bytes();
  return packet.half <= 1 && packet.slot < kSlots && packet.place <= space && bytes <= space - packet.place;
}

// Some of this message is here from now on.
void Network::begins(const Packet& packet, Peer& peer) {
  const std::size_t slot = packet.half * static_cast<std::size_t>(kSlots) + packet.slot;
  if (peer.arriving[slot] != packet.word) peer.arriving[slot] = packet.word, peer.arrived[slot] = 0;
}

char* Network::room(const char* header, std::size_t header_bytes, std::size_t bytes) {
  Packet packet;
  if (!read(header, header_bytes, packet)) return nullptr;
  if (packet.kind == Kind::Piece && bytes <= kChannelPieceBytes)
    return segment_->channel(static_cast<int>(packet.from), rank_).pieces[packet.word % kChannelSlots];
  if (packet.kind != Kind::Message || packet.in_line || !fits(packet, bytes)) return nullptr;
  Peer& peer = peers_[packet.from];
  char* const mirror = segment_->outbox(static_cast<int>(packet.from), packet.half);
  const auto [place, upto] = place_of(packet, mirror, packet.place, packet.place + bytes);
  if (upto != packet.place + bytes) return nullptr;
  begins(packet, peer);
  peer.lands = place != mirror + packet.place;
  return place;
}

bool Network::take_message(const Packet& packet, Peer& peer, const char* data, std::size_t bytes) {
  if (!fits(packet, bytes)) return false;
  const int from = static_cast<int>(packet.from);
  Header& header = segment_->headers(from, packet.half)[packet.slot];
  begins(packet, peer);
  if (packet.in_line) {
    if (bytes) std::memcpy(header.payload + packet.place, data, bytes);
  } else {
    store(packet, segment_->outbox(from, packet.half), data, bytes);
  }
  const std::size_t slot = packet.half * static_cast<std::size_t>(kSlots) + packet.slot;
  peer.arrived[slot] += bytes;
  if (peer.arrived[slot] >= packet.total) header.word.store(packet.word);
  return true;
}

bool Network::land(int from, int half, std::size_t slot, std::uint64_t word, std::size_t start, std::size_t bytes,
                   char* to) {
  const Peer& peer = peers_[static_cast<std::size_t>(from)];
  if (peer.arriving[static_cast<std::size_t>(half) * kSlots + slot] == word) return false;
  landings_.push_back({from, half, slot, word, start, start + bytes, to});
  return true;
}

void Network::end_landings() {
  landings_.clear();
  for (int rank = 0; rank < n_ranks_; rank++) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!peer.lands) continue;
    peer.lands = false;
    wire_->abandon(rank);  // the call has failed
  }
}

void Network::drop_unsent() { wire_->drop_unsent("a call failed before all was sent"); }

// Where byte `at` of a packet goes, and up to which byte what follows goes there, too: to a landing, or to the mirror.
std::pair<char*, std::size_t> Network::place_of(const Packet& packet, char* mirror, std::size_t at, std::size_t end) const {
  for (const Landing& landing : landings_) {
    if (landing.word != packet.word || landing.from != static_cast<int>(packet.from) || landing.half != packet.half ||
        landing.slot != packet.slot || landing.end <= at || landing.start >= end)
      continue;
    if (landing.start <= at) return {landing.to + (at - landing.start), std::min(end, landing.end)};
    end = landing.start;  // first what lies before it
  }
  return {mirror + at, end};
}

void Network::store(const Packet& packet, char* mirror, const char* data, std::size_t bytes) {
  const std::size_t end = packet.place + bytes;
  for (std::size_t at = packet.place; at < end;) {
    const auto [to, upto] = place_of(packet, mirror, at, end);
    const char* const from = data + (at - packet.place);
    if (to != from) std::memcpy(to, from, upto - at);  // else it arrived there
    at = upto;
  }
}

bool Network::take_piece(const Packet& packet, const char* data, std::size_t bytes) {
  if (bytes > kChannelPieceBytes) return false;
  Channel& channel = segment_->channel(static_cast<int>(packet.from), rank_);
  const std::size_t slot = packet.word % kChannelSlots;
  ChannelHeader& header = channel.headers[slot];
  header.message_bytes.store(packet.total);
  header.what.store(packet.what);
  if (bytes && data != channel.pieces[slot]) std::memcpy(channel.pieces[slot], data, bytes);  // else it arrived there
  header.word.store(packet.word);
  return true;
}

}  // namespace autotune
