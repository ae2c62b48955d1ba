// Sockets between hosts: streams that arrive in any parts, strangers and their rubbish, hosts that go.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "failure.h"
#include "socket_wire.h"
#include "tests.h"

namespace autotune::test {
namespace {

using std::chrono::milliseconds;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Packet {
  std::string header, data;
};

// Gives rooms to some packets, and compares what comes with what was sent.
class Expecting final : public Wire::Taker {
 public:
  explicit Expecting(Random& random) : random_(random) {}

  std::deque<Packet> expected;
  int abandoned = 0;
  bool in_room() const { return in_room_; }
  void lose_room() { in_room_ = false, abandoned++, expected.pop_front(), room_.clear(); }

 private:
  char* room(const char* header, std::size_t header_bytes, std::size_t bytes) override {
    CHECK(expected.front().header == std::string(header, header_bytes), "a header");
    in_room_ = between(random_, 0, 1) == 0;
    room_.assign(in_room_ ? bytes : 0, '?');
    return in_room_ ? room_.data() : nullptr;
  }
  void take(const char* header, std::size_t header_bytes, const char* data, std::size_t bytes) override {
    CHECK(!expected.empty(), "a packet that was not sent");
    CHECK(expected.front().header == std::string(header, header_bytes), "a header");
    CHECK(expected.front().data == std::string(data, bytes), "data of " + std::to_string(bytes) + " bytes");
    CHECK(!in_room_ || data == room_.data(), "not where it should have come");
    in_room_ = false;
    expected.pop_front();
  }

