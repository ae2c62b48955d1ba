"""Schedule -> the plan of one rank, for the portable executor.

In:  a collective, an algorithm, a rank, the layout that puts positions on ranks. Out: a `Plan`.
May not touch: torch, buffers, counts. Numbers only.

Every pair of ranks exchanges at most one message a step each way, its blocks in ascending order. A block is read from
the input until this rank has written it, and written to the output if it lives there, else to scratch; a message lands
where its blocks belong if they lie side by side there and none of them leaves in the same step, else in a buffer.

In a plan for lossy codecs (schedules/wire.py has the rules) every block travels by itself, encoded before the step's
messages are sent; so what arrives is decoded where it belongs at once. A rank that uses a block after having sent it
keeps what its readers decode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..errors import UsageError
from ..types import Collective, Layout
from .portable_encoding import Encoding
from .portable_plan import Area, Combine, Encode, Message, Plan, PlanStep, Run
from .program import VERTICAL
from .schedules.ir import Schedule, Transfer
from .schedules.registry import build
from .schedules.wire import codec_legality
from .traffic import BlockIndex, storage


@lru_cache(maxsize=256)
def plan_of(
    collective: Collective,
    algorithm: str,
    n: int,
    rank: int,
    root: int,
    layout: Layout | None,
    *,
    sliced: bool,
    lossy: bool = False,
) -> Plan:
    """The plan of a rank.

    Args:
        layout: None for ranks in their order and no groups. It is turned so that the root is its first position.
        sliced: for messages of several slices; blocks of one message are then apart where the plan is vertical.
        lossy: messages will be encoded.

    Raises:
        UsageError: no such algorithm, or not legal here, or not with lossy codecs.
    """
    order = tuple(range(n)) if layout is None else layout.order
    if collective.has_root:
        at = order.index(root)
        order = (*order[at:], *order[:at])
    schedule = build(collective, algorithm, n, None if layout is None else replace(layout, order=order))
    if lossy and (objection := codec_legality(collective, schedule)):
        raise UsageError(
            f"{algorithm} cannot do {collective.value} over {n} ranks with a lossy codec: {objection}",
            remedy="use the codec none, or another algorithm",
        )
    merges = not lossy and (collective not in VERTICAL or not sliced)
    return _Compiler(collective, schedule, rank, order, merges=merges, lossy=lossy).plan()


class _Compiler:
    """Carries one rank's blocks through a checked schedule whose position p is rank order[p]."""

    def __init__(
        self,
        collective: Collective,
        schedule: Schedule,
        rank: int,
        order: Sequence[int],
        *,
        merges: bool,
        lossy: bool,
    ) -> None:
        self._collective = collective
        self._schedule = schedule
        self._rank = rank
        self._order = order
        self._merges = merges
        self._in_index: BlockIndex
        self._out_index: BlockIndex
        self._in_index, self._out_index = storage(collective, schedule, tuple(order))
        self._written: dict[int, tuple[Area, int]] = {}
        self._scratch: dict[int, int] = {}
        self._arrived_blocks = 0
        self._completes = _completions(collective, schedule, order.index(rank))
        self._own = list(_own_steps(schedule, order.index(rank)))
        self._encoding = Encoding(collective, schedule, order.index(rank), self._own) if lossy else None

    def plan(self) -> Plan:
        steps = {number: self._step(number, own) for number, own in self._own}
        kept = [
            Combine(Run(Area.OUTPUT, target, block, 1), (Run(Area.INPUT, source, block, 1),), False)
            for block in range(self._schedule.blocks)
            if block not in self._written
            and (source := self._in_index(self._rank, block)) is not None
            and (target := self._out_index(self._rank, block)) is not None
        ]
        return Plan(
            n_ranks=self._schedule.n,
            vertical=self._collective in VERTICAL,
            blocks=self._schedule.blocks,
            n_steps=self._schedule.n_steps,
            steps=steps,
            kept=tuple((copy.sources[0], copy.target) for copy in self._merged(kept)),
            scratch_blocks=len(self._scratch),
            arrived_blocks=self._arrived_blocks,
            largest_blocks=_largest_message(self._schedule),
        )

    @property
    def _position(self) -> int:
        return self._order.index(self._rank)

    def _step(self, number: int, transfers: Sequence[Transfer]) -> PlanStep:
        """Reads see the state before the step: sends are written down first."""
        sent: defaultdict[int, set[int]] = defaultdict(set)
        came: defaultdict[int, set[int]] = defaultdict(set)
        for src, dst, blocks, _ in transfers:
            peers, peer = (sent, dst) if src == self._position else (came, src)
            peers[self._order[peer]].update(blocks)
        encodes = self._encodes(number, sorted(set().union(*sent.values())))
        sends = [Message(peer, self._runs(map(self._stored, sorted(blocks)))) for peer, blocks in sent.items()]
        leaving = set().union(*sent.values())
        if transfers[0].reduce:
            receives, combines = self._reduced(number, came)
        else:
            receives, combines = self._copied(came, leaving)
        if self._encoding is not None:
            self._encoding.arrived(set().union(*came.values()), reduced=transfers[0].reduce)
        n = self._schedule.n
        return PlanStep(  # the nearest rank first, so that not all send to rank 0 at once
            tuple(sorted(sends, key=lambda message: (message.peer - self._rank) % n)),
            tuple(sorted(receives, key=lambda message: (self._rank - message.peer) % n)),
            self._merged(combines),
            encodes,
        )

    def _encodes(self, number: int, blocks: Sequence[int]) -> tuple[Encode, ...]:
        """How the blocks that leave in a step are encoded; from then on they lie where that is kept."""
        if self._encoding is None:
            return ()
        found = []
        for block in blocks:
            source = self._stored(block)
            target = self._target(block) if self._encoding.changes(block, number, self._lives(block)) else None
            index = self._in_index(self._rank, block) if self._encoding.charged(block, number) else None
            charged = None if index is None else Run(Area.INPUT, index, block, 1)
            found.append(Encode(source, target, charged, self._encoding.complete(block)))
        return tuple(found)

    def _lives(self, block: int) -> bool:
        """Whether the block has a place in the output."""
        return self._out_index(self._rank, block) is not None

    def _reduced(self, number: int, came: dict[int, set[int]]) -> tuple[list[Message], list[Combine]]:
        receives, sources = self._landed(came)
        combines = []
        for block in sorted(sources):
            operands = {**sources[block], self._rank: self._stored(block)}
            runs = tuple(operands[peer] for peer in sorted(operands))
            completes = self._completes(number, block)
            if completes and self._encoding is not None:
                self._encoding.completed(block)
            combines.append(Combine(self._target(block), runs, completes))
        return receives, combines

    def _copied(self, came: dict[int, set[int]], leaving: set[int]) -> tuple[list[Message], list[Combine]]:
        receives: list[Message] = []
        others: dict[int, set[int]] = {}
        for peer, blocks in came.items():
            runs = self._runs(map(self._target, sorted(blocks)))
            if self._encoding is not None or (len(runs) == 1 and not blocks & leaving):
                receives.append(Message(peer, runs))
            else:
                others[peer] = blocks
        landed, sources = self._landed(others)
        combines = [
            Combine(self._target(block), tuple(runs.values()), False) for block, runs in sorted(sources.items())
        ]
        return receives + landed, combines

    def _landed(self, came: dict[int, set[int]]) -> tuple[list[Message], dict[int, dict[int, Run]]]:
        """Messages one after the other in the buffer: they, and where each block of each rank then is."""
        receives: list[Message] = []
        first = 0
        where: defaultdict[int, dict[int, Run]] = defaultdict(dict)
        for peer, blocks in came.items():
            runs = [Run(Area.ARRIVED, first + at, block, 1) for at, block in enumerate(sorted(blocks))]
            for run in runs:
                where[run.block][peer] = run
            receives.append(Message(peer, tuple(runs)))
            first += len(runs)
        self._arrived_blocks = max(self._arrived_blocks, first)
        return receives, where

    def _stored(self, block: int) -> Run:
        if block in self._written:
            return Run(*self._written[block], block, 1)
        index = self._in_index(self._rank, block)
        assert index is not None, f"{self._collective.value}: rank {self._rank} reads block {block}, which it lacks"
        return Run(Area.INPUT, index, block, 1)

    def _target(self, block: int) -> Run:
        index = self._out_index(self._rank, block)
        if index is None:
            self._written[block] = (Area.SCRATCH, self._scratch.setdefault(block, len(self._scratch)))
        else:
            self._written[block] = (Area.OUTPUT, index)
        return Run(*self._written[block], block, 1)

    def _runs(self, singles: Iterator[Run]) -> tuple[Run, ...]:
        runs: list[Run] = []
        for run in singles:
            if runs and self._merges and run.continues(runs[-1]):
                runs[-1] = replace(runs[-1], width=runs[-1].width + 1)
            else:
                runs.append(run)
        return tuple(runs)

    def _merged(self, singles: Sequence[Combine]) -> tuple[Combine, ...]:
        """Neighbouring blocks that are combined alike become one wider operation."""
        merged: list[Combine] = []
        for one in singles:
            last = merged[-1] if merged and self._merges else None
            if (
                last is not None
                and last.completes == one.completes
                and one.target.continues(last.target)
                and len(one.sources) == len(last.sources)
                and all(b.continues(a) for a, b in zip(last.sources, one.sources, strict=True))
            ):
                wider = [replace(run, width=run.width + 1) for run in (last.target, *last.sources)]
                merged[-1] = Combine(wider[0], tuple(wider[1:]), one.completes)
            else:
                merged.append(one)
        return tuple(merged)


