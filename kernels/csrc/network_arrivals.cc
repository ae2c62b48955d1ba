// What arrives from other hosts, and where it goes: to the mirrors, to the landings of the call that runs, to channels.
//
// In: packets as the wire hands them over. Out: what they say, written; what nobody sent in this run, counted. See network.h.
#include <algorithm>
#include <cstring>

#include "network_packet.h"
#include "same_secret.h"

namespace autotune {

// What arrives may be from anybody: nothing is believed that is not checked here.
bool Network::read(const char* header, std::size_t header_bytes, Packet& packet) const {
  if (!segment_ || header_bytes < sizeof packet) return false;
  std::memcpy(&packet, header, sizeof packet);
  if (packet.from >= static_cast<std::uint32_t>(n_ranks_) || !remote(static_cast<int>(packet.from))) return false;
  const std::uint64_t& token = peers_[packet.from].token_in;
  return same_secret(reinterpret_cast<const char*>(&packet.token), reinterpret_cast<const char*>(&token), kTokenBytes) &&
         static_cast<std::uint8_t>(packet.kind) < kPacketKinds && packet.records <= kRecordsBack &&
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
    case PacketKind::Greeting:
      sound = bytes == kProofBytes && same_secret(data, neighbours_.greetings_in[packet.from].data(), kProofBytes);
      if (sound) {
        std::uint32_t absent = static_cast<std::uint32_t>(Presence::Absent);
        line.presence.compare_exchange_strong(absent, static_cast<std::uint32_t>(Presence::Joined));
      }
      break;
    case PacketKind::Message: sound = take_message(packet, peer, data, bytes); break;
    case PacketKind::Clock: break;
    case PacketKind::Question: peer.owed = has_answers_ = true; break;
    case PacketKind::Piece: sound = take_piece(packet, data, bytes); break;
    case PacketKind::Credit: {
      Word& received = segment_->channel(rank_, from).received;
      if (received.load() < packet.word) received.store(packet.word);
      break;
    }
    case PacketKind::Report: {
      if (!(sound = packet.what < static_cast<std::uint32_t>(n_ranks_))) break;
      peer.thanked = has_answers_ = true;
      const std::string text(data, bytes);
      const std::size_t end = text.find('\0');
      segment_->report(static_cast<int>(packet.what), text.substr(0, end), end < bytes ? text.substr(end + 1) : "");
      break;
    }
    case PacketKind::Farewell:
      line.presence.store(static_cast<std::uint32_t>(Presence::Left));
      peer.thanked = has_answers_ = true;
      break;
    case PacketKind::Thanks: peer.heard = true; break;
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
  if (packet.kind == PacketKind::Piece && bytes <= kChannelPieceBytes)
    return segment_->channel(static_cast<int>(packet.from), rank_).pieces[packet.word % kChannelSlots];
  if (packet.kind != PacketKind::Message || packet.in_line || !fits(packet, bytes)) return nullptr;
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
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  for (const Landing& landing : peer.landings)
    if (landing.word == word && landing.start == start) return true;
  if (peer.arriving[static_cast<std::size_t>(half) * kSlots + slot] == word) return false;
  peer.landings.push_back({word, start, start + bytes, to});
  n_landings_++;
  return true;
}

void Network::end_landings(std::uint64_t word) {
  for (Peer& peer : peers_)
    n_landings_ -= std::erase_if(peer.landings, [&](const Landing& landing) { return landing.word == word; });
}

void Network::end_landings() {
  n_landings_ = 0;
  for (int rank = 0; rank < n_ranks_; rank++) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.landings.clear();
    if (!peer.lands) continue;
    peer.lands = false;
    wire_->abandon(rank);  // the call has failed
  }
}

// Where byte `at` of a packet goes, and up to which byte what follows goes there, too: to a landing, or to the mirror.
std::pair<char*, std::size_t> Network::place_of(const Packet& packet, char* mirror, std::size_t at, std::size_t end) const {
  for (const Landing& landing : peers_[packet.from].landings) {
    if (landing.word != packet.word || landing.end <= at || landing.start >= end) continue;
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