  Random& random_;
  std::string room_;
  bool in_room_ = false;
};

std::string random_bytes(Random& random, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

std::pair<int, int> pair_of_sockets() {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0, "socketpair");
  return {fds[0], fds[1]};
}

// Packets of all sizes through a socket that takes little: queues, parts of headers, rooms, rooms that go.
void streams(Random& random) {
  const auto [out, in] = pair_of_sockets();
  const int small = 4096;
  setsockopt(out, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  SocketConnection sender(out), receiver(in);
  Expecting taker(random);
  std::deque<Packet> sent;  // their data stays until it has left
  std::vector<char> shared(SocketConnection::kReadBytes);
  for (int i = 0; i < 3000; i++) {
    const std::size_t most[] = {8, 2000, 20'000, SocketConnection::kMostBytes};
    Packet& packet = sent.emplace_back();
    packet.header = random_bytes(random, between(random, 1, between(random, 0, 9) ? 60 : SocketConnection::kMostHeaderBytes));
    packet.data = random_bytes(random, between(random, 0, most[between(random, 0, i % 50 ? 2 : 3)]));
    taker.expected.push_back(packet);
    sender.send(packet.header.data(), packet.header.size(), packet.data.data(), packet.data.size());
    while (sender.queued() && between(random, 0, 3)) {
      receiver.receive(shared.data(), &taker);
      if (taker.in_room() && between(random, 0, 9) == 0) receiver.abandon(), taker.lose_room();
      sender.flush();
    }
    if (!sender.queued()) sent.clear();
  }
  while (sender.queued()) receiver.receive(shared.data(), &taker), sender.flush();
  while (receiver.receive(shared.data(), &taker)) continue;
  CHECK(taker.expected.empty(), std::to_string(taker.expected.size()) + " packets did not come");
  CHECK(taker.abandoned > 0, "no room went");
  sender.end("enough");
  receiver.receive(shared.data(), &taker);
  CHECK(receiver.ended() == "it closed the connection", receiver.ended());
}

// A packet without data, the first of its connection, that comes in two parts.
void without_data(Random& random) {
  const Packet packet{random_bytes(random, 40), ""};
  const std::uint32_t lengths[] = {static_cast<std::uint32_t>(packet.header.size()), 0};
  const std::string whole = std::string(reinterpret_cast<const char*>(lengths), sizeof lengths) + packet.header;
  for (std::size_t first = 1; first < whole.size(); first++) {
    const auto [out, in] = pair_of_sockets();
    SocketConnection receiver(in);
    Expecting taker(random);
    taker.expected.push_back(packet);
    std::vector<char> shared(SocketConnection::kReadBytes);
    CHECK(write(out, whole.data(), first) == static_cast<ssize_t>(first), "write");
    receiver.receive(shared.data(), &taker);
    CHECK(write(out, whole.data() + first, whole.size() - first) > 0, "write");
    receiver.receive(shared.data(), &taker);
    CHECK(taker.expected.empty(), "cut behind byte " + std::to_string(first));
    close(out);
  }
}

// What is no packet ends the connection, and reaches nobody.
void nonsense(Random& random) {
  const std::uint32_t too_long[] = {SocketConnection::kMostHeaderBytes + 1, 0}, too_much[] = {8, SocketConnection::kMostBytes + 1},
                      nothing[] = {0, 0};
  for (const std::uint32_t* lengths : {too_long, too_much, nothing})
    for (std::size_t first = 1; first <= 8; first++) {
      const auto [out, in] = pair_of_sockets();
      SocketConnection receiver(in);
      Expecting taker(random);
      std::vector<char> shared(SocketConnection::kReadBytes);
      CHECK(write(out, lengths, first) > 0, "write");
      receiver.receive(shared.data(), &taker);
      if (first < 8) {
        CHECK(receiver.ended().empty(), receiver.ended());
        CHECK(write(out, reinterpret_cast<const char*>(lengths) + first, 8 - first) > 0, "write");
        receiver.receive(shared.data(), &taker);
      }
      CHECK(receiver.ended() == "it sent what is no packet", receiver.ended());
      close(out);
    }
}

// Connects to the first place that a rank told.
int stranger_at(const std::string& address) {
  std::string host;
  int port = 0;
  std::istringstream(address) >> host >> port;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  CHECK(inet_pton(AF_INET, host.c_str(), &place.sin_addr) == 1, address);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0, address);
  return fd;
}

struct Hello {
  char magic[8] = {'a', 'u', 't', 'o', 't', 'u', 'n', '1'};
  std::uint32_t from = 0, to = 1;
  char proof[32] = {};
};

bool meet_within(Network& network, milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!network.meet(milliseconds(20)))
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

// Rubbish, a wrong proof, a right one for somebody else, half a message, silence: closed, counted, and the peers meet.
void strangers(Random& random) {
  Networks networks({1, 1}, "the secret");
  Network &first = *networks.ends[0], &second = *networks.ends[1];
  const std::string place = second.wire().address();
  second.connect(networks.neighbours(1));
  std::vector<int> fds;
  const auto says = [&](const void* data, std::size_t bytes) {
    fds.push_back(stranger_at(place));
    CHECK(write(fds.back(), data, bytes) == static_cast<ssize_t>(bytes), "write");
  };
  const std::string rubbish = random_bytes(random, 100'000);
  says(rubbish.data(), rubbish.size());
  Hello hello;
  says(&hello, sizeof hello);
  std::memcpy(hello.proof, greeting("the secret", 1, 0).data(), 32);  // what is said the other way
  says(&hello, sizeof hello);
  std::memcpy(hello.proof, greeting("the secret", 0, 1).data(), 32);
  hello.to = 0;
  says(&hello, sizeof hello);
  hello.to = 1, hello.from = 1;
  says(&hello, sizeof hello);
  hello.from = 7;
  says(&hello, sizeof hello);
  CHECK(!meet_within(second, milliseconds(300)), "a stranger was taken for rank 0");
  CHECK(second.refused() == 6, std::to_string(second.refused()));
  CHECK(contains(second.wire().last_refused(), "127.0.0.1:"), second.wire().last_refused());
  says(&hello, 20);
  fds.push_back(stranger_at(place));
  CHECK(contains(second.missing(), "no connection to rank 0 on host0: it has not connected"), second.missing());
  std::thread other([&] {
    first.connect(networks.neighbours(0));
    CHECK(meet_within(first, milliseconds(10'000)), first.missing());
  });
  CHECK(meet_within(second, milliseconds(10'000)), second.missing());
  other.join();
  CHECK(second.refused() == 8, std::to_string(second.refused()));
  CHECK(second.missing().empty(), second.missing());
  for (int fd : fds) {
    char byte = 0;
    CHECK(recv(fd, &byte, 1, 0) <= 0, "a stranger was answered");
    close(fd);
  }
}

// One who gives up after he was answered is not taken for connected: he comes again.
void late(Random&) {
  Networks networks({1, 1}, "the secret");
  Network& second = *networks.ends[1];
  const int fd = stranger_at(second.wire().address());
  Hello hello;
  std::memcpy(hello.proof, greeting("the secret", 0, 1).data(), 32);
  CHECK(write(fd, &hello, sizeof hello) == sizeof hello, "write");
  close(fd);
  second.connect(networks.neighbours(1));
  CHECK(!meet_within(second, milliseconds(300)), "a connection that is gone counts");
  std::thread other([&] {
    networks.ends[0]->connect(networks.neighbours(0));
    CHECK(meet_within(*networks.ends[0], milliseconds(10'000)), networks.ends[0]->missing());
  });
  CHECK(meet_within(second, milliseconds(10'000)), second.missing());
  other.join();
}

void another_secret(Random&) {
  Networks networks({1, 1}, "the secret");
  Networks others({1, 1}, "another one");
  Neighbours wrong = others.neighbours(1);
  wrong.addresses = networks.neighbours(1).addresses;
  networks.ends[0]->connect(networks.neighbours(0));
  networks.ends[1]->connect(wrong);
  std::thread other([&] { CHECK(!meet_within(*networks.ends[1], milliseconds(500)), "met"); });
  CHECK(!meet_within(*networks.ends[0], milliseconds(500)), "met");
  other.join();
  CHECK(networks.ends[1]->refused() > 0, "nobody was refused");
  CHECK(contains(networks.ends[0]->missing(), "no connection to rank 1 on host1: "), networks.ends[0]->missing());
}

std::string thrown_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const Failure& failure) {
    CHECK(!failure.remedy.empty(), failure.what());
    return failure.what();
  }
  return "";
}

void addresses(Random&) {
  const std::vector<Interface> own = interfaces("lo");
  CHECK(contains(thrown_by([] { interfaces("nic-of-nobody"); }), "no network interface of nic-of-nobody is up"), "");
  for (const char* bad : {"192.0.2.1", "192.0.2.1 0", "192.0.2.1 65536", "192.0.2.1 1x", "hosta 4711", " 4711", "\n"})
    CHECK(contains(thrown_by([&] { routes(bad, own); }), "cannot be read"), bad);
  const auto words = [&](const std::string& told) {
    std::string text;
    for (const Route& route : routes(told, own)) text += route.to.words() + " ";
    return text;
  };
  // The loopback's network first; what both have last, and only where there is nothing else.
  CHECK(words("192.0.2.1 5\n127.0.0.1 5\n2001:db8::1 5\n127.0.0.2 6\n") == "127.0.0.2:6 192.0.2.1:5 [2001:db8::1]:5 ",
        words("192.0.2.1 5\n127.0.0.1 5\n2001:db8::1 5\n127.0.0.2 6\n"));
  CHECK(words("127.0.0.1 5\n") == "127.0.0.1:5 ", words("127.0.0.1 5\n"));
  CHECK(routes("127.0.0.2 6\n", own).front().from.words() == "127.0.0.1:0", "not from its own interface");
}

Call sum_of(const Programs& programs, const PerHost& per_host, std::size_t count, Group& group) {
  Arguments arguments;
  arguments.count = count;
  const Algorithm& ring = find(programs, Collective::AllReduce, "ring", group.n_ranks(), 0, Exchange::Staged, hosts_named(per_host));
  return make_call(ring, group.rank(), arguments, group.half_bytes());
}

}  // namespace

void test_sockets(std::uint64_t seed) {
  Random random(seed);
  addresses(random);
  streams(random);
  without_data(random);
  nonsense(random);
  strangers(random);
  late(random);
  another_secret(random);
}

void test_lost_hosts(const Programs& programs, RanksAre kind) {
  constexpr std::size_t kCount = 200'000;
  GroupOptions options;
  options.waiting = {0, 10, 30};
  const auto call = [&](Group& group, const PerHost& per_host) {
    std::vector<float> input(kCount, 1), output(kCount);
    const Call sum = sum_of(programs, per_host, kCount, group);
    group.run(sum, input.data(), output.data());
    CHECK(output[kCount - 1] == static_cast<float>(group.n_ranks()), std::to_string(output[kCount - 1]));
  };
  const PerHost four{1, 1, 1, 1}, pair{2, 1}, two{1, 1};
  // Dies between calls, and in the middle of a call of the others.
  if (kind == RanksAre::Processes) {
    const std::vector<int> ended = run_ranks(kind, 4, options, [&](Group& group) {
      call(group, four);
      if (group.rank() == 1) raise(SIGKILL);
      const std::string text = thrown_by([&] { call(group, four); });
      CHECK(contains(text, "rank 1 on host1 died, or the network to it broke ("), text);
      CHECK(thrown_by([&] { call(group, four); }) == text, text);
    }, four);
    for (std::size_t rank = 0; rank < ended.size(); rank++)
      CHECK(ended[rank] == (rank == 1 ? SIGKILL : 0), std::to_string(ended[rank]));
  }
  // Leaves while the others call.
  run_ranks_well(kind, 3, options, [&](Group& group) {
    call(group, pair);
    if (group.rank() == 2) return group.leave();
    const std::string text = thrown_by([&] { call(group, pair); });
    CHECK(contains(text, "rank 2 on host1 has closed its communicator"), text);
  }, pair);
  // Hangs: nobody's buffers are touched after the time is out.
  options.waiting.timeout_s = 1;
  run_ranks_well(kind, 2, options, [&](Group& group) {
    call(group, two);
    if (group.rank() == 1) {
      const auto end = std::chrono::steady_clock::now() + milliseconds(1500);
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
    const std::string text = thrown_by([&] { call(group, two); });
    CHECK(contains(text, "no sign of rank 1 on host1 for 1 s"), text);
  }, two);
}

}  // namespace autotune::test
