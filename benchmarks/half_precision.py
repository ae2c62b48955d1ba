"""Sums of float16 and bfloat16 against float32: how many bytes per second, for the same number of bytes?

    python benchmarks/half_precision.py [--ranks 2,4] [--sizes 16K,256K,1M,16M] [--rounds 15]

First the arithmetic alone, on one core: sums of 2, 4 and 8 buffers by the variant that this CPU runs. Then whole
all_reduce calls on fresh inputs, checked, with one config for all three types: the native default for float32 sums.
Every round times all types in random order; the ratio (float32's time / the type's, so bytes per second relative to
float32) is that of paired rounds, with its 95 % interval. Exit code 1 if a ratio is below 0.8 beyond its interval.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from autotune.backends.native import NativeBackend
from autotune.kernels import _native
from autotune.kernels.calls import OP_NUMBER
from autotune.kernels.programs import DTYPE_NUMBER
from autotune.measure import Failure, paired_ratio
from autotune.settings import read
from autotune.types import Collective, DType, OpClass, Phase, Problem, ReduceOp, RuleKey, Sample, SampleKind
from autotune.units import format_bytes, parse_ranks, parse_sizes

TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
WANTED = 0.8
N_SOURCES = (2, 4, 8)
BATCH_S = 2e-4

TimeUs = Callable[[DType, int], float]
"""(type, round) -> microseconds for the same number of bytes."""


def compare(words: str, time_us: TimeUs, rounds: int) -> bool:
    """Print a line; whether both half-precision types keep up."""
    samples: dict[DType, list[Sample]] = {dtype: [] for dtype in TYPES}
    for dtype in TYPES:
        time_us(dtype, 0)  # first touch of pages
    for number in range(rounds):
        order = list(TYPES)
        random.Random(number).shuffle(order)
        for position, dtype in enumerate(order):
            samples[dtype].append(
                Sample(
                    kind=SampleKind.FRESH,
                    phase=Phase.CONFIRM,
                    round=number,
                    position=position,
                    batch_calls=1,
                    time_us=time_us(dtype, number),
                )
            )
    keeps_up, line = True, f"{words:<28}"
    for dtype in TYPES[1:]:
        ratio = paired_ratio(samples[DType.FLOAT32], samples[dtype])
        low, high = ratio.low or 0.0, ratio.high or float("inf")
        keeps_up &= high >= WANTED
        line += f"  {ratio.median:5.2f} [{low:.2f}, {high:.2f}]"
    print(line, flush=True)
    return keeps_up


def arithmetic(n_sources: int, n_bytes: int) -> TimeUs:
    """Sums of `n_sources` buffers, all types in the same memory; bits that are a number in every type."""
    values = np.full(n_bytes // 4, 0x3C003C00, np.uint32)  # 1.0 twice in float16, small numbers in the others
    sources = [values.copy() for _ in range(n_sources)]
    output = np.empty_like(values)
    variant = _native.arithmetic()

    def once(dtype: DType) -> None:
        _native.combine(variant, DTYPE_NUMBER[dtype], OP_NUMBER[ReduceOp.SUM], sources, output, 1)

    def time_us(dtype: DType, number: int) -> float:
        calls, start = 0, time.perf_counter()
        while calls < 2 or time.perf_counter() - start < BATCH_S:
            once(dtype)
            calls += 1
        return (time.perf_counter() - start) / calls * 1e6

    return time_us


def whole_calls(backend: NativeBackend, n_ranks: int, n_bytes: int) -> TimeUs:
    """all_reduce of `n_bytes`."""

    def problem(dtype: DType) -> Problem:
        key = RuleKey(
            backend="native",
            collective=Collective.ALL_REDUCE,
            dtype=dtype,
            op_class=OpClass.SUM,
            n_ranks=n_ranks,
            placement=(n_ranks,),
        )
        return Problem(key=key, message_bytes=n_bytes)

    config = backend.default(problem(DType.FLOAT32))

    def time_us(dtype: DType, number: int) -> float:
        (outcome,) = backend.measure_round(problem(dtype), [config], kind=SampleKind.FRESH, batch=number)
        if isinstance(outcome, Failure):
            sys.exit(f"all_reduce of {dtype.value} failed: {outcome.message}")
        return outcome.time_us

    return time_us


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", default="2,4", type=parse_ranks)
    parser.add_argument("--sizes", default="16K,256K,1M,16M", type=parse_sizes)
    parser.add_argument("--rounds", default=15, type=int)
    chosen = parser.parse_args(arguments)
    settings, cores = read(), tuple(sorted(os.sched_getaffinity(0)))
    print(f"bytes per second relative to float32, {chosen.rounds} paired rounds, {_native.arithmetic()} arithmetic")
    print(f"{'':28}  {'float16':>18}  {'bfloat16':>18}")
    fine = [
        compare(f"sum of {n} x {format_bytes(size):>8}", arithmetic(n, size), chosen.rounds)
        for n in N_SOURCES
        for size in chosen.sizes
    ]
    backend = NativeBackend(cores, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s)
    try:
        fine += [
            compare(f"all_reduce {n} ranks {format_bytes(size):>8}", whole_calls(backend, n, size), chosen.rounds)
            for n in chosen.ranks
            for size in chosen.sizes
        ]
    finally:
        backend.close()
    sys.exit(0 if all(fine) else f"below {WANTED:g} of float32's bytes per second somewhere")


if __name__ == "__main__":
    main()
