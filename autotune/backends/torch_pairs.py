"""Latency and bandwidth between two ranks by torch.distributed: ``batch_isend_irecv``, the way that NPUs and GPUs take.

In:  two cores of this host, or two ranks that are there already. Out: figures. torch is imported inside functions only,
and its absence is a ``BackendUnavailable``. On CPUs the messages go by gloo, over sockets even inside a host; on NPUs
by HCCL, on GPUs by NCCL.

Two ranks of this host are processes of their own, ``python -m autotune.backends.torch_pairs``; a job's ranks measure
when they are asked to (torch_worker.py). May not touch: the store, tables.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..errors import AutotuneError, BackendUnavailable

if TYPE_CHECKING:
    from torch import Tensor

LARGE_BYTES = 4 << 20
_SMALL_BYTES = 8
_TURNS = ((_SMALL_BYTES, 200), (LARGE_BYTES, 8))
_BATCHES = 9
_START_S = 60.0
_NO_TORCH = "install PyTorch (pip install torch), or leave out --backend torch"

Figures = tuple[float, float]  # latency_us, bandwidth_gb_per_s


def pair_figures(core_a: int, core_b: int, *, timeout_s: float) -> Figures:
    """(latency_us, bandwidth_gb_per_s) between two ranks of this host that are pinned to two cores.

    Latency is that of 8 bytes, bandwidth that of 4 MiB, one way, half of a round trip.

    Raises:
        BackendUnavailable: torch is not installed, or the ranks did not start or did not answer.
    """
    _torch()
    with tempfile.TemporaryDirectory(prefix="autotune-pair-") as folder, contextlib.ExitStack() as ranks:
        started: list[subprocess.Popen[str]] = []
        for rank, core in enumerate((core_a, core_b)):
            setup = {"rank": rank, "core": core, "store": str(Path(folder) / "store"), "timeout_s": timeout_s}
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "autotune.backends.torch_pairs", json.dumps(setup)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
            )
            ranks.enter_context(process)
            ranks.callback(process.kill)
            started.append(process)
        return _answer(started, _START_S + timeout_s)


def _answer(ranks: Sequence[subprocess.Popen[str]], limit_s: float) -> Figures:
    """What rank 0 wrote, once both have ended well."""
    out: list[str] = []
    deadline = time.monotonic() + limit_s
    for number, process in enumerate(ranks):
        try:
            text, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as err:
            raise BackendUnavailable(
                f"torch rank {number} did not answer within {limit_s:g} s", remedy="leave out --backend torch"
            ) from err
        if process.returncode:
            said = (errors.strip().splitlines() or ["nothing"])[-1]
            raise BackendUnavailable(
                f"torch rank {number} ended with code {process.returncode} and wrote: {said}",
                remedy="leave out --backend torch, or repair the installation of torch",
            )
        out.append(text)
    latency_us, bandwidth_gb_per_s = json.loads(out[0])
    return float(latency_us), float(bandwidth_gb_per_s)


def measured(first: bool, peer: int, device: str) -> Figures:
    """(latency_us, bandwidth_gb_per_s) of messages with a peer, which calls this too."""
    import torch

    times_us: list[float] = []
    for n_bytes, turns in _TURNS:
        data = torch.zeros(n_bytes, dtype=torch.uint8, device=device)
        _turns(first, peer, data, 2)
        batches = sorted(_turns(first, peer, data, turns) for _ in range(_BATCHES))
        times_us.append(batches[_BATCHES // 2] / turns / 2 * 1e6)
    latency_us, time_us = times_us
    if min(times_us) <= 0:
        raise AutotuneError("the host's clock did not advance", remedy="check the host's clock source")
    return latency_us, LARGE_BYTES / (time_us * 1e3)


def _turns(first: bool, peer: int, data: Tensor, turns: int) -> float:
    """Seconds of so many round trips; the sum that is read at the end waits for the device."""
    import torch.distributed as dist

    start = time.perf_counter()
    for _ in range(turns):
        for sends in (first, not first):
            operation = dist.P2POp(dist.isend if sends else dist.irecv, data, peer)
            for request in dist.batch_isend_irecv([operation]):
                request.wait()
    data[:1].sum().item()
    return time.perf_counter() - start


def _torch() -> ModuleType:
    try:
        import torch
        import torch.distributed as dist
    except (ImportError, OSError) as err:  # OSError: one of its libraries is missing
        raise BackendUnavailable(f"the backend torch needs PyTorch: {err}", remedy=_NO_TORCH) from err
    if not dist.is_available():
        raise BackendUnavailable("this PyTorch was built without torch.distributed", remedy=_NO_TORCH)
    found: ModuleType = torch
    return found


def main(arguments: Sequence[str]) -> None:
    """One of two ranks: measure, and write the figures to standard output as rank 0."""
    import torch.distributed as dist

    setup = json.loads(arguments[0])
    os.sched_setaffinity(0, {setup["core"]})
    store = dist.FileStore(setup["store"], 2)
    limit = timedelta(seconds=_START_S + setup["timeout_s"])
    dist.init_process_group("gloo", store=store, rank=setup["rank"], world_size=2, timeout=limit)
    figures = measured(setup["rank"] == 0, 1 - setup["rank"], "cpu")
    dist.destroy_process_group()
    if setup["rank"] == 0:
        print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
