// Two ranks of different hosts find each other by TCP, and prove the run's secret to each other before anything else.
//
// In: interfaces, the places of peers, what each side has to say and to hear. Out: connected sockets, by rank. Waits only in
// step(), and there for so long as it is told to.
//
// The lower rank of a pair connects. Its first message is a fixed number of bytes: who it is, whom it wants, its proof; the
// answer is the same the other way; one byte more says that it was taken in time. Whoever says anything else, or nothing in
// time, is closed and counted, and nothing that he sent is kept. Listening ends when the last peer has come.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "socket_places.h"

namespace autotune {

class SocketMeeting {
 public:
  // Listens on these interfaces. Throws Failure.
  explicit SocketMeeting(std::vector<Interface> own);
  ~SocketMeeting();
  SocketMeeting(const SocketMeeting&) = delete;
  SocketMeeting& operator=(const SocketMeeting&) = delete;

  static constexpr std::size_t kProofBytes = 32;

  // What others need to connect.
  std::string address() const;
  const std::vector<Interface>& own() const { return own_; }

  // A peer to be met: from now on as rank `mine`, of which all peers are told the same. Throws Failure.
  void expect(int mine, int peer, const std::string& address, const std::string& proof_out, const std::string& proof_in);

  struct Met {
    int rank;
    int fd;  // not blocking; the caller's
  };
  // Goes on for so long at most, or until somebody has been met.
  std::vector<Met> step(std::chrono::milliseconds at_most);
  // Nobody else is to come: stops listening.
  void finish();
  // The first that has not been met; -1 for none. What was tried, for people.
  int missing() const { return peers_.empty() ? -1 : peers_.front().rank; }
  std::string why_missing(int rank) const;

  std::uint64_t refused() const { return refused_; }
  const std::string& last_refused() const { return last_refused_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Hello {
    char magic[8];
    std::uint32_t from, to;
    char proof[kProofBytes];
  };
  static_assert(sizeof(Hello) == 48);

  enum class Stage { Idle, Connecting, Asked };
  struct Peer {
    int rank;
    std::vector<Route> routes;  // empty where the peer connects
    std::string out, in;
    std::size_t route = 0;      // that is tried
    Stage stage = Stage::Idle;
    int fd = -1;
    Clock::time_point until{};  // of this try; of the pause before it
    Hello heard{};
    std::size_t got = 0;
    std::string why;            // of the last try
  };
  struct Stranger {
    int fd;
    std::string from;
    Clock::time_point until;
    Hello heard{};
    std::size_t got = 0;
    int rank = -1;  // that he has proved to be
  };

  void listen_on(const Interface& interface);
  void stop_listening();
  Hello hello(const Peer& peer) const;
  void start(Peer& peer);
  void fail(Peer& peer, const std::string& why);
  void advance(Peer& peer, std::vector<Met>& met);
  void accept_from(int listener);
  bool advance(Stranger& stranger, std::vector<Met>& met);
  const Peer* proved(const Hello& heard) const;
  void refuse(const Stranger& stranger);
  void forget_met(const std::vector<Met>& met);

  int mine_ = -1;
  std::vector<Interface> own_;
  std::vector<std::pair<int, SocketPlace>> listeners_;
  std::vector<Peer> peers_;
  std::vector<Stranger> strangers_;
  std::uint64_t refused_ = 0;
  std::string last_refused_;
};

}  // namespace autotune
