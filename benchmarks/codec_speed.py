"""Encoding and decoding against copying, on one core: GB/s of source bytes, and the ratio to a copy of the same bytes.

    python benchmarks/codec_speed.py [--rounds 31] [--sizes 65536,1048576,33554432] [--dtypes float32] [--variant avx2]

Inputs are normal values; thresholds are set so that about 1 %, 10 %, 50 % or 90 % of the entries are kept, and the
density that came out is printed with what the wire carries. In every round each task runs once, in an order of its
own, for at least 200 us. Time is this thread's own (CPU time: other processes on the core do not count). The ratio is
to the same round's copy, as median with the range of the middle 90 % of the rounds. Target at the largest size, where
a copy goes to memory: at least half of the copy's speed, everywhere. Exits with 1 if a median misses it.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from autotune.kernels.codecs import FLOAT_TYPES, Codec, CodecKind
from autotune.types import DType

DENSITIES = (0.01, 0.1, 0.5, 0.9)
TARGET, LEAST_NS = 0.5, 200_000


def codecs() -> list[Codec]:
    """An entry of unit variance is above t with probability 2 (1 - Phi(t))."""
    kept = [NormalDist().inv_cdf(1 - density / 2) for density in DENSITIES]
    thresholds = [Codec(kind=CodecKind.THRESHOLD, parameter=round(t, 3)) for t in kept]
    absolute = Codec(kind=CodecKind.THRESHOLD_ABS, parameter=thresholds[1].parameter)
    return [*thresholds, absolute, Codec(kind=CodecKind.INT8), Codec(kind=CodecKind.INT4)]


def inputs(dtype: DType, size_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    values = np.random.default_rng(1).standard_normal(size_bytes // dtype.itemsize, np.float32)
    if dtype is DType.BFLOAT16:
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.value)


class Task:
    """One thing to time; repeated so often that a sample is long enough to be read off the clock."""

    def __init__(self, name: str, size_bytes: int, once: Callable[[], object]) -> None:
        self.name, self.size_bytes, self.once = name, size_bytes, once
        self.gb_per_s: list[float] = []
        self.repeats = 1
        while (spent := self._spend_ns()) < LEAST_NS:
            self.repeats = max(2 * self.repeats, int(1.5 * self.repeats * LEAST_NS / max(spent, 1)))

    def _spend_ns(self) -> int:
        start = time.thread_time_ns()
        for _ in range(self.repeats):
            self.once()
        return time.thread_time_ns() - start

    def sample(self) -> None:
        self.gb_per_s.append(self.size_bytes * self.repeats / self._spend_ns())


def measure(dtype: DType, size_bytes: int, rounds: int, variant: str | None) -> bool:
    """Prints one table; whether all medians are at the target."""
    values = inputs(dtype, size_bytes)
    out, copied = np.empty_like(values), np.empty_like(values)
    copy = Task("copy", size_bytes, lambda: np.copyto(copied, values))
    tasks, carried = [], {}
    for codec in codecs():
        native = codec.native(dtype, variant)
        wire = np.empty(native.limit(values.size), np.uint8)
        used = native.encode(values, wire)
        native.decode(wire[:used], out)
        carried[str(codec)] = f"{np.count_nonzero(out) / out.size:6.1%} kept, {used / size_bytes:6.1%} on the wire"
        tasks.append(Task(f"{codec!s:22} encode", size_bytes, lambda n=native, w=wire: n.encode(values, w)))
        tasks.append(Task(f"{codec!s:22} decode", size_bytes, lambda n=native, w=wire[:used]: n.decode(w, out)))
    for _ in range(rounds):
        for task in random.sample([copy, *tasks], len(tasks) + 1):
            task.sample()
    print(f"\n{dtype.value}, {size_bytes} bytes: copy {statistics.median(copy.gb_per_s):.1f} GB/s of source bytes")
    good = True
    for task in tasks:
        ratios = sorted(ours / theirs for ours, theirs in zip(task.gb_per_s, copy.gb_per_s, strict=True))
        low, middle, high = (ratios[int(q * (rounds - 1))] for q in (0.05, 0.5, 0.95))
        good = good and middle >= TARGET
        about = "  " + carried[task.name.split()[0]] if task.name.endswith("encode") else ""
        speed = statistics.median(task.gb_per_s)
        print(f"  {task.name} {speed:6.1f} GB/s  {middle:5.2f} of copy [{low:.2f}, {high:.2f}]{about}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--sizes", default="65536,1048576,33554432", help="bytes, separated by commas")
    parser.add_argument("--dtypes", default=",".join(dtype.value for dtype in FLOAT_TYPES))
    parser.add_argument("--variant", help="baseline, avx2 or avx512 instead of what this CPU runs best")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sizes = [int(size) for size in arguments.sizes.split(",")]
    good = True
    for dtype in map(DType, arguments.dtypes.split(",")):
        for size_bytes in sizes:
            at_target = measure(dtype, size_bytes, arguments.rounds, arguments.variant)
            good = good and (at_target or size_bytes < max(sizes))
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
