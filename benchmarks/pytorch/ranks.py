"""Ranks of a torch benchmark: started by torch.multiprocessing, with a time limit, on cores of their own.

In:  a function of this folder's scripts and plain arguments. Out: what rank 0 returned.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

Result = Any  # plain values; what a script returns it also prints


def run(function: Callable[..., Result], n: int, *arguments: object, limit_s: float = 900.0) -> Result:
    """Run ``function(*arguments)`` on n ranks of a job over mc2; rank 0's result.

    Raises:
        TimeoutError: the ranks took longer than limit_s; none is left.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        context = mp.spawn(_rank, (n, function, arguments, folder), nprocs=n, join=False)
        deadline = time.monotonic() + limit_s
        try:
            while not context.join(timeout=1.0):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{n} ranks did not end within {limit_s:g} s")
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        return torch.load(Path(folder) / "result", weights_only=True)


def _rank(rank: int, n: int, function: Callable[..., Result], arguments: Sequence[object], folder: str) -> None:
    import autotune.runtime.torch  # noqa: F401 - registers mc2

    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", n)
    dist.init_process_group("cpu:mc2", store=store, rank=rank, world_size=n, timeout=timedelta(seconds=120))
    result = function(*arguments)
    if rank == 0:
        torch.save(result, Path(folder) / "result")
    dist.barrier()
    dist.destroy_process_group()


def slowest_s(seconds: float) -> float:
    """The slowest rank's time."""
    times = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return float(times[0])


def spread(values: Sequence[float]) -> str:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3g} [{low:.3g}-{high:.3g}]"
