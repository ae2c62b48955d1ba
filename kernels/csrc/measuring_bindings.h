// The Python face of what measuring needs: inputs and their check, arithmetic and messages alone.
#pragma once

#include <nanobind/nanobind.h>

namespace autotune {

void register_measuring(nanobind::module_& m);

}  // namespace autotune
