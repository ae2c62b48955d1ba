// send and recv: a queue for each ordered pair of ranks, outside the count of calls.
//
// In: the caller's bytes. Out: the same bytes on the other rank, in the order of sends. A queue has four slots of 64 KiB;
// its two edges are those of the protocol in group.h: piece stores, release of the slot's word; piece loads, release of
// the count of received pieces.
#include <algorithm>
#include <cstring>

#include "group.h"
#include "one_at_a_time.h"

namespace autotune {

void Group::send(int to, const void* data, std::size_t bytes, DType dtype) {
  const OneAtATime guard(busy_);
  waiting_.check_usable();
  Channel& channel = segment_.channel(rank_, to);
  std::uint64_t& sent = sent_pieces_[static_cast<std::size_t>(to)];
  const char* from = static_cast<const char*>(data);
  std::size_t left = bytes;
  do {  // an empty message is one empty piece
    const std::size_t length = std::min(left, kChannelPieceBytes);
    const std::uint64_t piece = ++sent;
    waiting_.until(
        to, [&] { return channel.received.load(std::memory_order_acquire) + kChannelSlots >= piece; }, [] {},
        [&] {
          return "rank " + std::to_string(rank_) + " sends " + std::to_string(bytes) + " bytes to rank " +
                 std::to_string(to) + ", which does not receive them";
        });
    const std::size_t slot = piece % kChannelSlots;
    ChannelHeader& header = channel.headers[slot];
    header.message_bytes.store(bytes, std::memory_order_relaxed);
    header.what.store(static_cast<std::uint64_t>(dtype), std::memory_order_relaxed);
    if (length) std::memcpy(channel.pieces[slot], from, length);
    header.word.store(piece, std::memory_order_release);
    waiting_.ring();
    if (remote(to)) network_->send_piece(to, piece, bytes, static_cast<std::uint64_t>(dtype), channel.pieces[slot], length);
    from += length;
    left -= length;
  } while (left);
  if (network_) finish_sending();
}

void Group::recv(int from, void* data, std::size_t bytes, DType dtype) {
  const OneAtATime guard(busy_);
  waiting_.check_usable();
  Channel& channel = segment_.channel(from, rank_);
  std::uint64_t& received = received_pieces_[static_cast<std::size_t>(from)];
  char* to = static_cast<char*>(data);
  std::size_t left = bytes;
  do {
    const std::size_t length = std::min(left, kChannelPieceBytes);
    const std::uint64_t piece = ++received;
    const std::size_t slot = piece % kChannelSlots;
    const ChannelHeader& header = channel.headers[slot];
    waiting_.until(
        from, [&] { return header.word.load(std::memory_order_acquire) == piece; }, [] {},
        [&] {
          return "rank " + std::to_string(rank_) + " receives " + std::to_string(bytes) + " bytes from rank " +
                 std::to_string(from) + ", which does not send them";
        });
    const std::uint64_t sent_bytes = header.message_bytes.load(std::memory_order_relaxed);
    const auto sent_type = static_cast<std::size_t>(header.what.load(std::memory_order_relaxed));
    if (sent_bytes != bytes || sent_type != static_cast<std::size_t>(dtype))
      waiting_.fail("rank " + std::to_string(from) + " sends " + std::to_string(sent_bytes) + " bytes of " +
                        name_of(static_cast<DType>(sent_type % kDTypes)) + " to rank " + std::to_string(rank_) + ", which receives " +
                        std::to_string(bytes) + " bytes of " + name_of(dtype),
                    "send and receive the same count and type, in the same order");
    if (length) std::memcpy(to, channel.pieces[slot], length);
    channel.received.store(piece, std::memory_order_release);
    waiting_.ring();
    if (remote(from)) network_->send_credit(from, piece);
    to += length;
    left -= length;
  } while (left);
  if (network_) finish_sending();
}

}  // namespace autotune
