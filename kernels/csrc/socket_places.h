// Where a rank can be reached by TCP: the addresses of its network interfaces, as it tells them and as others read them.
//
// In: names of interfaces; what another rank told. Out: places, the best first. Opens no connection.
//
// Names of hosts are never looked up, so it does not matter what they resolve to. A rank tells the addresses of all its
// interfaces that are up; who connects begins with one that is in a network of its own, and by the fastest interface. An
// address that both have (that of a bridge for containers) leads to oneself and is left out.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace autotune {

struct SocketPlace {
  sockaddr_storage address{};  // of IPv4 or IPv6, with its port
  socklen_t length = 0;

  std::string words() const;  // 192.0.2.1:4711 or [2001:db8::1]:4711
};

struct Interface {
  std::string name;
  SocketPlace place;       // port 0
  sockaddr_storage mask{};
  long mbit = 0;           // 0 where the system does not say
};

// The interfaces that are up, or those of the names given with commas between them, the fastest first; without names not
// the loopback. Throws Failure if there are none.
std::vector<Interface> interfaces(const std::string& names);

// One line for each place.
std::string told(const std::vector<SocketPlace>& places);

struct Route {
  SocketPlace to;
  SocketPlace from;  // of the interface in the same network; length 0 where the system shall choose
};

// The places of what a rank told, in the order in which to try them. Throws Failure where it cannot be read.
std::vector<Route> routes(const std::string& told, const std::vector<Interface>& own);

// The name of the interface with this address; "" for none.
std::string interface_of(const SocketPlace& place, const std::vector<Interface>& own);

}  // namespace autotune
