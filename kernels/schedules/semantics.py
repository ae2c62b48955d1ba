"""What the collectives mean, and the proof that a schedule does it: who holds what, before and after.

In: a collective and a schedule. Out: nothing, or a ScheduleError that names step, positions and block. The executors,
the tests' inputs and the storage of blocks follow from the one table in ``holds``. Knows no algorithm and moves no
data.
"""

from __future__ import annotations

from ...types import Collective
from .ir import Schedule

Holdings = list[list[int]]
"""Indexed [position][block]: a bit mask of the positions whose contributions are in it; 0 for nothing."""


class ScheduleError(ValueError):
    """A schedule that does not carry out its collective: a bug in a pattern, never a user's mistake."""


def holds(collective: Collective, n: int, blocks: int) -> tuple[Holdings, Holdings]:
    """(what every position holds before, what it must hold after; 0 there means: no matter what).

    all_reduce, broadcast and reduce cut the buffer into any number of blocks. all_gather, reduce_scatter, scatter and
    gather have n blocks, block b belonging to position b; all_to_all has n * n, block s*n + d going from s to d. The
    root is position 0. A multiple of n (n * n) is a refinement: neighbouring blocks share an owner.

    Raises:
        ScheduleError: the number of blocks does not fit the collective.
    """
    everyone = range(n)
    owners = n * n if collective is Collective.ALL_TO_ALL else n if collective.splits_by_rank else 1
    if blocks % owners:
        raise ScheduleError(f"{collective.value} over {n} positions needs a multiple of {owners} blocks, got {blocks}")
    owner = [block * owners // blocks for block in range(blocks)]
    everything = (1 << n) - 1
    nothing = [0] * blocks

    match collective:
        case Collective.ALL_REDUCE:
            return [[1 << p] * blocks for p in everyone], [[everything] * blocks for _ in everyone]
        case Collective.REDUCE:
            return [[1 << p] * blocks for p in everyone], [[everything] * blocks, *(nothing for _ in everyone[1:])]
        case Collective.REDUCE_SCATTER:
            return [[1 << p] * blocks for p in everyone], [[everything * (o == p) for o in owner] for p in everyone]
        case Collective.BROADCAST:
            return [[1] * blocks, *([0] * blocks for _ in everyone[1:])], [[1] * blocks for _ in everyone]
        case Collective.SCATTER:
            return [[1] * blocks, *([0] * blocks for _ in everyone[1:])], [[o == p for o in owner] for p in everyone]
        case Collective.ALL_GATHER:
            return [[(o == p) << p for o in owner] for p in everyone], [[1 << o for o in owner] for _ in everyone]
        case Collective.GATHER:
            gathered = [1 << o for o in owner]
            return [[(o == p) << p for o in owner] for p in everyone], [gathered, *(nothing for _ in everyone[1:])]
        case Collective.ALL_TO_ALL:
            before = [[(o // n == p) << p for o in owner] for p in everyone]
            return before, [[(o % n == p) << o // n for o in owner] for p in everyone]


def check(collective: Collective, schedule: Schedule) -> None:
    """Follow the schedule block by block, without data.

    Raises:
        ScheduleError: a position sends to itself, sends a block that it does not hold, reduces into a block that it
            does not hold, counts a contribution twice, writes a block twice in a step, or ends without what is wanted.
    """
    state, wanted = holds(collective, schedule.n, schedule.blocks)
    for number, step in enumerate(schedule.expand()):
        after: dict[tuple[int, int], int] = {}
        for src, dst, blocks, reduce in step:
            if src == dst:
                raise ScheduleError(f"step {number}: position {src} sends to itself")
            have, old_of = state[src], state[dst]
            for block in blocks:
                arriving = have[block]
                if not arriving:
                    raise ScheduleError(f"step {number}: position {src} sends block {block}, which it does not hold")
                place = (dst, block)
                if not reduce:
                    if place in after:
                        raise ScheduleError(f"step {number}: block {block} of position {dst} is written twice")
                    after[place] = arriving
                    continue
                old = after.get(place, old_of[block])
                if not old:
                    raise ScheduleError(f"step {number}: position {dst} reduces block {block} from {src} into nothing")
                if old & arriving:
                    raise ScheduleError(f"step {number}: block {block} from {src} is counted twice at position {dst}")
                after[place] = old | arriving
        for (dst, block), value in after.items():
            state[dst][block] = value
    for position, (have, want) in enumerate(zip(state, wanted, strict=True)):
        if any(w and w != h for h, w in zip(have, want, strict=True)):
            block = next(b for b, w in enumerate(want) if w and w != have[b])
            raise ScheduleError(
                f"{collective.value}: position {position} ends with contributions {have[block]:#b} in block {block}, "
                f"not {want[block]:#b}"
            )
