// See network_bindings.h. Addresses and greetings are bytes; nothing here waits.
#include "network_bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "network.h"

namespace nb = nanobind;

namespace autotune {
namespace {

std::vector<std::string> strings(const std::vector<nb::bytes>& values) {
  std::vector<std::string> found;
  for (const nb::bytes& value : values) found.emplace_back(value.c_str(), value.size());
  return found;
}

void connect(Network& network, const std::vector<int>& host_of, const std::vector<std::string>& host_names,
             const std::vector<nb::bytes>& addresses, const std::vector<nb::bytes>& greetings_out,
             const std::vector<nb::bytes>& greetings_in) {
  network.connect({host_of, host_names, strings(addresses), strings(greetings_out), strings(greetings_in)});
}

}  // namespace

void register_network(nb::module_& m) {
  nb::class_<Network>(m, "Network", "One rank's connections to ranks of other hosts, by UCX.")
      .def(nb::init<const std::vector<std::string>&, const std::string&, int, int>(), nb::arg("libraries"),
           nb::arg("devices"), nb::arg("rank"), nb::arg("n_ranks"))
      .def_prop_ro("address",
                   [](const Network& network) {
                     const std::string address = network.address();
                     return nb::bytes(address.data(), address.size());
                   })
      .def_prop_ro("library", [](const Network& network) { return network.library().path; })
      .def_prop_ro("version", [](const Network& network) { return network.library().version; })
      .def_prop_ro("rank", &Network::rank)
      .def_prop_ro("refused", &Network::refused)
      .def("connect", &connect, nb::arg("host_of"), nb::arg("host_names"), nb::arg("addresses"),
           nb::arg("greetings_out"), nb::arg("greetings_in"),
           "By rank: its host, its address, 32 bytes of proof and 8 of token to send and to expect.")
      .def("transports", &Network::transports, nb::arg("rank"), "Such as tcp/eth0, to a rank of another host.");
}

}  // namespace autotune
