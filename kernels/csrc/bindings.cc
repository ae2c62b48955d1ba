// The Python face of the native code: arguments in, calls on the files beside this one, errors out. No logic.
//
// Buffers come through the buffer protocol (NumPy arrays, memoryview, bytearray ...), are checked for size and
// contiguity and never copied. Every call that may wait runs without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "codec_bindings.h"
#include "failure.h"
#include "group.h"
#include "measuring_bindings.h"
#include "network_bindings.h"
#include "program.h"
#include "segment.h"
#include "view.h"

namespace nb = nanobind;

namespace autotune {
namespace {

using Buffers = nb::typed<nb::sequence, nb::object>;

Op op_of(int value) { return checked<Op>(value, kOps, "op"); }

// In place means: the part that both buffers hold lies at the same address. Any other overlap would be overwritten
// while it is read.
void check_overlap(const Call& call, int rank, const View& input, const View& output) {
  const char *in = input.data(), *out = output.data();
  if (!in || !out || in + input.bytes() <= out || out + output.bytes() <= in) return;
  const std::size_t part = static_cast<std::size_t>(rank) * call.plan.count * call.plan.item;
  bool in_place = false;
  switch (call.collective) {
    case Collective::AllReduce:
    case Collective::Reduce:
    case Collective::Broadcast: in_place = in == out; break;
    case Collective::AllGather:
    case Collective::Gather: in_place = in == out + part; break;
    case Collective::ReduceScatter:
    case Collective::Scatter: in_place = out == in + part; break;
    case Collective::AllToAll: break;
  }
  if (!in_place)
    throw BadArgument("input and output overlap",
                      "pass separate buffers, or the same memory for the part that both hold (not for all_to_all)");
}

void check_buffers(const Group& group, const Call& call, const View& input, const View& output) {
  if (call.input_elements || input.given()) check_size("input", input.bytes(), call.input_elements, call.dtype);
  if (call.output_elements || output.given())
    check_size("output", output.bytes(), call.output_elements, call.dtype);
  check_overlap(call, group.rank(), input, output);
}

void check(const Group& group, const Call& call, nb::handle input_object, nb::handle output_object) {
  check_buffers(group, call, View(input_object, false, "input"), View(output_object, true, "output"));
}

void run(Group& group, const Call& call, nb::handle input_object, nb::handle output_object) {
  const View input(input_object, false, "input"), output(output_object, true, "output");
  check_buffers(group, call, input, output);
  const nb::gil_scoped_release released;
  group.run(call, input.data(), output.data());
}

// As run(); what encoding drops is added to the residual, which has an element for each of the input (codec.h).
void run_collecting(Group& group, const Call& call, nb::handle input_object, nb::handle output_object,
                    nb::handle residual_object) {
  const View input(input_object, false, "input"), output(output_object, true, "output");
  const View residual(residual_object, true, "residual");
  check_buffers(group, call, input, output);
  check_size("residual", residual.bytes(), call.input_elements,
             residual_bytes(call.dtype) == 8 ? DType::Float64 : DType::Float32);
  const nb::gil_scoped_release released;
  group.run(call, input.data(), output.data(), nullptr, residual.data());
}

void run_split(Group& group, const Call& call, nb::handle input_object, nb::handle output_object,
               const std::vector<std::size_t>& input_counts, const std::vector<std::size_t>& output_counts) {
  const View input(input_object, false, "input"), output(output_object, true, "output");
  Splits splits;
  const auto place = [&](const std::vector<std::size_t>& counts, std::vector<std::size_t>& starts, const char* what) {
    if (counts.size() != static_cast<std::size_t>(group.n_ranks()))
      throw BadArgument(std::string(what) + " has " + std::to_string(counts.size()) + " entries, not one for each of " +
                            std::to_string(group.n_ranks()) + " ranks",
                        "give one count for each rank");
    std::size_t start = 0;
    for (std::size_t count : counts) {
      if (count > call.plan.count)
        throw BadArgument(std::string(what) + " has a part of " + std::to_string(count) + " elements, above the agreed " +
                              std::to_string(call.plan.count),
                          "agree on the largest part of all ranks first");
      starts.push_back(start);
      start += count;
    }
    return start;
  };
  const std::size_t sent = place(input_counts, splits.input_offsets, "input_counts");
  const std::size_t taken = place(output_counts, splits.output_offsets, "output_counts");
  check_size("input", input.bytes(), sent, call.dtype);
  check_size("output", output.bytes(), taken, call.dtype);
  check_overlap(call, group.rank(), input, output);
  splits.input_counts = input_counts;
  splits.output_counts = output_counts;
  const nb::gil_scoped_release released;
  group.run(call, input.data(), output.data(), &splits);
}

// Runs `calls` calls back to back over a rotation of buffers, between barriers; seconds of this rank. The second barrier
// keeps a rank that is through from what its caller does next, which would take a core from those that are not: measured
// at 4 ranks on 2 cores, up to 200 us of a call of 60.
double time_calls(Group& group, const Call& call, const Call& barrier, const Buffers& inputs, const Buffers& outputs,
                  long calls) {
  std::vector<std::unique_ptr<View>> in, out;
  for (nb::handle object : inputs) in.push_back(std::make_unique<View>(object, false, "input"));
  for (nb::handle object : outputs) out.push_back(std::make_unique<View>(object, true, "output"));
  if (in.empty() || in.size() != out.size())
    throw BadArgument("inputs and outputs have different lengths, or none", "pass one output for each input");
  for (std::size_t i = 0; i < in.size(); i++) {
    check_size("input", in[i]->bytes(), call.input_elements, call.dtype);
    check_size("output", out[i]->bytes(), call.output_elements, call.dtype);
    check_overlap(call, group.rank(), *in[i], *out[i]);
  }
  const nb::gil_scoped_release released;
  char token = 0, sink = 0;
  group.run(barrier, &token, &sink);
  group.run(barrier, &token, &sink);
  const auto start = std::chrono::steady_clock::now();
  std::size_t buffer = 0;
  for (long i = 0; i < calls; i++) {
    group.run(call, in[buffer]->data(), out[buffer]->data());
    if (++buffer == in.size()) buffer = 0;
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  group.run(barrier, &token, &sink);
  return taken.count();
}

// Ctrl-C while waiting: Python's handlers run, and what they raise ends the wait.
void check_signals() {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void join(Group* self, int fd, int rank, int spins, int yields, double timeout_s, bool check,
          std::shared_ptr<Network> network) {
  GroupOptions options;
  options.waiting = WaitPolicy{spins, yields, timeout_s};
  options.check = check;
  options.interrupted = check_signals;
  options.network = std::move(network);
  const nb::gil_scoped_release released;
  new (self) Group(fd, rank, std::move(options));
}

Call prepare(const Group& group, std::shared_ptr<Program> program, int collective, int dtype, int op, int root,
             const std::string& algorithm, std::size_t count, std::size_t segment_bytes, int in_flight,
             bool stream, int outbox, const std::optional<std::pair<int, double>>& codec) {
  std::optional<CodecSpec> spec;
  if (codec) spec = CodecSpec{checked<CodecKind>(codec->first, kCodecKinds, "codec"), codec->second};
  return Call::make(std::move(program), checked<Collective>(collective, kCollectives, "collective"), dtype_of(dtype),
                    op_of(op), root, algorithm, count, segment_bytes, in_flight, stream,
                    checked<Outbox>(outbox, kOutboxes, "outbox"), group.half_bytes(), spec);
}

void raise_as(const char* type, const Failure& failure) {
  const nb::object errors = nb::module_::import_("autotune.errors");
  const nb::object error = errors.attr(type)(failure.what(), nb::arg("remedy") = failure.remedy);
  PyErr_SetObject(error.type().ptr(), error.ptr());
}

void register_errors() {
  nb::register_exception_translator([](const std::exception_ptr& caught, void*) {
    try {
      std::rethrow_exception(caught);
    } catch (const BadArgument& failure) {
      raise_as("UsageError", failure);
    } catch (const Failure& failure) {
      raise_as("CommunicatorError", failure);
    }
  });
}

void register_group(nb::module_& m) {
  m.def("create_segment", &Segment::create, nb::arg("n_ranks"), nb::arg("staging_bytes"), nb::arg("symmetric_bytes"),
        "A new sealed memory segment for a group; returns a descriptor that the caller owns.");
  nb::class_<Program>(m, "Program", "A compiled schedule of one rank: Program.flatten() of kernels/compiler.py.")
      .def("__init__", [](Program* self, const std::vector<std::int64_t>& words) { new (self) Program(Program::load(words)); },
           nb::arg("words"))
      .def("slices",
           [](const Program& program, std::size_t count, int dtype, std::size_t segment_bytes, std::size_t staging_bytes,
              int in_flight) {
             return Plan::derive(program, count, dtype_of(dtype), segment_bytes, staging_bytes / 2, in_flight).slices;
           },
           nb::arg("count"), nb::arg("dtype"), nb::arg("segment_bytes"), nb::arg("staging_bytes"), nb::arg("in_flight"),
           "Into how many slices a call would be cut.");
  nb::class_<Call>(m, "Call", "A call without its buffers; equal on all ranks.")
      .def_prop_ro("slices", [](const Call& call) { return call.plan.slices; })
      .def_prop_ro("zero_copy", [](const Call& call) { return call.program->zero_copy && !call.program->single_copy; })
      .def_prop_ro("single_copy", [](const Call& call) { return call.program->single_copy; })
      .def_ro("input_elements", &Call::input_elements)
      .def_ro("output_elements", &Call::output_elements);
  nb::class_<Group>(m, "Group", "One rank's end of a group that shares a segment.")
      .def("__init__", &join, nb::arg("fd"), nb::arg("rank"), nb::arg("spins"), nb::arg("yields"), nb::arg("timeout_s"),
           nb::arg("check"), nb::arg("network").none() = nb::none())
      .def_prop_ro("rank", &Group::rank)
      .def_prop_ro("n_ranks", &Group::n_ranks)
      .def("prepare", &prepare, nb::arg("program"), nb::arg("collective"), nb::arg("dtype"), nb::arg("op"),
           nb::arg("root"), nb::arg("algorithm"), nb::arg("count"), nb::arg("segment_bytes"), nb::arg("in_flight"),
           nb::arg("stream"), nb::arg("outbox"), nb::arg("codec") = nb::none(),
           "codec: its number and parameter (codec.h), for a program that was made for one.")
      .def("run", &run, nb::arg("call"), nb::arg("input").none(), nb::arg("output").none(),
           nb::sig("def run(self, call: Call, input: object, output: object) -> None"))
      .def("check", &check, nb::arg("call"), nb::arg("input").none(), nb::arg("output").none(),
           nb::sig("def check(self, call: Call, input: object, output: object) -> None"),
           "Raises what run() would say of the buffers.")
      .def("run_collecting", &run_collecting, nb::arg("call"), nb::arg("input"), nb::arg("output"), nb::arg("residual"),
           "As run(); what encoding drops is added to the residual, which has an element for each of the input.")
      .def("run_split", &run_split, nb::arg("call"), nb::arg("input"), nb::arg("output"), nb::arg("input_counts"),
           nb::arg("output_counts"))
      .def("time", &time_calls, nb::arg("call"), nb::arg("barrier"), nb::arg("inputs"), nb::arg("outputs"),
           nb::arg("calls"))
      .def("send",
           [](Group& group, int to, nb::handle object, int dtype) {
             const View data(object, false, "data");
             const nb::gil_scoped_release released;
             group.send(to, data.data(), data.bytes(), dtype_of(dtype));
           },
           nb::arg("to"), nb::arg("data"), nb::arg("dtype"))
      .def("recv",
           [](Group& group, int from, nb::handle object, int dtype) {
             const View data(object, true, "data");
             const nb::gil_scoped_release released;
             group.recv(from, data.data(), data.bytes(), dtype_of(dtype));
           },
           nb::arg("source"), nb::arg("data"), nb::arg("dtype"))
      .def("symmetric",
           [](nb::handle_t<Group> self, std::size_t offset, std::size_t bytes) {
             Group& group = nb::cast<Group&>(self);
             char* const heap = group.heap();
             if (offset > group.heap_bytes() || bytes > group.heap_bytes() - offset)
               throw BadArgument("symmetric memory ends at " + std::to_string(group.heap_bytes()) + " bytes",
                                 "raise AUTOTUNE_SYMMETRIC");
             return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>, nb::c_contig>(heap + offset, {bytes}, self);
           },
           nb::arg("offset"), nb::arg("bytes"),
           nb::sig("def symmetric(self, offset: int, bytes: int) -> numpy.typing.NDArray[numpy.uint8]"),
           "A part of this rank's symmetric memory, which lives as long as the array.")
      .def("forget", &Group::forget, nb::arg("offset"), nb::arg("bytes"),
           "Gives the pages of a part of this rank's symmetric memory back to the system.")
      .def("place",
           [](const Group& group, nb::handle object) -> std::optional<std::size_t> {
             const View data(object, false, "buffer");
             return group.place_of(data.data(), data.bytes());
           },
           nb::arg("buffer").none(), "Where a buffer lies in this rank's symmetric memory, or None.")
      .def_prop_ro("only_cores", &Group::only_cores,
                   "By rank, the core to which it was bound when it joined; -1 where it may run on several.")
      .def_prop_ro("single_copy_fault", &Group::single_copy_fault,
                   "Why calls cannot read the others' private buffers, the same on every rank; empty where they can.")
      .def_prop_ro("symmetric_bytes", &Group::heap_bytes)
      .def("leave", &Group::leave);
}

}  // namespace
}  // namespace autotune

NB_MODULE(_native, m) {
  m.doc() = "Native executor of autotune; used by autotune.kernels, not by people.";
  autotune::register_errors();
  autotune::register_network(m);
  autotune::register_group(m);
  autotune::register_measuring(m);
  autotune::register_codecs(m);
}