def _own_steps(schedule: Schedule, position: int) -> Iterator[tuple[int, list[Transfer]]]:
    """(number, transfers) of the steps in which a position takes part, without enumerating those of the others."""
    number = 0
    for step in schedule.steps:
        own = step.only((step.src == position) | (step.dst == position))
        if own.src.size:
            yield from enumerate(Schedule(n=schedule.n, blocks=schedule.blocks, steps=(own,)).expand(), number)
        number += step.times


def _largest_message(schedule: Schedule) -> int:
    """Blocks of the largest message of a pair in a step; 1 where there is none."""
    largest = 1
    for step in schedule.steps:
        _, pair = np.unique(step.src.astype(np.int64) * schedule.n + step.dst, return_inverse=True)
        largest = max(largest, int(np.bincount(pair, step.count).max()))
    return largest


def _completions(collective: Collective, schedule: Schedule, position: int) -> Callable[[int, int], bool]:
    """(step, block) -> whether all contributions are in what a position has of the block after that step.

    Contributions are counted: a checked schedule counts none of them twice.
    """
    if not collective.computes:
        return lambda number, block: False
    held = np.ones((schedule.n, schedule.blocks), np.int32)  # everyone begins with its own
    complete: set[tuple[int, int]] = set()
    number = 0
    for step in schedule.steps:
        base, offset, window = step.split(schedule.blocks)
        nth = np.arange(step.count.sum()) - np.repeat(np.cumsum(step.count) - step.count, step.count)
        src, dst, base, offset = (np.repeat(part, step.count) for part in (step.src, step.dst, base, offset))
        for t in range(step.times):
            block = base + (offset + nth + t * step.shift % window) % window
            arriving = held[src, block]
            if step.reduce:
                np.add.at(held, (dst, block), arriving)
            else:
                held[dst, block] = arriving
            mine = block[dst == position]
            complete.update((number, int(b)) for b in mine[held[position, mine] == schedule.n])
            number += 1
    return lambda number, block: (number, block) in complete
