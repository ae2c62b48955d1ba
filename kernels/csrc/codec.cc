// Specs, limits and the choice of a variant; see codec.h.
#include "codec.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "failure.h"

namespace autotune {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

extern const CodecKernels codec_kernels_baseline;
#if defined(AUTOTUNE_X86_VARIANTS)
extern const CodecKernels codec_kernels_avx2;
extern const CodecKernels codec_kernels_avx512;
#endif

const CodecKernels* codec_kernels_named(const char* name) {
#if defined(AUTOTUNE_X86_VARIANTS)
  if (std::strcmp(name, "avx512") == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
               ? &codec_kernels_avx512
               : nullptr;
  if (std::strcmp(name, "avx2") == 0)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &codec_kernels_avx2 : nullptr;
#endif
  return std::strcmp(name, "baseline") == 0 ? &codec_kernels_baseline : nullptr;
}

const CodecKernels& codec_kernels() {
  static const CodecKernels& best = []() -> const CodecKernels& {
    const char* const fastest_first[] = {"avx512", "avx2"};
    for (const char* name : fastest_first)
      if (const CodecKernels* found = codec_kernels_named(name)) return *found;
    return codec_kernels_baseline;
  }();
  return best;
}

Codec::Codec(CodecSpec spec, DType dtype, const CodecKernels& kernels) : parameter_(spec.parameter), dtype_(dtype) {
  const auto type = static_cast<std::size_t>(dtype), kind = static_cast<std::size_t>(spec.kind);
  if (type >= kFloatTypes)
    throw BadArgument(std::string("a lossy codec cannot carry ") + name_of(dtype),
                      "use the codec none, or one of float32, float64, float16, bfloat16");
  const bool has_parameter = spec.kind == CodecKind::Threshold || spec.kind == CodecKind::ThresholdAbs;
  if (!std::isfinite(spec.parameter) || spec.parameter < 0 || (!has_parameter && spec.parameter != 0))
    throw BadArgument("a codec's parameter is " + std::to_string(spec.parameter),
                      "give a threshold a finite number of at least 0, and other codecs none");
  encode_ = kernels.encode[kind][type];
  decode_ = kernels.decode[kind][type];
  collect_ = kernels.collect[type];
  correct_ = kernels.correct[type];
}

std::size_t Codec::limit(std::size_t elements) const {
  const std::size_t blocks = (elements + kCodecBlock - 1) / kCodecBlock;
  const std::size_t bytes = blocks * sizeof(std::uint32_t) + elements * item_bytes(dtype_) + kCodecSlack;
  return (bytes + 63) / 64 * 64;
}

std::size_t Codec::encode(const void* from, std::size_t elements, void* wire) const {
  char* const start = static_cast<char*>(wire);
  return static_cast<std::size_t>(encode_(parameter_, from, elements, start) - start);
}

void Codec::requantise(const void* from, std::size_t elements, void* to) const {
  constexpr std::size_t kTile = 8 * kCodecBlock;  // tile and encoding stay in the first-level cache
  alignas(64) char wire[kTile * 8 + kTile / kCodecBlock * sizeof(std::uint32_t) + kCodecSlack];
  for (std::size_t first = 0; first < elements; first += kTile) {
    const std::size_t length = elements - first < kTile ? elements - first : kTile;
    const std::size_t at = first * item_bytes(dtype_);
    const char* const end = encode_(parameter_, static_cast<const char*>(from) + at, length, wire);
    decode_(wire, end, length, static_cast<char*>(to) + at);
  }
}

void Codec::collect(const void* before, const void* after, double weight, void* residual,
                    std::size_t elements) const {
  collect_(before, after, weight, residual, elements);
}

void Codec::correct(const void* values, void* residual, void* corrected, std::size_t elements) const {
  correct_(values, residual, corrected, elements);
}

}  // namespace autotune
