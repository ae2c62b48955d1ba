// Every variant of the codecs that runs here: the same bytes from all, values within what codec.h says, nothing outside
// the buffers (which have exactly their size, for the address sanitizer), whatever the elements or the wire hold.
// Values and bounds are checked against NumPy in tests/kernels/test_codecs.py.
#include "codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "failure.h"
#include "tests.h"

namespace autotune::test {
namespace {

constexpr const char* kVariants[] = {"baseline", "avx2", "avx512"};
constexpr CodecSpec kSpecs[] = {{CodecKind::Threshold, 0},      {CodecKind::Threshold, 0.3}, {CodecKind::Threshold, 2},
                                {CodecKind::ThresholdAbs, 0},   {CodecKind::ThresholdAbs, 1}, {CodecKind::Int8, 0},
                                {CodecKind::Int4, 0}};
constexpr std::size_t kLengths[] = {0,   1,   2,   7,   8,   9,   63,  64,  65,   127,  200,
                                    255, 256, 257, 300, 511, 512, 513, 768, 1023, 1025, 2500};

enum class Values { AnyBits, Normal, MostlyZero, Special, Tiny, Huge };
constexpr Values kValues[] = {Values::AnyBits, Values::Normal, Values::MostlyZero,
                              Values::Special, Values::Tiny,   Values::Huge};

// The bits of a float32 as the type has them: 16-bit types are cut, so that Inf stays Inf and NaN stays NaN.
void put_float(char* at, DType dtype, float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto store = [&](auto element) { std::memcpy(at, &element, sizeof element); };
  if (dtype == DType::Float32) store(value);
  if (dtype == DType::Float64) store(static_cast<double>(value));
  if (dtype == DType::BFloat16) store(static_cast<std::uint16_t>(bits >> 16));
  if (dtype == DType::Float16) {
    const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 112;
    std::uint32_t half = 0;  // subnormals of the type become zeros
    if (exponent >= 31) half = std::isnan(value) ? 0x7E00u : 0x7C00u;
    else if (exponent > 0) half = static_cast<std::uint32_t>(exponent) << 10 | (bits >> 13 & 0x3FF);
    store(static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000)));
  }
}

float normal(Random& random) {
  float sum = 0;
  for (int i = 0; i < 12; i++) sum += static_cast<float>(random() >> 40) * 0x1p-24f;
  return sum - 6;
}

