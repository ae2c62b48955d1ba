"""Schedule -> the program of one rank, for executors that share memory.

In:  a schedule over positions, the collective, and the order that puts positions on ranks (a root is an order too).
Out: a `Program`: levels of one instruction, ``dst[1..2] = op(src[1..k])``, free of counts, types and segment sizes.
May not touch: buffers, processes, the native module. Numbers only.

Supersteps. Level l of a program first takes the messages of step l-1 and then publishes at most one message, this
rank's outbox of step l; a block that several ranks read is staged once. The passes, in the order of the code:

1. all arrivals of a block in one step become one k-ary instruction, its sources sorted by rank with the own value in
   its place, so that every rank that computes a block computes the same bits;
2. "arrives at step l-1, leaves at step l" becomes one instruction with two destinations;
3. a store that nobody reads before it is overwritten is dropped;
4. neighbouring blocks are merged;
5. own data goes first, then what others wait for, then the rest, nearest rank first.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..types import Collective
from .schedules.ir import Schedule
from .schedules.semantics import holds


class Space(enum.IntEnum):
    """Where a source is read. The numbers are those of csrc/program.h."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2
    PEER = 3


TO_OUTPUT, TO_SCRATCH, TO_OUTBOX = 1, 2, 4  # bits of a destination, as in csrc/program.h

VERTICAL = frozenset(
    (Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.SCATTER, Collective.GATHER, Collective.ALL_TO_ALL)
)
"""Collectives cut vertically: a slice is the same part of every rank's block. The others are cut horizontally: a
slice is a contiguous piece of the buffer, itself cut into the schedule's blocks."""


