// Codecs: what travels in place of elements, and what a reader makes of it.
//
// In: elements of a floating type, or bytes that claim to be encoded ones. Out: the other. Knows nothing of ranks,
// messages or schedules.
//
// An encoding is that of its codec blocks, one after the other: kCodecBlock elements each, the first from element 0,
// the last as many as are left. Elements may therefore be encoded and decoded a few whole blocks at a time. A block is
// one 32-bit word and what it announces; "dense" is the word kDense and the elements as they are:
//
//   Threshold(t)     entries with |x| <= t * (root mean square of the block) are dropped, the others kept bit for bit.
//   ThresholdAbs(t)  entries with |x| <= t are dropped. Both: the number of kept entries; a bitmap, bit i % 8 of byte
//                    i / 8 for entry i; the kept entries. Dense where that is no larger. What is dropped is decoded as
//                    +0.0. The squares are summed in double (16-bit types: in float32); where the sum is not finite, as
//                    with an Inf or NaN in the block, only zeros are dropped.
//   Int8, Int4       codes of -127..127 or -7..7 in 8 or 4 bits: so many parts of the block's largest magnitude, to
//                    nearest even. That magnitude as a float32; then one code a byte, or (Int4) code i in the low and
//                    code i + half in the high half of byte i, plus 8, half being half of the elements, rounded up. A
//                    block of zeros is the word 0 alone. Dense where an entry is not finite, or the magnitude is below
//                    2^-110 or the type's normal numbers, or from 2^127 on.
//
// So NaN and Inf always pass, and never touch their neighbours. Two more properties are relied on, and tested:
// encode(decode(encode(x))) equals encode(x) byte for byte, so that it does not matter how often a block is passed on;
// and every variant below gives the same bytes, so that ranks need not have the same CPU.
//
// Numbers on the wire are little-endian, as on every machine that this runs on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "elements.h"

namespace autotune {

enum class CodecKind : std::uint8_t { Threshold, ThresholdAbs, Int8, Int4 };
inline constexpr int kCodecKinds = 4;
inline constexpr int kFloatTypes = 4;  // the first of DType

// Elements. Measured (AVX-512): 512 and 1024 are faster by a few percent at most, and the smaller block bounds the
// errors of int8 and int4 more tightly.
inline constexpr std::size_t kCodecBlock = 256;
inline constexpr std::uint32_t kDense = 0xFFFFFFFFu;

struct CodecSpec {
  CodecKind kind;
  double parameter;  // t of the thresholds, at least 0 and finite; 0 for the others
};

// codec_kernels.cc is compiled once for each instruction set; codec.cc picks one when the process starts.
struct CodecKernels {
  // Writes blocks from `wire` on, up to kCodecSlack bytes past their end, and returns the end.
  using Encode = char* (*)(double parameter, const void* from, std::size_t elements, char* wire);
  // Reads blocks from [wire, end) and returns where they end; null if the bytes are no encoding of so many elements.
  using Decode = const char* (*)(const char* wire, const char* end, std::size_t elements, void* to);
  // residual[i] += weight * (before[i] - after[i]), where that is finite.
  using Collect = void (*)(const void* before, const void* after, double weight, void* residual, std::size_t elements);
  // corrected = values + residual, rounded to the type; residual = what the rounding left over, where that is finite.
  using Correct = void (*)(const void* values, void* residual, void* corrected, std::size_t elements);

  const char* name;  // "baseline", "avx2", "avx512"
  Encode encode[kCodecKinds][kFloatTypes];
  Decode decode[kCodecKinds][kFloatTypes];
  Collect collect[kFloatTypes];
  Correct correct[kFloatTypes];
};
inline constexpr std::size_t kCodecSlack = 64;

// What this CPU runs best, and the variant of a name: null where it was not built or this CPU lacks it.
const CodecKernels& codec_kernels();
const CodecKernels* codec_kernels_named(const char* name);

// Residuals, for error feedback, are float32; for float64 they are float64.
inline std::size_t residual_bytes(DType dtype) { return dtype == DType::Float64 ? 8 : 4; }

// A codec for one type. Buffers may lie anywhere.
class Codec {
 public:
  // Throws BadArgument: a type that is not floating, or a parameter that the kind does not have.
  Codec(CodecSpec spec, DType dtype, const CodecKernels& kernels = codec_kernels());

  DType dtype() const { return dtype_; }

  // Bytes that `wire` must have to encode so many elements, whatever they are; a multiple of 64.
  std::size_t limit(std::size_t elements) const;

  // Returns the bytes of the encoding. Bytes after it, up to the limit, may have been overwritten.
  std::size_t encode(const void* from, std::size_t elements, void* wire) const;

  // to = decode(encode(from)): what whoever sends `from` has to keep, so that all have the same. `to` may be `from`.
  void requantise(const void* from, std::size_t elements, void* to) const;

  // residual += weight * (before - after), for what was dropped on the way from one to the other. The weight is 1; for
  // an average that is divided already it is the number of ranks, since residuals are added to contributions.
  void collect(const void* before, const void* after, double weight, void* residual, std::size_t elements) const;

  // corrected = values + residual, and the residual becomes what rounding to the type left of it.
  void correct(const void* values, void* residual, void* corrected, std::size_t elements) const;

 private:
  friend class Decoder;
  double parameter_;
  DType dtype_;
  CodecKernels::Encode encode_;
  CodecKernels::Decode decode_;
  CodecKernels::Collect collect_;
  CodecKernels::Correct correct_;
};

// Reads an encoding from its start, some whole blocks at a time. Never reads outside the bytes that it was given.
class Decoder {
 public:
  // `bytes`: what may be read, at least the encoding. `codec` must outlive the decoder.
  Decoder(const Codec& codec, const void* wire, std::size_t bytes)
      : codec_(&codec), at_(static_cast<const char*>(wire)), start_(at_), end_(at_ + bytes) {}

  // The next elements: a multiple of kCodecBlock, or all that are left. False if the bytes are no encoding of them:
  // then some of `to` may have been written, and nothing more can be read.
  [[nodiscard]] bool next(std::size_t elements, void* to) {
    if (at_ == nullptr) return false;
    at_ = codec_->decode_(at_, end_, elements, to);
    return at_ != nullptr;
  }

  // Bytes read so far, while next() has not failed.
  std::size_t used() const { return static_cast<std::size_t>(at_ - start_); }

 private:
  const Codec* codec_;
  const char* at_;
  const char* start_;
  const char* end_;
};

}  // namespace autotune
