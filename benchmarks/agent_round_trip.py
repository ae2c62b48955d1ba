"""What a command of rank 0 costs until all ranks have answered: ranks that agents started, against those of a pool.

    python benchmarks/agent_round_trip.py --ranks 2 --rounds 2000

Starts one process a rank on this host, as a launcher would. Prints medians and 99th percentiles in microseconds of the
shortest request, over interleaved rounds; the pool's ranks are children of rank 0, asked over a socket pair each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from autotune.backends.launch import RankPool
from autotune.launch import Follower, Job, join
from autotune.settings import launcher_environment, read

_LIMIT_S = 60.0
_BLOCK = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    if "RANK" not in os.environ:
        return launch(options.ranks)
    job = join(read(), launcher_environment(), {}, print)
    if isinstance(job, Follower):
        job.follow()
    elif job is not None:
        with job:
            measure(job, options.rounds)
    return 0


def launch(n_ranks: int) -> int:
    """This program on so many ranks."""
    common = {"WORLD_SIZE": str(n_ranks), "LOCAL_WORLD_SIZE": str(n_ranks), "MASTER_ADDR": "127.0.0.1"}
    common |= {"MASTER_PORT": str(1 + os.getpid() % 60_000)}
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.argv], env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(n_ranks)
    ]
    return max(abs(rank.wait()) for rank in ranks)


def measure(job: Job, rounds: int) -> None:
    """Both kinds of ranks, in blocks by turns."""
    agents = job.start((job.n_ranks,), (0,), staging_bytes=1 << 20, timeout_s=_LIMIT_S, watchdog_s=_LIMIT_S)
    cores = [job.cores[rank] for rank in range(job.n_ranks)]
    times: dict[str, list[float]] = {"agents": [], "pool": []}
    with RankPool(job.n_ranks, cores, staging_bytes=1 << 20, timeout_s=_LIMIT_S, watchdog_s=_LIMIT_S) as pool:
        for _ in range(-(-rounds // _BLOCK)):
            times["agents"] += block(lambda: agents.ask({"do": "join"}))
            times["pool"] += block(lambda: pool.ask({"do": "join"}))
    agents.close()
    for name, found in times.items():
        middle, late = np.percentile(found, [50, 99])
        print(f"{name:7s} {job.n_ranks} ranks  median {middle:7.1f} us  99 % {late:8.1f} us  n {len(found)}")


def block(ask: Callable[[], object]) -> list[float]:
    found = []
    for _ in range(_BLOCK):
        start = time.perf_counter()
        ask()
        found.append((time.perf_counter() - start) * 1e6)
    return found


if __name__ == "__main__":
    sys.exit(main())
