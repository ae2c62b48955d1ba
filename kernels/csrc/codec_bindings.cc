// Codecs for Python: error feedback, tests and benchmarks. The executor itself calls codec.h.
#include "codec_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "codec.h"
#include "view.h"

namespace nb = nanobind;

namespace autotune {
namespace {

void make(Codec* self, int kind, double parameter, int dtype, const std::optional<std::string>& variant) {
  const CodecKernels* kernels = variant ? codec_kernels_named(variant->c_str()) : &codec_kernels();
  if (!kernels) throw BadArgument("codec variant " + *variant + " does not run here", "use the baseline variant");
  new (self) Codec({checked<CodecKind>(kind, kCodecKinds, "codec"), parameter}, dtype_of(dtype), *kernels);
}

std::size_t elements_of(const Codec& codec, const View& view, const char* what) {
  const std::size_t elements = view.bytes() / item_bytes(codec.dtype());
  check_size(what, view.bytes(), elements, codec.dtype());
  return elements;
}

void check_residual(const Codec& codec, const View& residual, std::size_t elements) {
  check_size("residual", residual.bytes(), elements,
             residual_bytes(codec.dtype()) == 8 ? DType::Float64 : DType::Float32);
}

std::size_t encode(const Codec& codec, nb::handle data_object, nb::handle wire_object) {
  const View data(data_object, false, "data"), wire(wire_object, true, "wire");
  const std::size_t elements = elements_of(codec, data, "data"), limit = codec.limit(elements);
  if (wire.bytes() < limit)
    throw BadArgument("wire has " + std::to_string(wire.bytes()) + " bytes, fewer than " + std::to_string(limit),
                      "give it limit(elements) bytes");
  const nb::gil_scoped_release released;
  return codec.encode(data.data(), elements, wire.data());
}

// Decodes `data` as a reader does, `tile` elements at a time; returns the bytes that the encoding had.
std::size_t decode(const Codec& codec, nb::handle wire_object, nb::handle data_object, std::size_t tile) {
  const View wire(wire_object, false, "wire"), data(data_object, true, "data");
  const std::size_t elements = elements_of(codec, data, "data");
  if (tile == 0 || tile % kCodecBlock)
    throw BadArgument("a tile of " + std::to_string(tile) + " elements does not hold whole codec blocks",
                      "give a multiple of " + std::to_string(kCodecBlock));
  const nb::gil_scoped_release released;
  Decoder decoder(codec, wire.data(), wire.bytes());
  for (std::size_t first = 0; first < elements; first += tile) {
    const std::size_t length = elements - first < tile ? elements - first : tile;
    if (!decoder.next(length, data.data() + first * item_bytes(codec.dtype())))
      throw BadArgument("the bytes are no encoding of " + std::to_string(elements) + " elements",
                        "decode with the codec, type and number of elements that encoded them");
  }
  return decoder.used();
}

void requantise(const Codec& codec, nb::handle data_object, nb::handle out_object) {
  const View data(data_object, false, "data"), out(out_object, true, "out");
  const std::size_t elements = elements_of(codec, data, "data");
  check_size("out", out.bytes(), elements, codec.dtype());
  const nb::gil_scoped_release released;
  codec.requantise(data.data(), elements, out.data());
}

void collect(const Codec& codec, nb::handle before_object, nb::handle after_object, double weight,
             nb::handle residual_object) {
  const View before(before_object, false, "before"), after(after_object, false, "after");
  const View residual(residual_object, true, "residual");
  const std::size_t elements = elements_of(codec, before, "before");
  check_size("after", after.bytes(), elements, codec.dtype());
  check_residual(codec, residual, elements);
  const nb::gil_scoped_release released;
  codec.collect(before.data(), after.data(), weight, residual.data(), elements);
}

void correct(const Codec& codec, nb::handle data_object, nb::handle residual_object, nb::handle out_object) {
  const View data(data_object, false, "data"), residual(residual_object, true, "residual");
  const View out(out_object, true, "out");
  const std::size_t elements = elements_of(codec, data, "data");
  check_size("out", out.bytes(), elements, codec.dtype());
  check_residual(codec, residual, elements);
  const nb::gil_scoped_release released;
  codec.correct(data.data(), residual.data(), out.data(), elements);
}

}  // namespace

void register_codecs(nb::module_& m) {
  m.attr("CODEC_BLOCK") = kCodecBlock;
  nb::class_<Codec>(m, "Codec", "A lossy codec for one type; see kernels/codecs.py.")
      .def("__init__", &make, nb::arg("kind"), nb::arg("parameter"), nb::arg("dtype"), nb::arg("variant") = nb::none())
      .def("limit", &Codec::limit, nb::arg("elements"), "Bytes that `wire` needs to encode so many elements.")
      .def("encode", &encode, nb::arg("data"), nb::arg("wire"), "Returns the bytes of the encoding.")
      .def("decode", &decode, nb::arg("wire"), nb::arg("data"), nb::arg("tile") = 16 * kCodecBlock,
           "Fills `data`, `tile` elements at a time; returns the bytes that the encoding had.")
      .def("requantise", &requantise, nb::arg("data"), nb::arg("out"), "out = decode(encode(data)).")
      .def("collect", &collect, nb::arg("before"), nb::arg("after"), nb::arg("weight"), nb::arg("residual"),
           "residual += weight * (before - after), where that is finite.")
      .def("correct", &correct, nb::arg("data"), nb::arg("residual"), nb::arg("out"),
           "out = data + residual, rounded; the residual becomes what the rounding left.");
}

}  // namespace autotune
