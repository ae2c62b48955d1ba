"""A schedule on a fabric, priced for one byte: everything that does not depend on the message's size.

In:  ``Moves`` over ranks, a ``Fabric``. Out: a ``Profile``, from which a price of any size is a few sums. May not
touch: sizes, parameters, configs. numpy only.

All flows of a step grow alike with the size of a block, so that each ends at its latency plus its size times a
constant; flows with the same two figures are one term. A step that is repeated is one step with a factor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .fabric import NO_RESOURCE, Fabric, FloatArray, IntArray
from .moves import Move, Moves
from .sharing import end_times

_DIGITS = 12  # of times for a byte: flows that differ by rounding only are one term


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Terms of all steps one after the other; blocks are one byte long.

    Args:
        first: shape (steps,): where each step's terms begin.
        times: shape (steps,): how often each step is done.
        latency_us: shape (terms,).
        wire_us: shape (terms,): from the step's start to the flow's end, for blocks of one byte.
        messages: shape (steps,): of the rank that sends, or takes, the most in the step.
        turns: shape (steps,): 1 where a rank sends to another one than in its last step, which may be one of the call
            before; a repeated step turns once.
        carried: shape (steps,): blocks of that rank.
        reduced: shape (steps,): blocks that the busiest rank combines in the step.
        link_us: of the busiest resource over the whole schedule.
        rank_messages: sent and taken by the busiest rank over the whole schedule.
        rank_carried: blocks of these messages.
        rank_reduced: blocks that the busiest rank combines over the whole schedule.
        blocks: into which the buffer is cut.
        most_blocks: of the largest message.
    """

    first: NDArray[np.intp]
    times: FloatArray
    latency_us: FloatArray
    wire_us: FloatArray
    messages: FloatArray
    turns: FloatArray
    carried: FloatArray
    reduced: FloatArray
    link_us: float
    rank_messages: float
    rank_carried: float
    rank_reduced: float
    blocks: int
    most_blocks: int

    @property
    def n_steps(self) -> int:
        """Repetitions counted."""
        return int(self.times.sum())


@dataclass(frozen=True, slots=True)
class _Step:
    """One step's part of a profile; ``reduced`` is 0 where the readers overwrite."""

    latency_us: FloatArray
    wire_us: FloatArray
    messages: int
    carried: int
    reduced: int


class _Totals:
    """What resources and ranks have to do over the whole schedule."""

    def __init__(self, n_resources: int, n_ranks: int) -> None:
        self.load = np.zeros(n_resources)  # blocks through each resource
        self.handled = np.zeros(n_ranks)  # messages that each rank sends or takes
        self.carried = np.zeros(n_ranks)  # blocks of these messages
        self.reduced = np.zeros(n_ranks)  # blocks that each rank combines

    def add(self, move: Move, resources: IntArray, times: FloatArray) -> None:
        """Count the flows of a move, flow i being carried out times[i] times."""
        blocks = move.blocks * times
        crossed = resources != NO_RESOURCE
        load = np.broadcast_to(blocks[:, None], resources.shape)[crossed]
        self.load += np.bincount(resources[crossed], load, len(self.load))
        for ranks in (move.src, move.dst):
            self.handled += np.bincount(ranks, times, len(self.handled))
            self.carried += np.bincount(ranks, blocks, len(self.carried))
        if move.reduce:
            self.reduced += np.bincount(move.dst, blocks, len(self.reduced))


