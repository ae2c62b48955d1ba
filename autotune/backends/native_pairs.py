"""Latency and bandwidth between two ranks of a native group: messages there and back, which both ranks count alike.

In:  a group, two of its ranks. Out: figures, on the first of them. May not touch: the store, tables.

Large messages on a slow link take their time: after the first round trip, which also makes connections, the first rank
says how many more there are, so that a pair takes about a second at 200 Mbit/s and not fifteen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from ..kernels import Communicator, _native
from .rank_process import Json

_SMALL_BYTES = 8
_LARGE_BYTES = 4 << 20
_TURNS = {_SMALL_BYTES: 200, _LARGE_BYTES: 4}
_BATCHES, _LEAST_BATCHES = 9, 3
_ENOUGH_S = 0.5  # for the messages of one size


def figures_of(comm: Communicator, a: int, b: int) -> Json:
    """[latency_us, bandwidth_gb_per_s] on rank a, None on rank b; these two call it.

    Latency is that of 8 bytes, bandwidth that of 4 MiB, one way, half of a round trip.
    """
    first = comm.rank == a
    small_us, large_us = (_one_way_us(comm, b if first else a, n_bytes, first=first) for n_bytes in _TURNS)
    return [small_us, _LARGE_BYTES / (large_us * 1e3)] if first else None


def pairs_asked(request: Mapping[str, Json]) -> list[tuple[int, int]]:
    """The pairs of ranks in a request."""
    listed = request["pairs"]
    assert isinstance(listed, list)
    return [(int(str(pair[0])), int(str(pair[1]))) for pair in listed if isinstance(pair, list)]


def pingpong_us(comm: Communicator, n_bytes: int, turns: int) -> float | None:
    """Microseconds of a message between ranks 0 and 1 of a host, the median of nine batches; None on other ranks."""
    if comm.rank > 1:
        return None
    data = bytearray(n_bytes)
    _native.pingpong(comm.group, data, 2)
    return float(np.median([_native.pingpong(comm.group, data, turns) for _ in range(9)])) * 1e6


def _one_way_us(comm: Communicator, peer: int, n_bytes: int, *, first: bool) -> float:
    """Microseconds of a message: the median of the batches."""
    data = np.zeros(n_bytes, np.uint8)

    def send() -> None:
        comm.send(data, peer)

    def receive() -> None:
        comm.recv(data, peer)

    turn = (send, receive) if first else (receive, send)
    _seconds(turn, 1)
    counts = np.array(_counts(_seconds(turn, 1), _TURNS[n_bytes]), np.int64)
    if first:
        comm.send(counts, peer)
    else:
        comm.recv(counts, peer)
    turns, batches = map(int, counts)
    return float(np.median([_seconds(turn, turns) for _ in range(batches)])) / turns / 2 * 1e6


def _counts(round_trip_s: float, most_turns: int) -> tuple[int, int]:
    """Round trips of a batch, and batches: as many as fit, at least one in each of three."""
    round_trip_s = max(round_trip_s, 1e-9)
    turns = max(1, min(most_turns, int(_ENOUGH_S / _BATCHES / round_trip_s)))
    return turns, max(_LEAST_BATCHES, min(_BATCHES, int(_ENOUGH_S / (turns * round_trip_s))))


def _seconds(turn: tuple[Callable[[], None], Callable[[], None]], turns: int) -> float:
    start = time.perf_counter()
    for _ in range(turns):
        for do in turn:
            do()
    return time.perf_counter() - start
