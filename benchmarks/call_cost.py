"""What Python adds to a collective on an existing communicator: all_reduce of two floats in a group of one rank.

    python benchmarks/call_cost.py

Prints the native call (timed in C++), and the call from Python over it; exits non-zero if that is above 1 us. The least
of many repetitions is shown: what is measured is code, not the host's mood.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np

from autotune.kernels import Communicator, Shape, create_segment
from autotune.types import Collective, Config, DType, ReduceOp

CONFIG = Config(algorithm="flat", segment_bytes=256 << 10)
CALLS, REPETITIONS, LIMIT_NS = 2000, 100, 1000.0


def least_ns(once: Callable[[], object]) -> float:
    """Nanoseconds of one call."""
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            once()
        best = min(best, (time.perf_counter_ns() - start) / CALLS)
    return best


def main() -> None:
    fd = create_segment(1, 8 << 20, 0)
    with Communicator(fd, 0, 1, selector=lambda *_: CONFIG, cores=1, timeout_s=10) as comm:
        os.close(fd)
        array, out = np.ones(2, np.float32), np.empty(2, np.float32)
        call = comm.prepare(Shape(Collective.ALL_REDUCE, DType.FLOAT32, ReduceOp.SUM, 0, 2))
        barrier = comm.barrier_call()
        native_ns = 1e9 * min(comm.group.time(call, barrier, [array], [out], CALLS) / CALLS for _ in range(REPETITIONS))
        python_ns = least_ns(lambda: comm.all_reduce(array, out=out)) - least_ns(lambda: None)
    print(f"native call {native_ns:.0f} ns, from Python {python_ns - native_ns:.0f} ns more (limit {LIMIT_NS:.0f})")
    sys.exit(python_ns - native_ns > LIMIT_NS)


if __name__ == "__main__":
    main()
