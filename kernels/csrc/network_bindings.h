// The Python face of network.h.
#pragma once

#include <nanobind/nanobind.h>

namespace autotune {

void register_network(nanobind::module_& m);

}  // namespace autotune
