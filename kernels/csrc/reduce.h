// Combining elements: out[i] = op(src[0][i], ..., src[k-1][i]).
//
// In: pointers into any memory, an element type and an operation. Out: the combined elements. Knows nothing of ranks.
//
// The operands are combined in the order given, always in the same association, so that ranks that combine the same
// operands get the same bits. float16 and bfloat16 accumulate in float32 and are rounded once, to nearest even. Integers
// wrap. max and min return NaN if an operand is NaN. `divisor` > 1 divides the result (an average): floating types
// divide exactly rounded, integers divide the wrapped sum towards zero.
//
// reduce.cc is compiled once for each instruction set below; reduce_dispatch.cc picks one when the process starts.
#pragma once

#include <cstddef>

#include "elements.h"

namespace autotune {

// dst[i] = op(src[0][first + i], ...) for `count` elements. `dst` may be a source's part (same address), never overlap one
// otherwise. k >= 2.
using ReduceFn = void (*)(void* dst, const void* const* src, int k, std::size_t first, std::size_t count, int divisor);
// The same into m places at once, from the first element on; each may be a source (same address).
using ReduceToAllFn = void (*)(void* const* dst, int m, const void* const* src, int k, std::size_t count, int divisor);

// The same past the caches: into m places of memory, and through the caches into `message` if there is one. Needs store_fence()
// before others are told. `ahead`: as many bytes that will be read soon, or null; they come to the second-level cache meanwhile.
using ReduceStreamedFn = void (*)(void* const* dst, int m, void* message, const void* const* src, int k, std::size_t count,
                                  int divisor, const void* ahead);

struct Arithmetic {
  const char* name;                // "baseline", "avx2", "avx512"
  ReduceFn reduce[kDTypes][kOps];  // Avg holds the same function as Sum
  ReduceToAllFn reduce_to_all[kDTypes][kOps];
  ReduceStreamedFn reduce_streamed[kDTypes][kOps];
  // memcpy that does not keep the destination in the caches; needs store_fence() before others are told.
  void (*stream_copy)(void* dst, const void* src, std::size_t bytes, const void* ahead);
};

// What this CPU runs best. AUTOTUNE does not read the environment here; tests name the variant.
const Arithmetic& arithmetic();
// The variant of that name, or null where it was not built or this CPU lacks it.
const Arithmetic* arithmetic_named(const char* name);

void store_fence();

}  // namespace autotune