std::vector<char> elements_of(Values values, DType dtype, std::size_t count, Random& random) {
  const std::size_t item = item_bytes(dtype);
  std::vector<char> bytes(count * item);
  const float special[] = {0.f, -0.f, 1.f, -3.f, std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  for (std::size_t i = 0; i < count; i++) {
    float value = normal(random);
    switch (values) {
      case Values::AnyBits: {
        const std::uint64_t bits = random();
        std::memcpy(&bytes[i * item], &bits, item);
        continue;
      }
      case Values::Normal: break;
      case Values::MostlyZero: value = between(random, 0, 39) ? 0 : value; break;
      case Values::Special: value = between(random, 0, 99) ? value : special[between(random, 0, 6)]; break;
      case Values::Tiny: value *= 0x1p-125f; break;
      case Values::Huge: value *= 0x1p124f; break;
    }
    put_float(&bytes[i * item], dtype, value);
  }
  return bytes;
}

std::string describe(const CodecSpec& spec, DType dtype, std::size_t count, const char* variant) {
  return std::string(variant) + ", codec " + std::to_string(static_cast<int>(spec.kind)) + "(" +
         std::to_string(spec.parameter) + "), " + name_of(dtype) + ", " + std::to_string(count) + " elements";
}

// Copies in memory of exactly their size, `shift` bytes from aligned memory.
struct Exact {
  Exact(std::size_t bytes_, std::size_t shift_) : memory(new char[bytes_ + shift_]), shift(shift_), bytes(bytes_) {}
  Exact(const std::vector<char>& from, std::size_t shift_) : Exact(from.size(), shift_) {
    if (bytes) std::memcpy(data(), from.data(), bytes);
  }
  char* data() const { return memory.get() + shift; }
  std::vector<char> copy() const { return {data(), data() + bytes}; }
  std::unique_ptr<char[]> memory;
  std::size_t shift, bytes;
};

std::vector<char> encoded(const Codec& codec, const std::vector<char>& elements, std::size_t shift = 0) {
  const std::size_t count = elements.size() / item_bytes(codec.dtype());
  const Exact source(elements, shift), wire(codec.limit(count), shift);
  const std::size_t used = codec.encode(source.data(), count, wire.data());
  CHECK(used + kCodecSlack <= wire.bytes, std::to_string(used));
  return {wire.data(), wire.data() + used};
}

// The elements, or nothing if the decoder refuses.
std::vector<char> decoded(const Codec& codec, const std::vector<char>& wire, std::size_t count, std::size_t tile,
                          bool& understood, std::size_t shift = 0) {
  const std::size_t item = item_bytes(codec.dtype());
  const Exact source(wire, shift), target(count * item, shift);
  Decoder decoder(codec, source.data(), source.bytes);
  understood = true;
  for (std::size_t first = 0; first < count && understood; first += tile)
    understood = decoder.next(std::min(tile, count - first), target.data() + first * item);
  if (!understood) {
    CHECK(!decoder.next(count, target.data()), "a decoder goes on after damage");
    return {};
  }
  CHECK(decoder.used() <= wire.size(), "read past the end");
  return target.copy();
}

std::vector<char> decoded(const Codec& codec, const std::vector<char>& wire, std::size_t count) {
  bool understood;
  std::vector<char> elements = decoded(codec, wire, count, count + 1, understood);
  CHECK(understood, "an encoding is refused");
  return elements;
}

void check_elements(const CodecKernels& kernels, const CodecSpec& spec, DType dtype, const std::vector<char>& elements,
                    Random& random) {
  const std::size_t item = item_bytes(dtype), count = elements.size() / item;
  const std::string about = describe(spec, dtype, count, kernels.name);
  const Codec codec(spec, dtype, kernels), baseline(spec, dtype, *codec_kernels_named("baseline"));
  const std::vector<char> wire = encoded(codec, elements, between(random, 0, 63));
  CHECK(wire == encoded(baseline, elements), about);

  const std::vector<char> values = decoded(codec, wire, count);
  CHECK(values == decoded(baseline, wire, count), about);
  CHECK(encoded(codec, values) == wire, about + ": encoding again changes it");

  // Some whole blocks at a time, on either side, is the same as all at once.
  const std::size_t tile = between(random, 1, 3) * kCodecBlock;
  std::vector<char> parts;
  for (std::size_t first = 0; first < count; first += tile) {
    const char* const end = elements.data() + std::min(first + tile, count) * item;
    const std::vector<char> part = encoded(codec, {elements.data() + first * item, end});
    parts.insert(parts.end(), part.begin(), part.end());
  }
  CHECK(parts == wire, about + ": tiles");
  bool understood;
  CHECK(decoded(codec, wire, count, tile, understood, between(random, 0, 63)) == values, about + ": tiles");

  const Exact own(elements, between(random, 0, 63));
  codec.requantise(own.data(), count, own.data());
  CHECK(own.copy() == values, about + ": in place");
}

// Kept entries have all their bits; dropped ones are not above the threshold and become +0.0. NaN and Inf are kept.
void check_absolute_threshold(const CodecKernels& kernels, const std::vector<char>& elements, float t) {
  const std::size_t count = elements.size() / sizeof(float);
  const Codec codec({CodecKind::ThresholdAbs, t}, DType::Float32, kernels);
  const std::vector<char> wire = encoded(codec, elements), values = decoded(codec, wire, count);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; i++) {
    float was, is;
    std::memcpy(&was, &elements[i * sizeof was], sizeof was);
    std::memcpy(&is, &values[i * sizeof is], sizeof is);
    const bool same = std::memcmp(&was, &is, sizeof was) == 0;
    CHECK(same || (std::fabs(was) <= t && is == 0 && !std::signbit(is)), std::to_string(was));
    kept += !(std::fabs(was) <= t);
  }
  CHECK(wire.size() <= count * sizeof(float) + (count + kCodecBlock - 1) / kCodecBlock * 4, "larger than dense");
  if (count % 8 == 0 && count <= kCodecBlock && kept * 4 + count / 8 < count * 4)
    CHECK(wire.size() == 4 + count / 8 + kept * 4, std::to_string(kept) + " kept");
}

// Blocks without NaN and Inf do not notice those of other blocks; in a block with one, every entry keeps its bits.
void check_non_finite(const CodecKernels& kernels, const CodecSpec& spec, DType dtype, Random& random) {
  const std::size_t item = item_bytes(dtype), count = 3 * kCodecBlock;
  const Codec codec(spec, dtype, kernels);
  const std::vector<char> clean = elements_of(Values::Normal, dtype, count, random);
  const std::vector<char> wanted = decoded(codec, encoded(codec, clean), count);
  for (float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<char> elements = clean;
    put_float(&elements[(kCodecBlock + between(random, 0, kCodecBlock - 1)) * item], dtype, odd);
    const std::vector<char> values = decoded(codec, encoded(codec, elements), count);
    const auto block = [&](const std::vector<char>& of, std::size_t number) {
      const char* const start = of.data() + number * kCodecBlock * item;
      return std::vector<char>(start, start + kCodecBlock * item);
    };
    const std::string about = describe(spec, dtype, count, kernels.name);
    CHECK(block(values, 0) == block(wanted, 0) && block(values, 2) == block(wanted, 2), about);
    if (spec.kind != CodecKind::ThresholdAbs) CHECK(block(values, 1) == block(elements, 1), about);
  }
}

