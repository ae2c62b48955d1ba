// See socket_places.h.
#include "socket_places.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include "failure.h"

namespace autotune {
namespace {

constexpr const char* kRemedy = "run `autotune doctor`, or choose interfaces with AUTOTUNE_NET_DEVICES";
constexpr std::size_t kMostPlaces = 64;

std::string_view bytes_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr), sizeof(in_addr)};
  return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr), sizeof(in6_addr)};
}

bool same_address(const SocketPlace& a, const SocketPlace& b) {
  return a.address.ss_family == b.address.ss_family && bytes_of(a.address) == bytes_of(b.address);
}

bool same_network(const SocketPlace& place, const Interface& own) {
  if (place.address.ss_family != own.place.address.ss_family) return false;
  const std::string_view a = bytes_of(place.address), b = bytes_of(own.place.address), mask = bytes_of(own.mask);
  for (std::size_t i = 0; i < a.size(); i++)
    if ((a[i] & mask[i]) != (b[i] & mask[i])) return false;
  return true;
}

long rate_of(const std::string& name) {
  long mbit = 0;
  std::ifstream file("/sys/class/net/" + name + "/speed");
  return file >> mbit && mbit > 0 ? mbit : 0;
}

bool usable(const ifaddrs& entry) {
  if (!entry.ifa_addr || !entry.ifa_netmask || !(entry.ifa_flags & IFF_UP) || !(entry.ifa_flags & IFF_RUNNING)) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  // A link-local address needs the name of an interface, which differs from host to host.
  return entry.ifa_addr->sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

bool listed(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

// "192.0.2.1 4711"
std::optional<SocketPlace> parsed(const std::string& line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string::npos) return std::nullopt;
  const std::string host = line.substr(0, blank);
  std::uint16_t port = 0;
  const char* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data() + blank + 1, end, port);
  if (error != std::errc{} || rest != end || port == 0) return std::nullopt;
  SocketPlace place;
  auto& v4 = reinterpret_cast<sockaddr_in&>(place.address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(place.address);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET, v4.sin_port = htons(port), place.length = sizeof v4;
  } else if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6, v6.sin6_port = htons(port), place.length = sizeof v6;
  } else {
    return std::nullopt;
  }
  return place;
}

std::pair<std::string, int> host_and_port(const SocketPlace& place) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(place.address.ss_family, bytes_of(place.address).data(), text, sizeof text);
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(place.address);  // the port lies at the same place in both
  return {text, ntohs(v4.sin_port)};
}

}  // namespace

std::string SocketPlace::words() const {
  const auto [host, port] = host_and_port(*this);
  return (address.ss_family == AF_INET6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::vector<Interface> interfaces(const std::string& names) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) throw Failure(std::string("network interfaces: ") + std::strerror(errno), kRemedy);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = all; entry; entry = entry->ifa_next) {
    if (!usable(*entry)) continue;
    if (names.empty() ? (entry->ifa_flags & IFF_LOOPBACK) != 0 : !listed(names, entry->ifa_name)) continue;
    Interface interface;
    interface.name = entry->ifa_name;
    interface.place.length = entry->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&interface.place.address, entry->ifa_addr, interface.place.length);
    std::memcpy(&interface.mask, entry->ifa_netmask, interface.place.length);
    interface.mask.ss_family = entry->ifa_addr->sa_family;
    interface.mbit = rate_of(interface.name);
    found.push_back(interface);
  }
  if (found.empty())
    throw Failure(names.empty() ? "no network interface but the loopback is up and has an address"
                                : "no network interface of " + names + " is up and has an address",
                  kRemedy);
  const auto rank = [](const Interface& interface) {
    return std::pair(-interface.mbit, interface.place.address.ss_family == AF_INET6);
  };
  std::stable_sort(found.begin(), found.end(), [&](const Interface& a, const Interface& b) { return rank(a) < rank(b); });
  if (found.size() > kMostPlaces) found.resize(kMostPlaces);
  return found;
}

std::string told(const std::vector<SocketPlace>& places) {
  std::string lines;
  for (const SocketPlace& place : places) {
    const auto [host, port] = host_and_port(place);
    lines += host + " " + std::to_string(port) + "\n";
  }
  return lines;
}

std::vector<Route> routes(const std::string& told, const std::vector<Interface>& own) {
  std::vector<Route> near, far, mine;
  std::istringstream lines(told);
  std::size_t n = 0;
  for (std::string line; std::getline(lines, line); n++) {
    const std::optional<SocketPlace> place = parsed(line);
    if (!place || n == kMostPlaces)
      throw Failure("a rank's address for sockets cannot be read", "start all ranks with the same version of autotune");
    const auto has = [&](const Interface& interface) { return same_address(interface.place, *place); };
    const auto reaches = [&](const Interface& interface) { return same_network(*place, interface); };
    const auto from = std::find_if(own.begin(), own.end(), reaches);
    if (std::any_of(own.begin(), own.end(), has)) mine.push_back({*place, {}});
    else if (from != own.end()) near.push_back({*place, from->place});
    else far.push_back({*place, {}});
  }
  near.insert(near.end(), far.begin(), far.end());
  return near.empty() ? mine : near;  // hosts that share all addresses are one machine, and reach each other by them
}

std::string interface_of(const SocketPlace& place, const std::vector<Interface>& own) {
  for (const Interface& interface : own)
    if (same_address(interface.place, place)) return interface.name;
  return "";
}

}  // namespace autotune
