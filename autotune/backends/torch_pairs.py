"""Latency and bandwidth between two ranks by torch.distributed: ``batch_isend_irecv``, the way that NPUs and GPUs take.

In:  two cores of this host, or a job that torchrun started. Out: figures. torch is imported inside functions only, and
its absence is a ``BackendUnavailable``. On CPUs the messages go by gloo, over sockets even inside a host; on NPUs by
HCCL, on GPUs by NCCL.

Two ranks of this host are processes of their own, ``python -m autotune.backends.torch_pairs``; a job's ranks are there
already. May not touch: the store, tables.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import AutotuneError, BackendUnavailable, UsageError

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The ranks that torchrun started, this one among them.

    Args:
        store: torch's key-value store of the job.
        device: where tensors live, such as ``"cpu"`` or ``"npu:3"``.
    """

    rank: int
    n_ranks: int
    local_rank: int
    store: Any  # Any: a class of torch, which may not be installed
    device: str

    def exchange(self, name: str, text: str) -> list[str]:
        """Every rank's text, by rank. All ranks call it, with the same name and a new one each time."""
        self.store.set(f"{name}/{self.rank}", text)
        return [self.store.get(f"{name}/{rank}").decode("utf-8") for rank in range(self.n_ranks)]

    def figures(self, pairs: Sequence[tuple[int, int]], cores: Sequence[int | None]) -> list[Figures]:
        """The figures of pairs of ranks, measured one after another. All ranks call it, with the same arguments.

        Args:
            cores: the core that each rank is pinned to; None leaves a rank where it is.
        """
        import torch.distributed as dist

        core = cores[self.rank]
        if core is not None:
            os.sched_setaffinity(0, {core})
        mine: dict[str, Figures] = {}
        for index, (a, b) in enumerate(pairs):
            dist.barrier()
            if self.rank in (a, b):
                found = _measured(self.rank == a, b if self.rank == a else a, self.device)
                if self.rank == a:
                    mine[str(index)] = found
        told: dict[str, Figures] = {}
        for text in self.exchange("figures", json.dumps(mine)):
            told |= json.loads(text)
        return [(told[str(index)][0], told[str(index)][1]) for index in range(len(pairs))]


@contextlib.contextmanager
def job(local_rank: int | None, *, timeout_s: float) -> Iterator[Job]:
    """Join the job that torchrun started, with HCCL or NCCL where this rank has a device, else with gloo.

    Raises:
        UsageError: no torchrun.
        BackendUnavailable: torch is not installed, or the ranks did not find each other.
    """
    torch = _torch()
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    if local_rank is None:
        raise UsageError("LOCAL_RANK is not set", remedy="start it with: torchrun --nproc-per-node N -m autotune probe")
    backend, device = _backend(torch, local_rank)
    try:
        store, rank, n_ranks = next(iter(rendezvous("env://", timeout=timedelta(seconds=_START_S + timeout_s))))
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=n_ranks, timeout=timedelta(seconds=_START_S + timeout_s)
        )
    except (RuntimeError, ValueError) as err:  # what torch raises for addresses, ports and time-outs
        raise BackendUnavailable(
            f"the ranks of the job did not find each other: {str(err).splitlines()[0]}",
            remedy="check MASTER_ADDR and MASTER_PORT; torchrun sets them",
        ) from err
    try:
        yield Job(rank=rank, n_ranks=n_ranks, local_rank=local_rank, store=store, device=device)
    finally:
        dist.destroy_process_group()


def _backend(torch: ModuleType, local_rank: int) -> tuple[str, str]:
    """(backend, device) of this rank."""
    with contextlib.suppress(ImportError):
        import torch_npu  # noqa: F401 - it registers the device

        if torch.npu.is_available():
            torch.npu.set_device(local_rank)
            return "hccl", f"npu:{local_rank}"
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        return "nccl", f"cuda:{local_rank}"
    return "gloo", "cpu"


def _measured(first: bool, peer: int, device: str) -> Figures:
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
    figures = _measured(setup["rank"] == 0, 1 - setup["rank"], "cpu")
    dist.destroy_process_group()
    if setup["rank"] == 0:
        print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
