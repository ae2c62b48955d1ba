"""What AUTOTUNE_CHECK=1 costs a call of the portable executor over gloo, in interleaved rounds.

    python benchmarks/pytorch/check_cost.py [--ranks 2 4] [--rounds 200]

Two communicators of one group, one of which compares every call's arguments between all ranks before it starts. Prints
microseconds of an all_reduce (slowest rank; medians, quartiles in brackets) with and without, and the median of the
paired differences. Under a minute.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from ranks import Result, run, slowest_s, spread

from autotune.kernels.portable import PortableCommunicator
from autotune.types import Config

SIZES = (8, 64 << 10, 1 << 20)


def measure(rounds: int) -> Result:
    """As one rank."""
    group = dist.new_group(backend="gloo")
    config = Config(algorithm="ring")
    plain, checked = (PortableCommunicator(group, selector=lambda *_: config, check=check) for check in (False, True))
    found = {}
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        taken: dict[str, list[float]] = {"plain": [], "checked": []}
        for number in range(rounds + 1):
            ways = [("plain", plain), ("checked", checked)]
            for name, comm in ways if number % 2 else reversed(ways):
                dist.barrier()
                start = time.perf_counter()
                comm.all_reduce(tensor)
                seconds = slowest_s(time.perf_counter() - start)
                if number:  # the first one makes connections
                    taken[name].append(seconds * 1e6)
        found[size] = taken
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    for n in given.ranks:
        for size, taken in run(measure, n, given.rounds).items():
            more = statistics.median(b - a for a, b in zip(taken["plain"], taken["checked"], strict=True))
            print(
                f"{n} ranks, {size} bytes: {spread(taken['plain'])} us, with the check {spread(taken['checked'])} us: "
                f"{more:.0f} us more"
            )


if __name__ == "__main__":
    main()
