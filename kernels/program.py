"""What one rank does for a call, free of counts, types and segment sizes: the form that executors run.

In:  nothing; the compilers (compiler.py, zero_copy.py) build these values. Out: `Program`, and the numbers that the
native executor loads. May not touch: schedules, buffers, the native module.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from ..types import Collective


class Space(enum.IntEnum):
    """Where an operand lies. The numbers are those of csrc/program.h."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2
    PEER = 3  # another rank's outbox message
    PEER_INPUT = 4  # another rank's input or output itself
    PEER_OUTPUT = 5


TO_OUTPUT, TO_SCRATCH, TO_OUTBOX, BEFORE_POST = 1, 2, 4, 8  # bits of a destination, as in csrc/program.h

VERTICAL = frozenset(
    (Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.SCATTER, Collective.GATHER, Collective.ALL_TO_ALL)
)
"""Collectives cut vertically: a slice is the same part of every rank's block. The others are cut horizontally: a
slice is a contiguous piece of the buffer, itself cut into the schedule's blocks."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place: block `index` of the given space (of `rank`'s outbox message or buffer, if it is a peer's)."""

    space: Space
    rank: int
    index: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """``destinations, stores = op(sources)``, or a copy if there is one source, or nothing if there is none.

    Args:
        destinations: bits TO_OUTPUT, TO_SCRATCH, TO_OUTBOX, and BEFORE_POST where the level's message waits for it.
        memory_index: block number in output or scratch.
        piece: block number in the outbox message.
        width: how many neighbouring blocks.
        block: logical number of the first block, which decides its length.
        completes: whether every rank's contribution is in the result, so that an average divides here.
        charged: block of the rank's input whose residual takes what encoding drops; None where nothing is encoded or
            another place is charged with it. Of the first of several blocks, as the other indices.
        divided: whether what is encoded is a finished average, where the operation is one.
        stores: places in other ranks' buffers that get the result too (symmetric memory).
        waits: ranks whose message of the step before is awaited besides those of the sources.
    """

    destinations: int
    memory_index: int
    piece: int
    width: int
    block: int
    completes: bool
    sources: tuple[Source, ...]
    stores: tuple[Source, ...] = ()
    waits: tuple[int, ...] = ()
    charged: int | None = None
    divided: bool = False


@dataclass(frozen=True, slots=True)
class RemoteReader:
    """What a rank on another host reads of one message: stretches of pieces, (first, how many)."""

    rank: int
    pieces: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What one rank does for a (collective, algorithm, n, order), for any count, type and segment size.

    Args:
        levels: instructions of each superstep; one more than the schedule has steps.
        posts: of each superstep, whether this rank announces a message, after the last instruction with BEFORE_POST.
        readers: ranks that ever wait for a message of this rank.
        scratch_blocks: blocks of scratch that one slice needs.
        piece_blocks: blocks of the largest message of any rank; equal on all ranks.
        synchronising: whether every rank's end depends on every rank's start; equal on all ranks.
        zero_copy: messages announce only; ranks read and write each other's buffers, in symmetric memory.
        single_copy: buffers are private; messages say where they lie, and readers read them through the kernel. Such a
            program is a zero-copy one, too, and right in place or not.
        in_place: what a program over symmetric memory was proved for.
        shares_input, shares_output: whether any rank touches another's buffer; equal on all ranks.
        lossy: messages are encoded, so a block that is sent becomes, here too, what its readers decode: an instruction
            with an outbox and a place in memory stores that.
        final_waits: ranks that may still use this rank's buffers at its end, and so are awaited before it returns.
        remote_readers: of each superstep, who reads its message on other hosts; empty where all ranks share one.
    """

    collective: Collective
    n_ranks: int
    rank: int
    blocks: int
    levels: tuple[tuple[Instruction, ...], ...]
    posts: tuple[bool, ...]
    readers: tuple[int, ...]
    scratch_blocks: int
    piece_blocks: int
    synchronising: bool
    zero_copy: bool = False
    single_copy: bool = False
    in_place: bool = False
    shares_input: bool = False
    shares_output: bool = False
    lossy: bool = False
    final_waits: tuple[int, ...] = ()
    remote_readers: tuple[tuple[RemoteReader, ...], ...] = ()

    @property
    def exchanges(self) -> bool:
        """Whether two ranks answer each message of the other by one of the same superstep, with data; equal on both."""
        if self.n_ranks != 2 or self.zero_copy:
            return False
        following = (*self.levels[1:], ())
        takes = tuple(any(s.space is Space.PEER for op in level for s in op.sources) for level in following)
        return takes == self.posts

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
            int(self.exchanges),
            int(self.zero_copy),
            int(self.single_copy),
            int(self.in_place),
            int(self.shares_input),
            int(self.shares_output),
            int(self.lossy),
            len(self.readers),
            *self.readers,
            len(self.final_waits),
            *self.final_waits,
            len(self.levels),
        ]
        remote_readers = self.remote_readers or ((),) * len(self.levels)
        for level, posts, readers in zip(self.levels, self.posts, remote_readers, strict=True):
            words += [len(level), int(posts), len(readers)]
            for reader in readers:
                words += [reader.rank, len(reader.pieces)]
                words += [number for stretch in reader.pieces for number in stretch]
            for op in level:
                words += [op.destinations, op.memory_index, op.piece, op.width, op.block, int(op.completes)]
                words += [0 if op.charged is None else 1 + op.charged, int(op.divided)]
                for places in (op.sources, op.stores):
                    words.append(len(places))
                    for place in places:
                        words += [place.space, place.rank, place.index]
                words += [len(op.waits), *op.waits]
        return words


def merged(level: list[Instruction]) -> list[Instruction]:
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
        and (before.completes, before.divided) == (op.completes, op.divided)
        and (None if before.charged is None else before.charged + width) == op.charged
        and before.block + width == op.block
        and (not op.destinations & (TO_OUTPUT | TO_SCRATCH) or before.memory_index + width == op.memory_index)
        and (not op.destinations & TO_OUTBOX or before.piece + width == op.piece)
        and len(before.sources) == len(op.sources)
        and len(before.stores) == len(op.stores)
        and before.waits == op.waits
        and all(
            (a.space, a.rank, a.index + width) == (b.space, b.rank, b.index)
            for a, b in zip((*before.sources, *before.stores), (*op.sources, *op.stores), strict=True)
        )
    )


def urgency(op: Instruction, rank: int, n: int) -> int:
    """Own data to send, then received data to send on, then everything else: the nearest rank's first; waits last."""
    distances = [(source.rank - rank) % n for source in op.sources if source.space >= Space.PEER]
    if op.destinations & BEFORE_POST:
        return 1 if distances else 0
    return 2 + max(distances, default=0) if op.sources else 2 + n
