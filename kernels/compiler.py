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

A lossy program is for calls with a codec (schedules/wire.py has the rules). There a block that is sent becomes what its
readers decode. So an instruction that sends a block stores it as well where this rank reads it later, and says whether
this rank is charged with what encoding drops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..types import Collective
from .program import (
    BEFORE_POST,
    TO_OUTBOX,
    TO_OUTPUT,
    TO_SCRATCH,
    VERTICAL,
    Instruction,
    Program,
    RemoteReader,
    Source,
    Space,
    merged,
    urgency,
)
from .schedules.ir import Schedule
from .schedules.wire import follow
from .traffic import Traffic, storage, traffic_of


def compile_program(
    collective: Collective,
    schedule: Schedule,
    rank: int,
    order: tuple[int, ...],
    *,
    lossy: bool = False,
    host_of: tuple[int, ...] | None = None,
) -> Program:
    """The program of `rank` for a checked schedule.

    Args:
        order: position p of the schedule is rank order[p]; position 0 is the root.
        lossy: messages will be encoded; the schedule is one that wire.codec_legality allows.
        host_of: by rank, the number of its host; None where all share one.
    """
    traffic = traffic_of(collective, schedule, order)
    pieces = [[{block: i for i, block in enumerate(sorted(blocks))} for blocks in of_rank] for of_rank in traffic.sends]
    blocks = _Blocks(collective, schedule, rank, order, traffic, lossy)
    levels = [_level(number, blocks, traffic, pieces) for number in range(traffic.steps + 1)]
    levels[0] += blocks.unmoved()
    if collective not in VERTICAL:
        levels = [merged(level) for level in levels]
    return Program(
        collective=collective,
        n_ranks=schedule.n,
        rank=rank,
        blocks=schedule.blocks,
        levels=tuple(tuple(sorted(level, key=lambda op: urgency(op, rank, schedule.n))) for level in levels),
        posts=tuple(any(op.destinations & TO_OUTBOX for op in level) for level in levels),
        readers=tuple(sorted(traffic.readers[rank])),
        scratch_blocks=len(blocks.scratch),
        piece_blocks=traffic.piece_blocks,
        synchronising=traffic.synchronising,
        lossy=lossy,
        remote_readers=() if host_of is None else _remote_readers(rank, host_of, traffic, pieces[rank]),
    )


def _remote_readers(
    rank: int, host_of: tuple[int, ...], traffic: Traffic, pieces: list[dict[int, int]]
) -> tuple[tuple[RemoteReader, ...], ...]:
    """Of each superstep, the ranks of other hosts that read this rank's message, the nearest first, and what of it."""
    n = len(host_of)
    others = [(rank + way) % n for way in range(1, n) if host_of[(rank + way) % n] != host_of[rank]]
    readers = []
    for step, piece_of in enumerate(pieces):
        found = []
        for reader in others:
            arrivals = traffic.arrivals[reader][step]
            read = [piece for block, piece in piece_of.items() if rank in arrivals.get(block, ())]
            if read:
                found.append(RemoteReader(reader, tuple(_stretches(sorted(read)))))
        readers.append(tuple(found))
    return tuple(readers)


