// See measuring_bindings.h. No call of a collective passes here.
#include "measuring_bindings.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "group.h"
#include "pattern.h"
#include "reduce.h"
#include "single_copy.h"
#include "view.h"

namespace nb = nanobind;

namespace autotune {
namespace {

using Buffers = nb::typed<nb::sequence, nb::object>;

// Half the round trip of a message between ranks 0 and 1 of a group, in seconds, over `turns` round trips.
double pingpong(Group& group, nb::handle object, long turns) {
  const View data(object, true, "data");
  if (group.rank() > 1) throw BadArgument("pingpong is between ranks 0 and 1, and this is another", "call it there only");
  const nb::gil_scoped_release released;
  const int peer = 1 - group.rank();
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < turns; i++) {
    if (group.rank() == 0) group.send(peer, data.data(), data.bytes(), DType::UInt8);
    group.recv(peer, data.data(), data.bytes(), DType::UInt8);
    if (group.rank() == 1) group.send(peer, data.data(), data.bytes(), DType::UInt8);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / (2.0 * static_cast<double>(turns));
}

void combine(const std::string& variant, int dtype, int op, const Buffers& sources, nb::handle output_object,
             int divisor) {
  const Arithmetic* table = arithmetic_named(variant.c_str());
  if (!table) throw BadArgument("arithmetic " + variant + " does not run here", "use the baseline variant");
  std::vector<std::unique_ptr<View>> views;
  std::vector<const void*> pointers;
  const View output(output_object, true, "output");
  for (nb::handle object : sources) {
    views.push_back(std::make_unique<View>(object, false, "source"));
    if (views.back()->bytes() != output.bytes())
      throw BadArgument("sources and output differ in size", "pass buffers of one size");
    pointers.push_back(views.back()->data());
  }
  if (pointers.size() < 2) throw BadArgument("fewer than two sources", "pass at least two");
  table->reduce[static_cast<int>(dtype_of(dtype))][static_cast<int>(checked<Op>(op, kOps, "op"))](
      output.data(), pointers.data(), static_cast<int>(pointers.size()), 0, output.bytes() / item_bytes(dtype_of(dtype)),
      divisor);
}

}  // namespace

void register_measuring(nb::module_& m) {
  m.def("fill",
        [](nb::handle object, int dtype, int modulus, int batch, int rank, std::size_t first) {
          const View data(object, true, "data");
          Pattern{dtype_of(dtype), modulus, batch}.fill(data.data(), data.bytes() / item_bytes(dtype_of(dtype)), rank,
                                                        first);
        },
        nb::arg("data"), nb::arg("dtype"), nb::arg("modulus"), nb::arg("batch"), nb::arg("rank"), nb::arg("first"),
        "Writes elements first, first + 1 ... of a rank's input.");
  m.def("poison",
        [](nb::handle object) {
          const View data(object, true, "data");
          Pattern::poison(data.data(), data.bytes());
        },
        nb::arg("data"), "Overwrites a buffer with bytes that are no right answer.");
  m.def("first_wrong",
        [](nb::handle object, int dtype, int modulus, int batch, const std::vector<int>& ranks, std::size_t first) {
          const View data(object, false, "data");
          return Pattern{dtype_of(dtype), modulus, batch}.first_wrong(
              data.data(), data.bytes() / item_bytes(dtype_of(dtype)), ranks, first);
        },
        nb::arg("data"), nb::arg("dtype"), nb::arg("modulus"), nb::arg("batch"), nb::arg("ranks"), nb::arg("first"),
        "Index of the first element that is not the sum of these ranks' inputs, or -1.");
  m.def("got_and_expected",
        [](nb::handle object, int dtype, int modulus, int batch, const std::vector<int>& ranks, std::size_t first,
           std::size_t index) {
          const View data(object, false, "data");
          const Pattern pattern{dtype_of(dtype), modulus, batch};
          return std::pair(pattern.value(data.data(), index), pattern.expected(first + index, ranks));
        },
        nb::arg("data"), nb::arg("dtype"), nb::arg("modulus"), nb::arg("batch"), nb::arg("ranks"), nb::arg("first"),
        nb::arg("index"), "An element and what it should be (16-bit floats: the element's bits).");
  m.def("combine", &combine, nb::arg("variant"), nb::arg("dtype"), nb::arg("op"), nb::arg("sources"),
        nb::arg("output"), nb::arg("divisor"), "Combines buffers by one variant of the arithmetic.");
  m.def("pingpong", &pingpong, nb::arg("group"), nb::arg("data"), nb::arg("turns"),
        "Seconds of one message between ranks 0 and 1: half a round trip.");
  m.def("own_memory_fault", &own_memory_fault,
        "Why this process may not read even its own memory through the kernel; empty where it may.");
  m.def("die_with_parent", [] { prctl(PR_SET_PDEATHSIG, SIGKILL); },
        "This process is killed when the thread that started it ends.");
  m.def("arithmetic", [] { return std::string(arithmetic().name); }, "The variant that this CPU runs.");
}

}  // namespace autotune
