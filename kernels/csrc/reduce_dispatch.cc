// Picks the variant of reduce.cc that this CPU runs.
#include <cstring>

#include "reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace autotune {

extern const Arithmetic arithmetic_baseline;
#if defined(AUTOTUNE_X86_VARIANTS)
extern const Arithmetic arithmetic_avx2;
extern const Arithmetic arithmetic_avx512;
#endif

const Arithmetic* arithmetic_named(const char* name) {
#if defined(AUTOTUNE_X86_VARIANTS)
  if (std::strcmp(name, "avx512") == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
               ? &arithmetic_avx512
               : nullptr;
  if (std::strcmp(name, "avx2") == 0)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &arithmetic_avx2 : nullptr;
#endif
  return std::strcmp(name, "baseline") == 0 ? &arithmetic_baseline : nullptr;
}

const Arithmetic& arithmetic() {
  static const Arithmetic& best = [] () -> const Arithmetic& {
    const char* const fastest_first[] = {"avx512", "avx2"};
    for (const char* name : fastest_first)
      if (const Arithmetic* found = arithmetic_named(name)) return *found;
    return arithmetic_baseline;
  }();
  return best;
}

void store_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace autotune