def profile(moves: Moves, fabric: Fabric) -> Profile:
    """What the schedule costs on the fabric.

    Raises:
        ValueError: another number of ranks than the fabric's.
    """
    if moves.n != fabric.n_ranks:
        raise ValueError(f"a schedule of {moves.n} ranks on a fabric of {fabric.n_ranks}")
    capacity = fabric.capacities() * 1e3  # bytes in a microsecond
    totals = _Totals(len(capacity), moves.n)
    lone = [number for number, move in enumerate(moves.steps) if len(move.src) == 1]
    steps = dict(zip(lone, _lone_steps([moves.steps[i] for i in lone], fabric, capacity, totals), strict=True))
    known: dict[tuple[bytes, bytes, bytes], tuple[_Step, IntArray]] = {}
    for number, move in enumerate(moves.steps):
        if number in steps:
            continue
        same = (move.src.tobytes(), move.dst.tobytes(), move.blocks.tobytes())
        if same not in known:
            known[same] = _step(move, fabric, capacity)
        step, resources = known[same]
        most_reduced = int(np.bincount(move.dst, move.blocks).max()) if move.reduce else 0
        steps[number] = replace(step, reduced=most_reduced)
        totals.add(move, resources, np.full(len(move.src), float(move.times)))
    ordered = [steps[number] for number in range(len(moves.steps))]
    lengths = np.array([len(step.latency_us) for step in ordered], np.intp)
    return Profile(
        first=np.cumsum(lengths) - lengths,
        times=np.array([move.times for move in moves.steps], float),
        latency_us=np.concatenate([np.zeros(0), *(step.latency_us for step in ordered)]),
        wire_us=np.concatenate([np.zeros(0), *(step.wire_us for step in ordered)]),
        messages=np.array([step.messages for step in ordered], float),
        turns=_turns(moves),
        carried=np.array([step.carried for step in ordered], float),
        reduced=np.array([step.reduced for step in ordered], float),
        link_us=float((totals.load / capacity).max(initial=0.0)),
        rank_messages=float(totals.handled.max()),
        rank_carried=float(totals.carried.max()),
        rank_reduced=float(totals.reduced.max()),
        blocks=moves.blocks,
        most_blocks=moves.most_blocks,
    )


def _turns(moves: Moves) -> FloatArray:
    """Of each step, whether a rank sends to another one than in its last step; the first follows the last."""
    pairs = [move.src.astype(np.int64) * moves.n + move.dst for move in moves.steps]
    known, at = np.unique(np.concatenate([np.zeros(0, np.int64), *pairs]), return_inverse=True)
    last_of_pair, last_of_rank = np.full(len(known), -1), np.full(moves.n, -1)
    turns = np.zeros(len(pairs))
    for _ in range(2):
        first = 0
        for number, move in enumerate(moves.steps):
            here = at[first : first + len(move.src)]
            turns[number] = (last_of_pair[here] != last_of_rank[move.src]).any()
            last_of_pair[here] = last_of_rank[move.src] = number
            first += len(here)
    return turns


def _step(move: Move, fabric: Fabric, capacity: FloatArray) -> tuple[_Step, IntArray]:
    routes = fabric.routes(move.src, move.dst)
    ends = np.round(end_times(move.blocks.astype(float), routes.resources, capacity), _DIGITS)
    _, latency = np.unique(routes.latency_us, return_inverse=True)
    _, end = np.unique(ends, return_inverse=True)
    _, at = np.unique(end * (int(latency.max()) + 1) + latency, return_index=True)
    messages = max(int(np.bincount(ranks).max()) for ranks in (move.src, move.dst))
    carried = max(int(np.bincount(ranks, move.blocks).max()) for ranks in (move.src, move.dst))
    return _Step(routes.latency_us[at], ends[at], messages, carried, 0), routes.resources


def _lone_steps(moves: list[Move], fabric: Fabric, capacity: FloatArray, totals: _Totals) -> list[_Step]:
    """Steps of one message, all together: a chain has as many of them as ranks."""
    if not moves:
        return []
    src, dst, blocks = (np.concatenate([getattr(m, name) for m in moves]) for name in ("src", "dst", "blocks"))
    routes = fabric.routes(src, dst)
    slowest = np.append(capacity, np.inf)[routes.resources].min(axis=1, initial=np.inf)  # NO_RESOURCE is the last one
    ends = blocks / slowest
    times = np.array([move.times for move in moves], float)
    reduces = np.array([move.reduce for move in moves])
    for some, reduce in ((reduces, True), (~reduces, False)):
        together = Move(src=src[some], dst=dst[some], blocks=blocks[some], reduce=reduce, times=1)
        totals.add(together, routes.resources[some], times[some])
    return [
        _Step(routes.latency_us[i : i + 1], ends[i : i + 1], 1, int(blocks[i]), int(blocks[i]) if move.reduce else 0)
        for i, move in enumerate(moves)
    ]
