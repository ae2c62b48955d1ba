// What carries packets between processes of different hosts: the contract that ucx_wire.h and socket_wire.h keep.
//
// In: addresses of peers, packets of a header and data. Out: the peers' packets, handed to a taker while progress() runs;
// which peers are lost. Knows ranks, and no more of collectives.
//
// A packet arrives whole or not at all; packets to one peer may overtake each other. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autotune {

class Wire {
 public:
  static constexpr std::size_t kMostHeaderBytes = 2 << 10;  // that every wire carries

  class Taker {
   public:
    // A packet begins to arrive: where its data is to be written as it comes, or null to have it with take(). What a room
    // was given for is taken from it, by take() or abandon(), before the room may go.
    virtual char* room(const char* header, std::size_t header_bytes, std::size_t bytes) = 0;
    // A packet is there; `data` is the room, if there was one.
    virtual void take(const char* header, std::size_t header_bytes, const char* data, std::size_t bytes) = 0;

   protected:
    ~Taker() = default;
  };

  explicit Wire(int n_ranks) : states_(static_cast<std::size_t>(n_ranks)) {}
  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // "ucx" or "sockets"; a library's version and path, or nothing.
  virtual std::string name() const = 0;
  virtual std::string version() const { return ""; }
  virtual std::string library() const { return ""; }

  // What peers need to connect to this rank.
  virtual std::string address() const = 0;
  // Begins to connect to a rank. The proofs are what each side says to the other before anything else, where a wire can
  // tell by it who connects. Throws Failure where an address cannot be meant or used.
  virtual void connect(int rank, const std::string& address, const std::string& proof_out,
                       const std::string& proof_in) = 0;
  // Goes on connecting for so long at most; returns whether all are connected, as far as this wire can know.
  virtual bool meet(std::chrono::milliseconds at_most) = 0;
  // A rank that is not connected, -1 for none; and what was tried, for people.
  virtual int missing() const { return -1; }
  virtual std::string why_missing(int) const { return ""; }
  // Connections of strangers that were closed, and where the last came from.
  virtual std::uint64_t refused() const { return 0; }
  virtual std::string last_refused() const { return ""; }

  // "tcp/eth0" and the like.
  virtual std::vector<std::string> transports(int rank) const = 0;

  void deliver_to(Taker* taker) { taker_ = taker; }
  // Data stays the caller's, unchanged until pending(rank) is 0; the header, of up to kMostHeaderBytes, is copied. Does
  // nothing for lost peers.
  virtual void send(int rank, const void* header, std::size_t header_bytes, const void* data, std::size_t bytes) = 0;
  // The most data that one packet should have.
  virtual std::size_t most_bytes() const = 0;
  // The room of the packet that is arriving from a rank goes: the rest of the packet is thrown away.
  virtual void abandon(int rank) = 0;
  // Ends the connections that still hold the caller's data: none of it is read any more.
  virtual void drop_unsent(const std::string& why) = 0;

  // Sends and receives what is possible now; of what comes from others than `rank` perhaps nothing, unless it is -1.
  // Returns whether anything happened.
  virtual bool progress(int rank = -1) = 0;
  // Waits until progress() has something to do; at most so long.
  virtual void sleep(std::chrono::milliseconds at_most) = 0;

  // Packets whose data is still needed.
  int pending(int rank) const { return state(rank).pending; }
  int pending() const { return pending_; }
  bool lost(int rank) const { return !state(rank).lost.empty(); }
  const std::string& why_lost(int rank) const { return state(rank).lost; }

 protected:
  void add_pending(int rank, int packets) {
    state(rank).pending += packets;
    pending_ += packets;
  }
  // The first reason stays.
  void note_lost(int rank, const std::string& why) {
    if (state(rank).lost.empty()) state(rank).lost = why;
  }
  Taker* taker() const { return taker_; }
  int n_ranks() const { return static_cast<int>(states_.size()); }

 private:
  struct State {
    int pending = 0;
    std::string lost;  // why; empty while it is there
  };
  State& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }
  const State& state(int rank) const { return states_[static_cast<std::size_t>(rank)]; }

  std::vector<State> states_;
  int pending_ = 0;
  Taker* taker_ = nullptr;
};

}  // namespace autotune
