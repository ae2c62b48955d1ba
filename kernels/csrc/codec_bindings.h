// The Python face of codec.h; called by bindings.cc.
#pragma once

#include <nanobind/nanobind.h>

namespace autotune {

void register_codecs(nanobind::module_& m);

}  // namespace autotune