@dataclass(frozen=True, slots=True)
class Source:
    """One operand: block `index` of the given space (of `rank`'s outbox message, if PEER)."""

    space: Space
    rank: int
    index: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """``destinations = op(sources)``, or a copy if there is one source.

    Args:
        destinations: bits TO_OUTPUT, TO_SCRATCH, TO_OUTBOX.
        memory_index: block number in output or scratch.
        piece: block number in the outbox message.
        width: how many neighbouring blocks.
        block: logical number of the first block, which decides its length.
        completes: whether every rank's contribution is in the result, so that an average divides here.
    """

    destinations: int
    memory_index: int
    piece: int
    width: int
    block: int
    completes: bool
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What one rank does for a (collective, algorithm, n, order), for any count, type and segment size.

    Args:
        levels: instructions of each superstep; one more than the schedule has steps.
        readers: ranks that ever read this rank's outbox.
        scratch_blocks: blocks of scratch that one slice needs.
        piece_blocks: blocks of the largest message of any rank; equal on all ranks.
        synchronising: whether every rank's end depends on every rank's start; equal on all ranks.
    """

    collective: Collective
    n_ranks: int
    rank: int
    blocks: int
    levels: tuple[tuple[Instruction, ...], ...]
    readers: tuple[int, ...]
    scratch_blocks: int
    piece_blocks: int
    synchronising: bool

    def flatten(self) -> list[int]:
        """The form that the native executor loads (csrc/program.cc reads it back in this order)."""
        words = [
            self.n_ranks,
            self.rank,
            self.blocks,
            int(self.collective in VERTICAL),
            self.scratch_blocks,
            self.piece_blocks,
            int(self.synchronising),
            len(self.readers),
            *self.readers,
            len(self.levels),
        ]
        for level in self.levels:
            words.append(len(level))
            for op in level:
                words += [op.destinations, op.memory_index, op.piece, op.width, op.block, int(op.completes)]
                words.append(len(op.sources))
                for source in op.sources:
                    words += [source.space, source.rank, source.index]
        return words


BlockIndex = Callable[[int, int], int | None]


def _storage(collective: Collective, schedule: Schedule, order: tuple[int, ...]) -> tuple[BlockIndex, BlockIndex]:
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
class _Traffic:
    """The schedule as ranks see it: what each publishes and receives at each step."""

    steps: int
    sends: list[list[set[int]]]  # [rank][step] -> blocks
    arrivals: list[list[dict[int, list[int]]]]  # [rank][step] -> block -> source ranks
    reduces: list[list[dict[int, bool]]]  # [rank][step] -> block -> combined with the own value?
    completes: list[list[dict[int, bool]]]  # [rank][step] -> block -> all contributions are in?
    readers: list[set[int]]
    synchronising: bool


def _traffic(collective: Collective, schedule: Schedule, order: tuple[int, ...]) -> _Traffic:
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
    return _Traffic(len(steps), sends, arrivals, reduces, completes, readers, all(h == everyone for h in heard))


def compile_program(collective: Collective, schedule: Schedule, rank: int, order: tuple[int, ...]) -> Program:
    """The program of `rank` for a checked schedule.

    Args:
        order: position p of the schedule is rank order[p]; position 0 is the root.
    """
    traffic = _traffic(collective, schedule, order)
    pieces = [[{block: i for i, block in enumerate(sorted(blocks))} for blocks in of_rank] for of_rank in traffic.sends]
    levels, scratch_blocks = _levels(collective, schedule, rank, order, traffic, pieces)
    return Program(
        collective=collective,
        n_ranks=schedule.n,
        rank=rank,
        blocks=schedule.blocks,
        levels=tuple(tuple(level) for level in levels),
        readers=tuple(sorted(traffic.readers[rank])),
        scratch_blocks=scratch_blocks,
        piece_blocks=max([len(blocks) for of_rank in traffic.sends for blocks in of_rank] + [1]),
        synchronising=traffic.synchronising,
    )


def _levels(
    collective: Collective,
    schedule: Schedule,
    rank: int,
    order: tuple[int, ...],
    traffic: _Traffic,
    pieces: list[list[dict[int, int]]],
) -> tuple[list[list[Instruction]], int]:
    in_index, out_index = _storage(collective, schedule, order)
    sends, arrivals, reduces = traffic.sends[rank], traffic.arrivals[rank], traffic.reduces[rank]
    place: dict[int, Source] = {}  # blocks that this rank has written so far
    scratch: dict[int, int] = {}

    def stored(block: int) -> Source:
        if block in place:
            return place[block]
        index = in_index(rank, block)
        assert index is not None, f"{collective.value}: rank {rank} reads block {block}, which it does not hold"
        return Source(Space.INPUT, rank, index)

    def read_later(block: int, arrived_at: int) -> bool:
        """Whether the value that arrived at a step is read from memory before it is overwritten."""
        for step in range(arrived_at + 1, traffic.steps):
            if block in sends[step] and step != arrived_at + 1:  # at the very next step it leaves by fusion
                return True
            if block in arrivals[step]:
                return reduces[step][block]
        return out_index(rank, block) is not None

    levels: list[list[Instruction]] = [[] for _ in range(traffic.steps + 1)]
    for level in range(traffic.steps + 1):
        fused: set[int] = set()
        for block in sorted(arrivals[level - 1]) if level else ():
            step = level - 1
            operands = [Source(Space.PEER, peer, pieces[peer][step][block]) for peer in arrivals[step][block]]
            if reduces[step][block]:
                operands = sorted([*operands, stored(block)], key=lambda source: source.rank)
            destinations = memory_index = piece = 0
            if level < traffic.steps and block in sends[level]:
                destinations |= TO_OUTBOX
                piece = pieces[rank][level][block]
                fused.add(block)
            if read_later(block, step):
                index = out_index(rank, block)
                if index is not None:
                    destinations |= TO_OUTPUT
                    memory_index = index
                    place[block] = Source(Space.OUTPUT, rank, index)
                else:
                    destinations |= TO_SCRATCH
                    memory_index = scratch.setdefault(block, len(scratch))
                    place[block] = Source(Space.SCRATCH, rank, memory_index)
            completes = traffic.completes[rank][step][block]
            levels[level].append(Instruction(destinations, memory_index, piece, 1, block, completes, tuple(operands)))
        for block in sorted(sends[level]) if level < traffic.steps else ():
            if block not in fused:
                piece = pieces[rank][level][block]
                levels[level].append(Instruction(TO_OUTBOX, 0, piece, 1, block, False, (stored(block),)))
    for block in range(schedule.blocks):  # what never moved goes straight from input to output
        source_index, target_index = in_index(rank, block), out_index(rank, block)
        if block not in place and source_index is not None and target_index is not None:
            source = Source(Space.INPUT, rank, source_index)
            levels[0].append(Instruction(TO_OUTPUT, target_index, 0, 1, block, False, (source,)))
    if collective not in VERTICAL:
        levels = [_merged(level) for level in levels]
    return [sorted(level, key=lambda op: _urgency(op, rank, schedule.n)) for level in levels], len(scratch)


def _merged(level: list[Instruction]) -> list[Instruction]:
    """Neighbouring blocks that move alike become one wider instruction."""
    merged: list[Instruction] = []
    for op in level:
        if merged and _continues(merged[-1], op):
            merged[-1] = replace(merged[-1], width=merged[-1].width + 1)
        else:
            merged.append(op)
    return merged


def _continues(before: Instruction, op: Instruction) -> bool:
    width = before.width
    return (
        before.destinations == op.destinations
        and before.completes == op.completes
        and before.block + width == op.block
        and (not op.destinations & (TO_OUTPUT | TO_SCRATCH) or before.memory_index + width == op.memory_index)
        and (not op.destinations & TO_OUTBOX or before.piece + width == op.piece)
        and len(before.sources) == len(op.sources)
        and all(
            (a.space, a.rank, a.index + width) == (b.space, b.rank, b.index)
            for a, b in zip(before.sources, op.sources, strict=True)
        )
    )


def _urgency(op: Instruction, rank: int, n: int) -> int:
    """Own data to send, then received data to send on, then everything else: the nearest rank's first."""
    distances = [(source.rank - rank) % n for source in op.sources if source.space is Space.PEER]
    if op.destinations & TO_OUTBOX:
        return 1 if distances else 0
    return 2 + max(distances, default=0)
