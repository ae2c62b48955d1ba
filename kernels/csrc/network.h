// A group over several hosts: what ranks of other hosts would write to shared memory arrives here as packets and is
// written to this rank's mirror of them (segment.h), by this rank itself, while it waits.
//
// In: the messages, clocks and records that ranks of other hosts have to see. Out: theirs, in the mirrors. Knows no
// schedules; it does not wait.
//
// A rank's message goes once to each reader on another host, and only the pieces that it reads. The rules of the protocol
// in group.h are the same: a message is overwritten in a mirror only when the reader's clock allows it, and every packet
// carries its sender's clock. Nothing is assumed of the order of packets. The record of a call goes ahead of the first
// packet of that call to a rank.
//
// A packet counts only if it bears the token of its sender and this rank, which both derived from the run's secret
// (autotune/runtime/hosts.py); a peer counts only after its greeting, which proves the whole of it. Everything else is
// dropped and counted: nothing of it is written anywhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "segment.h"
#include "wire.h"

namespace autotune {

struct Report {
  std::string message, remedy;
};

// What a group over several hosts is made of. By rank; what belongs to ranks of this host is unused.
struct Neighbours {
  std::vector<int> host_of;             // number of the host, from 0
  std::vector<std::string> host_names;  // by host
  std::vector<std::string> addresses;
  std::vector<std::string> greetings_out, greetings_in;  // what this rank says first, and what it must hear
};

class Network final : private Wire::Taker {
 public:
  Network(std::unique_ptr<Wire> wire, int rank, int n_ranks);

  const Wire& wire() const { return *wire_; }
  // Says who the others are, and begins to connect to those of other hosts. Once, before a group uses it. Throws Failure.
  void connect(Neighbours neighbours);
  // Goes on connecting for so long at most; returns whether all are connected, as far as the wire can know.
  bool meet(std::chrono::milliseconds at_most) { return wire_->meet(at_most); }
  // What keeps it from being connected, for people; "" if nothing does.
  std::string missing() const;
  // "rank 3 on hostb".
  std::string name_of(int rank) const;

  int rank() const { return rank_; }
  bool connected() const { return !neighbours_.host_of.empty(); }
  bool remote(int rank) const { return remote_[static_cast<std::size_t>(rank)]; }
  const std::vector<bool>& remote() const { return remote_; }

  // From now on packets are written to the mirrors of this segment. Greets all.
  void attach(Segment& segment);
  void detach();

  // Takes and sends what is there; of what comes from others than `rank` perhaps nothing, unless it is -1. Returns whether
  // anything happened.
  bool progress(int rank = -1) {
    const bool busy = wire_->progress(rank);
    return has_answers_ ? answer() : busy;
  }
  void sleep(std::chrono::milliseconds at_most) { wire_->sleep(at_most); }
  bool idle() const { return wire_->pending() == 0; }
  // A rank whose connection still holds data of this one; -1 for none.
  int busy_with() const;

  // Stretches of a message, in bytes from the start of its slot; `data` may lie in the caller's own buffers, and stays as
  // it is until idle().
  struct Stretch {
    std::size_t start, bytes;
    const char* data;
  };
  struct Message {
    std::uint64_t word;
    int half;
    std::size_t slot;      // its header
    std::size_t place;     // of the slot in its half of the outbox, in bytes
    bool in_line;          // the payload lies in the header
  };
  // The call that packets belong to from now on; its record is in this rank's line.
  void begin(std::uint64_t call) { call_ = call; }
  void post(int reader, const Message& message, const std::vector<Stretch>& stretches);
  // Bytes [start, start + bytes) of a half of a rank's outbox, of the message with that word, are to be written to `to`
  // instead of the mirror. Returns false if some of the message is here already; then all of it is in the mirror. To ask
  // again for the same changes nothing. Until forget_landings() of that word, when all of it is here, or of all.
  bool land(int from, int half, std::size_t slot, std::uint64_t word, std::size_t start, std::size_t bytes, char* to);
  void forget_landings(std::uint64_t word) {
    if (n_landings_) [[unlikely]] end_landings(word);
  }
  void forget_landings() {
    if (n_landings_) [[unlikely]] end_landings();
  }
  // A call has failed: nothing of its caller's buffers is read any more. Peers that were to get some are lost.
  void drop_unsent();
  // This rank's clock, for one that waits for it.
  void tell_clock(int rank);
  // This rank's clock and record, and please yours.
  void ask(int rank);

  // Point to point: a piece for a rank's channel, and that a piece was taken.
  void send_piece(int to, std::uint64_t piece, std::size_t message_bytes, std::uint64_t what, const char* data,
                  std::size_t bytes);
  void send_credit(int to, std::uint64_t received);

  // Tells every other host that the group has failed, or that this rank leaves; for a second or two at most it waits
  // until all have heard it. Nothing is to be sent afterwards.
  void spread(const Report& report, int reporter);
  void leave();

  // The first rank that is lost without having left; -1 for none. And why.
  int lost() const;
  const std::string& why_lost(int rank) const { return wire_->why_lost(rank); }
  std::uint64_t refused() const { return refused_ + wire_->refused(); }

 private:
  struct Packet;
  struct Landing {
    std::uint64_t word;
    std::size_t start, end;  // in a half of the outbox; no two slots share any
    char* to;
  };
  struct Peer {
    std::uint64_t told_call = 0;  // the last call whose record it has
    std::uint64_t token_out = 0, token_in = 0;
    bool owed = false;       // an answer
    bool thanked = false;    // for a report or farewell, too
    bool heard = false;      // it has this rank's report or farewell
    std::vector<std::uint64_t> arriving;  // by half and slot: the message that is arriving
    std::vector<std::size_t> arrived;     // and how many bytes of it have
    std::vector<Landing> landings;
    bool lands = false;  // the packet that is arriving has its room in a landing
  };
  void send(int rank, Packet& packet, const void* data, std::size_t bytes);
  bool answer();
  bool read(const char* header, std::size_t header_bytes, Packet& packet) const;
  bool fits(const Packet& packet, std::size_t bytes) const;
  char* room(const char* header, std::size_t header_bytes, std::size_t bytes) override;
  void take(const char* header, std::size_t header_bytes, const char* data, std::size_t bytes) override;
  void take_record(const char* record, int from);
  void begins(const Packet& packet, Peer& peer);
  std::pair<char*, std::size_t> place_of(const Packet& packet, char* mirror, std::size_t at, std::size_t end) const;
  void store(const Packet& packet, char* mirror, const char* data, std::size_t bytes);
  void end_landings();
  void end_landings(std::uint64_t word);
  bool take_message(const Packet& packet, Peer& peer, const char* data, std::size_t bytes);
  bool take_piece(const Packet& packet, const char* data, std::size_t bytes);
  void tell_everyone(Packet packet, const std::string& text, std::chrono::milliseconds at_most);

  const int rank_;
  const int n_ranks_;
  const std::unique_ptr<Wire> wire_;
  Neighbours neighbours_;
  std::vector<bool> remote_;
  std::vector<Peer> peers_;
  Segment* segment_ = nullptr;
  std::uint64_t refused_ = 0;
  std::size_t n_landings_ = 0;
  std::uint64_t call_ = 0;
  std::string last_words_;
  bool has_answers_ = false;
};

}  // namespace autotune
