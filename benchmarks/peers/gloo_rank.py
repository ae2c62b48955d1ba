"""One rank of gloo, in gloo's own environment: `gloo_rank.py SOCKET_NAME CORES RANK N_RANKS SCRATCH_FOLDER`.

The twin of mpi_csrc/sampler.c, which says what the lines are, for torch.distributed; standard library and torch only,
since autotune is not installed there. gloo works in place in all_reduce and reduce, so a steady sample's result is
checked on one more call. time.perf_counter_ns is the clock that the samplers in C use.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

MODULUS = 61
_PR_SET_PDEATHSIG = 1
IN_PLACE = ("all_reduce", "reduce", "broadcast")


def main(address: str, cores: str, rank: int, n_ranks: int, scratch: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{scratch}/store", rank=rank, world_size=n_ranks)
    listed = [int(core) for core in cores.split(",")]
    os.sched_setaffinity(0, {listed[rank % len(listed)]})  # this thread, as in the other samplers
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(b"\0" + address.encode())
        requests = link.makefile("r")
        answer = f"hello {rank} {os.getpid()} gloo of torch {torch.__version__}"
        buffers = Buffers()
        while True:
            link.sendall(answer.encode() + b"\n")
            line = requests.readline()
            if not line:
                break
            answer = sample(line.split(), rank, n_ranks, buffers)
    dist.destroy_process_group()


class Buffers:
    """Page-aligned buffers, kept and grown."""

    def __init__(self) -> None:
        self._tensors: dict[tuple[str, int], torch.Tensor] = {}

    def take(self, role: str, index: int, count: int) -> torch.Tensor:
        known = self._tensors.get((role, index))
        if known is None or known.numel() < count:
            known = torch.frombuffer(mmap.mmap(-1, max(4 * count, mmap.PAGESIZE)), dtype=torch.float32)
            self._tensors[role, index] = known
        return known[:count]

    def release(self, keep_bytes: int) -> None:
        self._tensors = {key: kept for key, kept in self._tensors.items() if 4 * kept.numel() <= keep_bytes}


def expected(ranks: Sequence[int], first: int, batch: int, count: int) -> torch.Tensor:
    """The sum over ranks of elements first, first + 1 ... of their inputs."""
    index = torch.arange(first, first + MODULUS)
    period = torch.zeros(MODULUS)
    for rank in ranks:
        period += (index + 13 * rank + 5 * batch) % MODULUS
    return period.repeat(-(-count // MODULUS))[:count]


def operation(name: str, source: torch.Tensor, target: torch.Tensor) -> Callable[[], object]:
    match name:
        case "all_reduce":
            return lambda: dist.all_reduce(target)
        case "reduce":
            return lambda: dist.reduce(target, 0)
        case "broadcast":
            return lambda: dist.broadcast(target, 0)
        case "all_gather":
            return lambda: dist.all_gather_into_tensor(target, source)
        case "reduce_scatter":
            return lambda: dist.reduce_scatter_tensor(target, source)
    return lambda: dist.all_to_all_single(target, source)


def wrong(name: str, out: torch.Tensor, count: int, rank: int, n_ranks: int, batch: int) -> str | None:
    everyone = range(n_ranks)
    if name in ("all_gather", "all_to_all"):
        first = rank * count if name == "all_to_all" else 0
        want = torch.cat([expected([r], first, batch, count) for r in everyone])
    else:
        ranks = [0] if name == "broadcast" else everyone
        want = expected(ranks, rank * count if name == "reduce_scatter" else 0, batch, count)
    if (name == "reduce" and rank != 0) or torch.equal(out, want):
        return None
    at = int(torch.nonzero(out != want)[0])
    return f"element {at} is {out[at]:g}, expected {want[at]:g}"


def sample(words: list[str], rank: int, n_ranks: int, buffers: Buffers) -> str:
    name, kind = words[1], words[3]
    count, batch, repeats, calls, n_buffers, keep_bytes = (int(word) for word in (words[2], *words[4:9]))
    wide = count * n_ranks
    in_count = wide if name in ("reduce_scatter", "all_to_all") else count
    out_count = wide if name in ("all_gather", "all_to_all") else count
    outs = [buffers.take("output", b, out_count) for b in range(n_buffers)]
    ins = [buffers.take("input", b, in_count if name not in IN_PLACE else 1) for b in range(n_buffers)]
    runs = [operation(name, source, target) for source, target in zip(ins, outs, strict=True)]

    def rewrite() -> None:
        for b in range(n_buffers):
            outs[b].view(torch.uint8).fill_(0xA5)
            if name not in IN_PLACE:
                ins[b].copy_(expected([rank], 0, batch + b, in_count))
            elif name != "broadcast" or rank == 0:
                outs[b].copy_(expected([rank], 0, batch + b, in_count))

    def timed(calls: int) -> float:
        dist.barrier()
        dist.barrier()
        start = time.perf_counter_ns()
        for i in range(calls):
            runs[i % n_buffers]()
        taken_ns = time.perf_counter_ns() - start
        dist.barrier()  # a rank that is through leaves the cores to those that are not
        return taken_ns / 1e3

    times = []
    for k in range(repeats):
        if k == 0 or kind == "fresh":
            rewrite()
        times.append(timed(calls))
    if name in IN_PLACE and (calls > n_buffers or kind == "steady"):
        rewrite()
        timed(n_buffers)
    for b in range(min(n_buffers, calls)):
        words_wrong = wrong(name, outs[b], count, rank, n_ranks, batch + b)
        if words_wrong:
            return f"wrong {words_wrong}"
    buffers.release(keep_bytes)
    return "us " + " ".join(f"{us:.4f}" for us in times)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
