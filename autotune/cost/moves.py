"""What a schedule moves, as the cost model sees it: so many blocks from one rank to another, so many times.

In:  schedules of ``kernels.schedules``, or a name and a number of ranks. Out: ``Moves``, in closed form: a step that
is repeated stands once. May not touch: fabrics, sizes, times. Which blocks move does not matter here, only how many,
so that a step's ranges are added up for each pair of ranks.

NHR sends every second (4th, 8th ...) block, which as ranges are n * n entries; the registry stops at 1,024 ranks. What
it moves is known for any n without naming the blocks, and is written down here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ..errors import UsageError
from ..kernels.schedules.algorithm import DENSE_LIMIT
from ..kernels.schedules.ir import Schedule
from ..kernels.schedules.registry import build, names
from ..types import Collective, Layout
from .fabric import IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Move:
    """Messages that travel together; one entry for each pair of positions.

    Args:
        blocks: how many blocks each message carries.
        reduce: the reader combines them with its own.
        times: the step is done so often, one after the other.
    """

    src: IntArray
    dst: IntArray
    blocks: IntArray
    reduce: bool
    times: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """A schedule over n positions whose buffer is cut into so many blocks."""

    n: int
    blocks: int
    steps: tuple[Move, ...]

    @property
    def n_steps(self) -> int:
        return sum(move.times for move in self.steps)

    @property
    def most_blocks(self) -> int:
        """Blocks of the largest message; 1 where nothing moves."""
        return max((int(move.blocks.max()) for move in self.steps), default=1)

    def on(self, order: tuple[int, ...]) -> Moves:
        """With positions named by the ranks that play them."""
        rank = np.asarray(order, np.int32)
        return replace(self, steps=tuple(replace(m, src=rank[m.src], dst=rank[m.dst]) for m in self.steps))


def legal_names(collective: Collective, n: int, layout: Layout | None) -> tuple[str, ...]:
    """The algorithms that can be priced: the registry's, and NHR for any n."""
    legal = names(collective, n, layout)
    return (*legal, "nhr") if n > DENSE_LIMIT and collective in _NHR else legal


@lru_cache(maxsize=64)
def moves_of(collective: Collective, algorithm: str, n: int, layout: Layout | None) -> Moves:
    """What the algorithm moves.

    Args:
        layout: its order puts positions on ranks; its groups are for hierarchical. None: position p is rank p.

    Raises:
        UsageError: the algorithm is unknown or not legal here; above 1,024 ranks that is any with about n * n messages.
    """
    if algorithm == "nhr" and n > DENSE_LIMIT and collective in _NHR:
        found = nhr(collective, n)
    else:
        found = moved_by(build(collective, algorithm, n, layout))
    return found if layout is None else found.on(layout.order)


def moved_by(schedule: Schedule) -> Moves:
    """A schedule without the names of its blocks."""
    steps = []
    for step in schedule.steps:
        pair = step.src.astype(np.int64) * schedule.n + step.dst
        distinct, at = np.unique(pair, return_inverse=True)
        if len(distinct) == len(pair):
            steps.append(Move(src=step.src, dst=step.dst, blocks=step.count, reduce=step.reduce, times=step.times))
            continue
        src, dst = (part.astype(np.int32) for part in np.divmod(distinct, schedule.n))
        blocks = np.bincount(at, step.count).astype(np.int32)
        steps.append(Move(src=src, dst=dst, blocks=blocks, reduce=step.reduce, times=step.times))
    return Moves(n=schedule.n, blocks=schedule.blocks, steps=tuple(steps))


def nhr(collective: Collective, n: int) -> Moves:
    """NHR for any n: at distance d every position passes on the blocks it holds, those at multiples of 2 d behind it.

    Raises:
        UsageError: NHR does not do this collective.
    """
    if collective not in _NHR:
        raise UsageError(
            f"algorithm 'nhr' cannot do {collective.value}",
            remedy=f"use it for one of {', '.join(sorted(c.value for c in _NHR))}",
        )
    gather = tuple(_nhr_steps(n, skip_root=False))
    scatter = tuple(_backwards(gather))
    match collective:
        case Collective.ALL_GATHER:
            steps = gather
        case Collective.REDUCE_SCATTER:
            steps = scatter
        case Collective.ALL_REDUCE:
            steps = scatter + gather
        case _:
            dealt = _move(np.zeros(n - 1, np.int32), np.arange(1, n, dtype=np.int32), 1)
            steps = (dealt, *_nhr_steps(n, skip_root=True))
            if collective is Collective.REDUCE:
                steps = tuple(_backwards(steps))
    return Moves(n=n, blocks=n, steps=steps)


_NHR = frozenset(
    (
        Collective.ALL_REDUCE,
        Collective.ALL_GATHER,
        Collective.REDUCE_SCATTER,
        Collective.BROADCAST,
        Collective.REDUCE,
    )
)


def _nhr_steps(n: int, *, skip_root: bool) -> Iterator[Move]:
    src = np.arange(n, dtype=np.int32)
    for k in reversed(range((n - 1).bit_length())):
        distance = 1 << k
        dst = (src + distance) % n
        keep = dst != 0 if skip_root else np.full(n, True)
        yield _move(src[keep], dst[keep], (n - 1 + distance) // (2 * distance))


def _move(src: IntArray, dst: IntArray, blocks: int) -> Move:
    return Move(src=src, dst=dst, blocks=np.full(len(src), blocks, np.int32), reduce=False, times=1)


def _backwards(steps: tuple[Move, ...]) -> Iterator[Move]:
    for move in reversed(steps):
        yield replace(move, src=move.dst, dst=move.src, reduce=True)
