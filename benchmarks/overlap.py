"""How much of a collective hides behind a computation of equal length, and what handing it over costs.

    python benchmarks/overlap.py [--ranks 2] [--rounds 15] [--sizes 64KiB 1MiB 16MiB 64MiB]

For each size, in interleaved rounds, the slowest rank's time of: a synchronous all_reduce; a computation made as long
(matrix products); both, the all_reduce issued before and waited for after. Hidden is (communication + computation -
both) / communication: 100 % where communication costs nothing, 0 % where nothing overlaps, less where they get in each
other's way. Inside a host communication is copying and adding, so it hides only on cores that the ranks leave idle:
compare --ranks 1 less than the cores with as many.

Then, per call: an asynchronous all_reduce that is waited for at once against the synchronous call, which is what
handing over costs; and what staging costs, the copy of an input.
Medians, with the quartiles of the rounds in brackets. About half a minute.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from uuid import uuid4

import numpy as np

import autotune
from autotune.kernels import Communicator
from autotune.types import Config
from autotune.units import format_bytes, parse_bytes

_TELL = Config(algorithm="flat", segment_bytes=4096)
_HANDED = (8, 4 << 10, 64 << 10, 256 << 10, 1 << 20)


def slowest_us(comm: Communicator, run: Callable[[], object]) -> float:
    """Microseconds of the slowest rank, from a common start."""
    comm.barrier()
    comm.barrier()
    start = time.perf_counter_ns()
    run()
    took = np.array([(time.perf_counter_ns() - start) / 1e3])
    comm.all_reduce(took, "max", config=_TELL)
    return float(took[0])


def quartiles(values: list[float]) -> str:
    low, middle, high = np.percentile(values, (25, 50, 75))
    return f"{middle:.1f} [{low:.1f}-{high:.1f}]"


def rank_main(rank: int, n: int, group: str, rounds: int, sizes: list[int]) -> None:
    """Measure as one rank; rank 0 prints."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]} if n >= len(cores) else set(cores))
    matrix = np.random.default_rng(rank).random((128, 128), np.float32)
    out = np.empty_like(matrix)
    with autotune.communicator(rank, n, group=group) as comm:

        def compute(times: int) -> None:
            for _ in range(times):
                np.matmul(matrix, matrix, out=out)

        one_us = min(slowest_us(comm, lambda: compute(20)) for _ in range(20)) / 20
        for size in sizes:
            hide(comm, size, rounds, compute, one_us)
        for size in _HANDED:
            hand_over(comm, size, rounds)


def hide(comm: Communicator, size: int, rounds: int, compute: Callable[[int], None], one_us: float) -> None:
    """How much of an all_reduce hides behind a computation that takes as long."""
    array = np.ones(size // 4, np.float32)

    def communicate() -> None:
        comm.all_reduce(array, "max")

    alone_us = float(np.median([slowest_us(comm, communicate) for _ in range(5)]))
    times = np.array([max(1, round(alone_us / one_us))])
    comm.broadcast(times, config=_TELL)
    count = int(times[0])

    def both() -> None:
        handle = comm.all_reduce(array, "max", async_op=True)
        compute(count)
        handle.wait()

    found = [
        (slowest_us(comm, communicate), slowest_us(comm, lambda: compute(count)), slowest_us(comm, both))
        for _ in range(rounds)
    ]
    hidden = [100 * (a + b - c) / a for a, b, c in found]
    if comm.rank == 0:
        a, b, c = (quartiles(list(column)) for column in zip(*found, strict=True))
        print(
            f"{format_bytes(size):>8}: communication {a} us, computation {b} us, both {c} us: "
            f"{quartiles(hidden)} % hidden",
            flush=True,
        )


def hand_over(comm: Communicator, size: int, rounds: int) -> None:
    """What an asynchronous call costs that is waited for at once, and what staging its input would."""
    array = np.ones(size // 4, np.float32)
    ways: dict[str, Callable[[], object]] = {
        "synchronous": lambda: comm.all_reduce(array, "max"),
        "asynchronous and waited for": lambda: comm.all_reduce(array, "max", async_op=True).wait(),
        "copy of the input": lambda: array.tobytes(),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(4 * rounds):
        for name, way in ways.items():
            taken[name].append(slowest_us(comm, way))
    if comm.rank == 0:
        text = ", ".join(f"{name} {quartiles(values)} us" for name, values in taken.items())
        print(f"{format_bytes(size):>8}: {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", nargs="+", type=parse_bytes, default=[64 << 10, 1 << 20, 16 << 20, 64 << 20])
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--group", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        rank_main(arguments.rank, arguments.ranks, arguments.group, arguments.rounds, arguments.sizes)
        return
    group = f"overlap-{uuid4().hex[:8]}"
    own = ["--ranks", str(arguments.ranks), "--rounds", str(arguments.rounds), "--group", group, "--sizes"]
    own += [str(size) for size in arguments.sizes]
    quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    ranks = [
        subprocess.Popen([sys.executable, __file__, "--rank", str(rank), *own], env=os.environ | quiet)
        for rank in range(arguments.ranks)
    ]
    try:
        codes = [rank.wait(600) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
