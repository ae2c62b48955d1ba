// See network_bindings.h. Addresses and greetings are bytes; only meet() waits.
#include "network_bindings.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "network.h"
#include "socket_wire.h"
#include "ucx_wire.h"

namespace nb = nanobind;

namespace autotune {
namespace {

std::vector<std::string> strings(const std::vector<nb::bytes>& values) {
  std::vector<std::string> found;
  for (const nb::bytes& value : values) found.emplace_back(value.c_str(), value.size());
  return found;
}

std::shared_ptr<Network> by_ucx(const std::vector<std::string>& libraries, const std::string& devices, int rank,
                                int n_ranks) {
  return std::make_shared<Network>(std::make_unique<UcxWire>(libraries, devices, n_ranks), rank, n_ranks);
}

std::shared_ptr<Network> by_sockets(const std::string& devices, int rank, int n_ranks) {
  return std::make_shared<Network>(std::make_unique<SocketWire>(devices, rank, n_ranks), rank, n_ranks);
}

void connect(Network& network, const std::vector<int>& host_of, const std::vector<std::string>& host_names,
             const std::vector<nb::bytes>& addresses, const std::vector<nb::bytes>& greetings_out,
             const std::vector<nb::bytes>& greetings_in) {
  network.connect({host_of, host_names, strings(addresses), strings(greetings_out), strings(greetings_in)});
}

}  // namespace

void register_network(nb::module_& m) {
  nb::class_<Network>(m, "Network", "One rank's connections to ranks of other hosts.")
      .def_static("ucx", &by_ucx, nb::arg("libraries"), nb::arg("devices"), nb::arg("rank"), nb::arg("n_ranks"))
      .def_static("sockets", &by_sockets, nb::arg("devices"), nb::arg("rank"), nb::arg("n_ranks"))
      .def_prop_ro("address",
                   [](const Network& network) {
                     const std::string address = network.wire().address();
                     return nb::bytes(address.data(), address.size());
                   })
      .def_prop_ro("name", [](const Network& network) { return network.wire().name(); }, "ucx or sockets.")
      .def_prop_ro("library", [](const Network& network) { return network.wire().library(); }, "UCX's path, or empty.")
      .def_prop_ro("version", [](const Network& network) { return network.wire().version(); }, "UCX's, or empty.")
      .def_prop_ro("rank", &Network::rank)
      .def_prop_ro("refused", &Network::refused)
      .def("connect", &connect, nb::arg("host_of"), nb::arg("host_names"), nb::arg("addresses"),
           nb::arg("greetings_out"), nb::arg("greetings_in"),
           "By rank: its host, its address, 32 bytes of proof and 8 of token to send and to expect.")
      .def("meet", [](Network& network, double at_most_s) {
             const nb::gil_scoped_release released;
             return network.meet(std::chrono::milliseconds(static_cast<std::int64_t>(at_most_s * 1e3)));
           }, nb::arg("at_most_s"), "Goes on connecting; whether all are connected.")
      .def("missing", &Network::missing, "What keeps it from being connected, for people; empty if nothing does.")
      .def_prop_ro("last_refused", [](const Network& network) { return network.wire().last_refused(); },
                   "Where the last stranger came from whose connection was closed, or empty.")
      .def("transports", [](const Network& network, int rank) { return network.wire().transports(rank); },
           nb::arg("rank"), "Such as tcp/eth0, to a rank of another host.");
}

}  // namespace autotune
