"""A schedule as ranks see it: who publishes and who receives which blocks at each step, and where the user's buffers
keep a block.

In:  a schedule over positions, the collective, the order that puts positions on ranks. Out: plain tables.
May not touch: programs, buffers. Both compilers start from here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..types import Collective
from .schedules.ir import Schedule
from .schedules.semantics import holds

BlockIndex = Callable[[int, int], int | None]


def storage(collective: Collective, schedule: Schedule, order: tuple[int, ...]) -> tuple[BlockIndex, BlockIndex]:
    """Where rank r keeps block b in the user's buffers: (input index, output index), None where it is not there."""
    n, root = schedule.n, order[0]
    match collective:
        case Collective.ALL_REDUCE:
            return (lambda r, b: b), (lambda r, b: b)
        case Collective.BROADCAST:
            return (lambda r, b: b if r == root else None), (lambda r, b: b)
        case Collective.REDUCE:
            return (lambda r, b: b), (lambda r, b: b if r == root else None)
        case Collective.ALL_GATHER:
            return (lambda r, b: 0 if order[b] == r else None), (lambda r, b: order[b])
        case Collective.REDUCE_SCATTER:
            return (lambda r, b: order[b]), (lambda r, b: 0 if order[b] == r else None)
        case Collective.SCATTER:
            return (lambda r, b: order[b] if r == root else None), (lambda r, b: 0 if order[b] == r else None)
        case Collective.GATHER:
            return (lambda r, b: 0 if order[b] == r else None), (lambda r, b: order[b] if r == root else None)
        case Collective.ALL_TO_ALL:
            return (
                (lambda r, b: order[b % n] if order[b // n] == r else None),
                (lambda r, b: order[b // n] if order[b % n] == r else None),
            )


@dataclass(frozen=True, slots=True)
class Traffic:
    """The schedule as ranks see it: what each publishes and receives at each step."""

    steps: int
    piece_blocks: int  # blocks of the largest message of any rank
    sends: list[list[set[int]]]  # [rank][step] -> blocks
    arrivals: list[list[dict[int, list[int]]]]  # [rank][step] -> block -> source ranks
    reduces: list[list[dict[int, bool]]]  # [rank][step] -> block -> combined with the own value?
    completes: list[list[dict[int, bool]]]  # [rank][step] -> block -> all contributions are in?
    readers: list[set[int]]  # [rank] -> ranks that ever receive from it
    synchronising: bool  # whether every rank's end depends on every rank's start


@lru_cache(maxsize=8)
def traffic_of(collective: Collective, schedule: Schedule, order: tuple[int, ...]) -> Traffic:
    """The traffic of a checked schedule whose position p is rank order[p]; to be read, not changed."""
    n = schedule.n
    steps = [list(step) for step in schedule.expand()]
    size = range(len(steps) + 1)
    sends: list[list[set[int]]] = [[set() for _ in size] for _ in range(n)]
    arrivals: list[list[dict[int, list[int]]]] = [[defaultdict(list) for _ in size] for _ in range(n)]
    reduces: list[list[dict[int, bool]]] = [[{} for _ in size] for _ in range(n)]
    completes: list[list[dict[int, bool]]] = [[{} for _ in size] for _ in range(n)]
    readers: list[set[int]] = [set() for _ in range(n)]
    held = [list(map(int, row)) for row in holds(collective, n, schedule.blocks)[0]]  # [position][block] bit masks
    heard = [1 << p for p in range(n)]  # whose start a position's present depends on
    everyone = (1 << n) - 1
    for t, step in enumerate(steps):
        new_held = [row[:] for row in held]
        new_heard = heard[:]
        for src, dst, blocks, reduce in step:
            source, reader = order[src], order[dst]
            readers[source].add(reader)
            new_heard[dst] |= heard[src]
            for block in blocks:
                sends[source][t].add(block)
                arrivals[reader][t][block].append(source)
                reduces[reader][t][block] = reduce
                new_held[dst][block] = (new_held[dst][block] | held[src][block]) if reduce else held[src][block]
                completes[reader][t][block] = reduce and new_held[dst][block] == everyone
        held, heard = new_held, new_heard
    piece_blocks = max([len(blocks) for of_rank in sends for blocks in of_rank] + [1])
    synchronising = all(h == everyone for h in heard)
    return Traffic(len(steps), piece_blocks, sends, arrivals, reduces, completes, readers, synchronising)