// Damaged encodings and plain noise: refused or decoded, never read or written outside, and alike by all variants.
void check_damage(const CodecKernels& kernels, const CodecSpec& spec, DType dtype, Random& random) {
  const std::size_t count = kLengths[between(random, 1, std::size(kLengths) - 1)];
  const Codec codec(spec, dtype, kernels), baseline(spec, dtype, *codec_kernels_named("baseline"));
  std::vector<char> wire = encoded(codec, elements_of(kValues[between(random, 0, 5)], dtype, count, random));
  switch (between(random, 0, 3)) {
    case 0: wire.resize(between(random, 0, wire.size() - 1)); break;
    case 1: wire[between(random, 0, wire.size() - 1)] = static_cast<char>(random()); break;
    case 2:
      for (char& byte : wire) byte = static_cast<char>(random());
      break;
    default:  // a plausible word before noise
      for (char& byte : wire) byte = static_cast<char>(random());
      wire[1] = static_cast<char>(between(random, 0, 1)), wire[2] = wire[3] = 0;
  }
  bool understood, by_baseline;
  const std::vector<char> values = decoded(codec, wire, count, count, understood);
  CHECK(values == decoded(baseline, wire, count, count, by_baseline), describe(spec, dtype, count, kernels.name));
  CHECK(understood == by_baseline, describe(spec, dtype, count, kernels.name));
  if (wire.size() < sizeof(std::uint32_t)) CHECK(!understood, "decoded from nothing");
}

void check_residuals(const CodecKernels& kernels, DType dtype, std::size_t count, Random& random) {
  const CodecKernels& reference = *codec_kernels_named("baseline");
  const Codec codec({CodecKind::Int8, 0}, dtype, kernels), baseline({CodecKind::Int8, 0}, dtype, reference);
  const std::vector<char> before = elements_of(Values::Special, dtype, count, random);
  const std::vector<char> after = elements_of(Values::Special, dtype, count, random);
  const DType wide = residual_bytes(dtype) == 8 ? DType::Float64 : DType::Float32;
  const std::vector<char> start = elements_of(Values::Normal, wide, count, random);
  const std::string about = describe({CodecKind::Int8, 0}, dtype, count, kernels.name);
  const Exact old(before, 3), now(after, 1), left(start, 5), wanted(start, 0);
  const Exact out(before.size(), 7), right(before.size(), 0);
  codec.collect(old.data(), now.data(), 3, left.data(), count);
  baseline.collect(old.data(), now.data(), 3, wanted.data(), count);
  CHECK(left.copy() == wanted.copy(), about);
  codec.correct(old.data(), left.data(), out.data(), count);
  baseline.correct(old.data(), wanted.data(), right.data(), count);
  CHECK(left.copy() == wanted.copy(), about);
  for (std::size_t i = 0; i < count && dtype == DType::Float32; i++) {
    float residual, sum, other;
    std::memcpy(&residual, left.data() + 4 * i, 4);
    std::memcpy(&sum, out.data() + 4 * i, 4);
    std::memcpy(&other, right.data() + 4 * i, 4);
    CHECK(std::isfinite(residual), about + ": a residual is not finite");
    CHECK(std::isnan(sum) ? std::isnan(other) : sum == other, about);
  }
}

void check_specs() {
  const auto refused = [](CodecSpec spec, DType dtype) {
    try {
      const Codec codec(spec, dtype);
    } catch (const BadArgument&) {
      return true;
    }
    return false;
  };
  for (int dtype = 0; dtype < kDTypes; dtype++)
    CHECK(refused({CodecKind::Int8, 0}, static_cast<DType>(dtype)) == (dtype >= kFloatTypes), std::to_string(dtype));
  for (double t : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(refused({CodecKind::Threshold, t}, DType::Float32), std::to_string(t));
  CHECK(refused({CodecKind::Int4, 1}, DType::Float32), "a parameter for int4");
  CHECK(codec_kernels_named("no such variant") == nullptr, "an unknown name");
  const Codec codec({CodecKind::Int4, 0}, DType::Float64);
  for (std::size_t count : kLengths) CHECK(codec.limit(count) % 64 == 0 && codec.limit(count) >= count * 8, "limit");
}

}  // namespace

void test_codecs(std::uint64_t seed) {
  Random random(seed);
  check_specs();
  for (const char* name : kVariants) {
    const CodecKernels* kernels = codec_kernels_named(name);
    if (!kernels) {
      std::printf("%s codecs do not run here\n", name);
      continue;
    }
    for (int type = 0; type < kFloatTypes; type++) {
      const auto dtype = static_cast<DType>(type);
      for (std::size_t count : kLengths) {
        for (Values values : kValues)
          for (const CodecSpec& spec : kSpecs)
            check_elements(*kernels, spec, dtype, elements_of(values, dtype, count, random), random);
        check_residuals(*kernels, dtype, count, random);
      }
      for (const CodecSpec& spec : kSpecs) {
        check_non_finite(*kernels, spec, dtype, random);
        for (int i = 0; i < 300; i++) check_damage(*kernels, spec, dtype, random);
      }
    }
    for (std::size_t count : kLengths)
      for (Values values : {Values::Normal, Values::MostlyZero, Values::Special})
        for (float t : {0.f, 0.5f, 2.f, 100.f})
          check_absolute_threshold(*kernels, elements_of(values, DType::Float32, count, random), t);
  }
}

}  // namespace autotune::test