def _stretches(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as (first, how many) of those that follow each other."""
    first = 0
    for index, number in enumerate(numbers):
        if index + 1 == len(numbers) or numbers[index + 1] != number + 1:
            yield numbers[first], index + 1 - first
            first = index + 1


def _level(number: int, blocks: _Blocks, traffic: Traffic, pieces: list[list[dict[int, int]]]) -> list[Instruction]:
    """What a rank does in a superstep: with what arrived in the step before, and with what it sends besides."""
    rank = blocks.rank
    arrivals, reduces = traffic.arrivals[rank][number - 1], traffic.reduces[rank][number - 1]  # at [-1] is nothing
    leaving = traffic.sends[rank][number]
    level = []
    for block in sorted(arrivals):
        operands = [Source(Space.PEER, peer, pieces[peer][number - 1][block]) for peer in arrivals[block]]
        if reduces[block]:
            operands = sorted([*operands, blocks.stored(block)], key=lambda source: source.rank)
        completes = traffic.completes[rank][number - 1][block]
        blocks.arrived(block, reduces[block], completes)
        op = Instruction(0, 0, 0, 1, block, completes, tuple(operands))
        if blocks.read_from_memory(block, number):
            op = blocks.remembered(op)
        if block in leaving:
            op = blocks.sent(op, number, pieces[rank][number][block])
        level.append(op)
    for block in sorted(leaving - arrivals.keys()):
        op = Instruction(0, 0, 0, 1, block, False, (blocks.stored(block),))
        if blocks.changes_when_sent(block, number):
            op = blocks.remembered(op)
        level.append(blocks.sent(op, number, pieces[rank][number][block]))
    return level


class _Blocks:
    """Where a rank has its blocks, superstep by superstep."""

    def __init__(
        self,
        collective: Collective,
        schedule: Schedule,
        rank: int,
        order: tuple[int, ...],
        traffic: Traffic,
        lossy: bool,
    ) -> None:
        self.rank = rank
        self.scratch: dict[int, int] = {}
        self._collective = collective
        self._all = range(schedule.blocks)
        self._traffic = traffic
        self._in_index, self._out_index = storage(collective, schedule, order)
        self._written: dict[int, Source] = {}
        self._lossy = lossy
        self._position = order.index(rank)
        self._charged = follow(collective, schedule).charged if lossy else ()
        self._decoded: set[int] = set()  # what encoding would not change
        self._complete: set[int] = set()

    def stored(self, block: int) -> Source:
        """Where the block lies now."""
        if block in self._written:
            return self._written[block]
        index = self._in_index(self.rank, block)
        assert index is not None, (
            f"{self._collective.value}: rank {self.rank} reads block {block}, which it does not hold"
        )
        return Source(Space.INPUT, self.rank, index)

    def remembered(self, op: Instruction) -> Instruction:
        """The instruction with a place in memory for its result, from which the block is read from now on."""
        index = self._out_index(self.rank, op.block)
        if index is not None:
            destination, space = TO_OUTPUT, Space.OUTPUT
        else:
            destination, space = TO_SCRATCH, Space.SCRATCH
            index = self.scratch.setdefault(op.block, len(self.scratch))
        self._written[op.block] = Source(space, self.rank, index)
        return replace(op, destinations=op.destinations | destination, memory_index=index)

    def sent(self, op: Instruction, step: int, piece: int) -> Instruction:
        """The instruction with a place in the message of a step."""
        op = replace(op, destinations=op.destinations | TO_OUTBOX | BEFORE_POST, piece=piece)
        if not self._lossy:
            return op
        self._decoded.add(op.block)
        if (self._position, op.block) not in self._charged[step]:
            return op
        return replace(op, charged=self._in_index(self.rank, op.block), divided=op.block in self._complete)

    def arrived(self, block: int, reduces: bool, completes: bool) -> None:
        """Another value of the block is here."""
        if reduces:
            self._decoded.discard(block)
        else:
            self._decoded.add(block)
        if completes:
            self._complete.add(block)

    def changes_when_sent(self, block: int, step: int) -> bool:
        """Whether encoding changes the block, and this rank uses it afterwards, other than to send the same again."""
        return self._lossy and block not in self._decoded and self._used(block, step, sends=False)

    def read_from_memory(self, block: int, level: int) -> bool:
        """Whether the value that arrives at a level is read in later ones: in this one it leaves by fusion."""
        return self._used(block, level, sends=True)

    def _used(self, block: int, first_step: int, *, sends: bool) -> bool:
        sent, arrivals = self._traffic.sends[self.rank], self._traffic.arrivals[self.rank]
        for step in range(first_step, self._traffic.steps):
            if sends and step > first_step and block in sent[step]:
                return True
            if block in arrivals[step]:
                return self._traffic.reduces[self.rank][step][block]
        return self._out_index(self.rank, block) is not None

    def unmoved(self) -> list[Instruction]:
        """What never moved goes straight from input to output."""
        level = []
        for block in self._all:
            source, target = self._in_index(self.rank, block), self._out_index(self.rank, block)
            if block not in self._written and source is not None and target is not None:
                sources = (Source(Space.INPUT, self.rank, source),)
                level.append(Instruction(TO_OUTPUT, target, 0, 1, block, False, sources))
        return level
