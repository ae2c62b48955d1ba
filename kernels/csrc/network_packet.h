// What a packet between ranks of different hosts bears in front of its data: for network.cc, which sends, and
// network_arrivals.cc, which takes.
//
// Records of calls follow it. Hosts are alike: bytes go out as they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "network.h"

namespace autotune {

constexpr std::size_t kProofBytes = 32, kTokenBytes = 8;
constexpr std::size_t kWords = sizeof(CallRecord::tag) + 11 * sizeof(Word);  // of a record, the tag first
constexpr std::uint64_t kRecordsBack = 12;  // that a packet carries at most

enum class PacketKind : std::uint8_t { Greeting, Message, Clock, Question, Piece, Credit, Report, Farewell, Thanks };
constexpr std::uint8_t kPacketKinds = 9;

struct Network::Packet {
  std::uint64_t token = 0;
  std::uint64_t word = 0;   // of a message, number of a piece
  std::uint64_t clock = 0;  // of the sender
  std::uint64_t place = 0;  // of the data: in the half of the outbox, in the header's payload, in the piece
  std::uint64_t total = 0;  // bytes of the whole message for this reader, of the whole send
  std::uint32_t from = 0;
  std::uint32_t what = 0;   // the type of a piece
  PacketKind kind = PacketKind::Clock;
  std::uint8_t half = 0, slot = 0;
  std::uint8_t in_line = 0;
  std::uint8_t records = 0;  // that follow the header
  std::uint8_t pad[3] = {};
};

}  // namespace autotune
