"""What one link between two ranks of a pool does: latency, bandwidth, a message there and back.

In:  a group, two of its ranks. Out: figures on the first of them, nothing on the others.
May not touch: requests, samples of collectives.
"""

from __future__ import annotations

import time

import numpy as np

from ..kernels import Communicator, _native
from .rank_process import Json

PAIR_SMALL_BYTES = 8
PAIR_LARGE_BYTES = 4 << 20


def pair_figures(comm: Communicator, a: int, b: int) -> Json:
    """[latency_us, bandwidth_gb_per_s] of messages between two ranks, on the first of them; None on the others."""
    comm.barrier()
    if comm.rank not in (a, b):
        return None
    first = comm.rank == a
    latency_us = _turns_us(comm, first, b if first else a, PAIR_SMALL_BYTES, 200)
    large_us = _turns_us(comm, first, b if first else a, PAIR_LARGE_BYTES, 4)
    return [latency_us, PAIR_LARGE_BYTES / (large_us * 1e3)] if first else None


def _turns_us(comm: Communicator, first: bool, peer: int, n_bytes: int, turns: int) -> float:
    """Microseconds of one message one way, half of a round trip: the median of nine batches."""
    data = np.zeros(n_bytes, np.uint8)
    batches: list[float] = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(turns):
            if first:
                comm.send(data, peer)
                comm.recv(data, peer)
            else:
                comm.recv(data, peer)
                comm.send(data, peer)
        batches.append((time.perf_counter() - start) / turns / 2 * 1e6)
    return float(np.median(batches[1:]))  # the first one makes connections


def pingpong_us(comm: Communicator, n_bytes: int, turns: int) -> float | None:
    """Microseconds of a message between ranks 0 and 1, the median of nine batches; None on other ranks."""
    if comm.rank > 1:
        return None
    data = bytearray(n_bytes)
    _native.pingpong(comm.group, data, 2)
    return float(np.median([_native.pingpong(comm.group, data, turns) for _ in range(9)])) * 1e6
