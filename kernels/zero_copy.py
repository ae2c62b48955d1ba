"""Schedule -> programs without outboxes: ranks read and write each other's buffers, and nothing is copied twice.

In:  a schedule, its collective, the order of ranks, whether calls are in place. Out: every rank's `Program`, or
`NotZeroCopy` with the reason. May not touch: buffers, the native module. Numbers only.

Over symmetric memory (`compile_zero_copy`) ranks load and store; private buffers (`compile_single_copy`) can only be
read, through the kernel.

A message only announces. Two forms carry the data:

* pull: the receiver reads the block where its sender keeps it, in the sender's input or output;
* push: a block that was just received or reduced and that all its readers only copy is stored by its owner straight
  into every reader's output; the readers just wait. It saves a synchronisation and one pass over the data, and makes
  of reduce-scatter + all-gather one pass: every rank reduces its part of all inputs into all outputs.

What lies in scratch cannot be shared, and what a peer may still read may not be overwritten: the first is refused here,
the second is proved in happens_before.py, which also adds the waits that a safe program needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..types import Collective
from .happens_before import Access, prove
from .program import BEFORE_POST, TO_OUTPUT, TO_SCRATCH, VERTICAL, Instruction, Program, Source, Space, merged, urgency
from .schedules.ir import Schedule
from .traffic import Traffic, storage, traffic_of

Place = tuple[int, Space, int]  # rank, INPUT or OUTPUT or SCRATCH, index: where a block lies
OneName = Callable[[int, Space, int], Place]


class NotZeroCopy(Exception):
    """This schedule cannot run without outboxes; the text says why."""


@dataclass(slots=True)
class _Op:
    """An instruction under construction, with what the proof has to know of it."""

    rank: int
    level: int
    block: int
    destinations: int = 0
    memory_index: int = 0
    completes: bool = False
    sources: list[Source] = field(default_factory=list)
    stores: list[Source] = field(default_factory=list)
    waits: set[int] = field(default_factory=set)
    reads: list[Place] = field(default_factory=list)
    writes: list[Place] = field(default_factory=list)

    def instruction(self) -> Instruction:
        return Instruction(
            self.destinations,
            self.memory_index,
            0,
            1,
            self.block,
            self.completes,
            tuple(self.sources),
            tuple(self.stores),
            tuple(sorted(self.waits - {source.rank for source in self.sources if source.space >= Space.PEER})),
        )


def compile_zero_copy(
    collective: Collective, schedule: Schedule, order: tuple[int, ...], *, in_place: bool
) -> tuple[Program, ...]:
    """The programs of all ranks for a checked schedule; position p is rank order[p], position 0 the root.

    Args:
        in_place: input and output are one buffer as far as both hold a block. A broadcast always is.

    Raises:
        NotZeroCopy: a block would lie in scratch, or be overwritten while a peer may read it.
    """
    if collective in (Collective.SCATTER, Collective.GATHER):
        raise NotZeroCopy(f"{collective.value} has a buffer on the root only, of which the others know no place")
    if collective is Collective.ALL_TO_ALL and in_place:
        raise NotZeroCopy("all_to_all is never in place")
    return _compile(collective, schedule, order, in_place=in_place, private=False)


def compile_single_copy(collective: Collective, schedule: Schedule, order: tuple[int, ...]) -> tuple[Program, ...]:
    """The programs of all ranks that read peers' private buffers; order as of `compile_zero_copy`.

    They are proved for calls in place, where input and output of a rank share what they can. Then they are right for
    any mixture: without that sharing the same instructions touch more places, and no place more often.

    Raises:
        NotZeroCopy: as of `compile_zero_copy`.
    """
    in_place = collective is not Collective.ALL_TO_ALL
    return _compile(collective, schedule, order, in_place=in_place, private=True)


def _compile(
    collective: Collective, schedule: Schedule, order: tuple[int, ...], *, in_place: bool, private: bool
) -> tuple[Program, ...]:
    traffic = traffic_of(collective, schedule, order)
    builder = _Builder(collective, schedule, order, traffic, in_place, private)
    ops = [op for level in range(traffic.steps + 1) for op in builder.level(level)]
    proof = prove(
        schedule.n,
        traffic.steps + 1,
        [
            Access(op.rank, op.level, bool(op.destinations & BEFORE_POST), tuple(op.reads), tuple(op.writes), op.waits)
            for op in ops
        ],
    )
    if proof.conflict is not None:
        raise NotZeroCopy(proof.conflict)
    touched = {place.space for op in ops for place in (*op.sources, *op.stores)}
    programs = []
    for rank in range(schedule.n):
        levels = [[op for op in ops if (op.rank, op.level) == (rank, level)] for level in range(traffic.steps + 1)]
        programs.append(
            Program(
                collective=collective,
                n_ranks=schedule.n,
                rank=rank,
                blocks=schedule.blocks,
                levels=tuple(_finished(level, rank, schedule.n, collective) for level in levels),
                posts=tuple(proof.posts[rank]),
                readers=tuple(sorted(proof.waiters[rank])),
                scratch_blocks=builder.scratch_blocks(rank),
                piece_blocks=traffic.piece_blocks,
                synchronising=proof.synchronising,
                zero_copy=True,
                single_copy=private,
                in_place=in_place and not private,
                shares_input=Space.PEER_INPUT in touched,
                shares_output=Space.PEER_OUTPUT in touched,
                final_waits=tuple(sorted(proof.final_waits[rank])),
            )
        )
    return tuple(programs)


class _Builder:
    """Makes the instructions of all ranks, level by level."""

    def __init__(
        self,
        collective: Collective,
        schedule: Schedule,
        order: tuple[int, ...],
        traffic: Traffic,
        in_place: bool,
        private: bool,
    ) -> None:
        self._traffic, self._blocks, self._n = traffic, schedule.blocks, schedule.n
        self._in_index, self._out_index = storage(collective, schedule, order)
        self._one_name = _one_name(collective, in_place or collective is Collective.BROADCAST)
        self._private = private
        self._place: list[dict[int, Place]] = [{} for _ in range(schedule.n)]
        self._scratch: list[dict[int, int]] = [{} for _ in range(schedule.n)]
        self._pushed: list[dict[int, int]] = [{} for _ in range(schedule.n)]  # at this level: block -> who stored it

    def scratch_blocks(self, rank: int) -> int:
        return len(self._scratch[rank])

    def level(self, level: int) -> list[_Op]:
        """The instructions of one superstep; they see the places as the superstep before left them."""
        if level == 0:
            return [] if self._traffic.steps else self._unmoved()
        placed = [dict(of_rank) for of_rank in self._place]
        pushed, self._pushed = self._pushed, [{} for _ in range(self._n)]
        ops = []
        for rank in range(self._n):
            for block in sorted(self._traffic.arrivals[rank][level - 1]):
                if block in pushed[rank]:
                    ops.append(self._arrived(rank, level, block, pushed[rank][block]))
                else:
                    ops.append(self._received(rank, level, block, placed))
            ops += self._handed_out(rank, level, placed[rank])
        return ops + (self._unmoved() if level == self._traffic.steps else [])

    def _arrived(self, rank: int, level: int, block: int, by: int) -> _Op:
        index = self._out_index(rank, block)
        assert index is not None  # else it would not have been pushed
        self._place[rank][block] = self._one_name(rank, Space.OUTPUT, index)
        return _Op(rank, level, block, destinations=self._before_post(rank, level, block), waits={by})

    def _received(self, rank: int, level: int, block: int, placed: list[dict[int, Place]]) -> _Op:
        step = level - 1
        op = _Op(rank, level, block, completes=self._traffic.completes[rank][step][block])
        op.destinations = self._before_post(rank, level, block)
        senders = self._traffic.arrivals[rank][step][block]
        reduces = self._traffic.reduces[rank][step][block]
        for source in sorted([*senders, rank] if reduces else senders):
            place = placed[source].get(block) or self._initial(source, block)
            op.sources.append(_as_source(place, rank))
            if place[1] is not Space.SCRATCH:
                op.reads.append(self._one_name(*place))
            elif source != rank:
                raise NotZeroCopy(f"rank {source} keeps block {block} in scratch, where rank {rank} cannot read it")
        pulled = not self._push(op) and self._sent(rank, level, block)
        if pulled or self._read_later(rank, level, block):
            self._store(op)
        return op

    def _handed_out(self, rank: int, level: int, placed: dict[int, Place]) -> list[_Op]:
        """What the rank already had and sends now, stored by it where its readers only copy it."""
        if self._private or level == self._traffic.steps:
            return []
        ops = []
        for block in sorted(self._traffic.sends[rank][level] - self._traffic.arrivals[rank][level - 1].keys()):
            place = placed.get(block) or self._initial(rank, block)
            op = _Op(rank, level, block, destinations=BEFORE_POST, sources=[_as_source(place, rank)])
            op.reads += [place] if place[1] is not Space.SCRATCH else []
            self._push(op)
            ops += [op] if op.stores else []
        return ops

    def _push(self, op: _Op) -> bool:
        """Store the block straight into its next readers' outputs, if that is all that they want; whether it did."""
        targets = [] if self._private else self._push_targets(op.rank, op.level, op.block)
        for target in targets:
            index = self._out_index(target, op.block)
            assert index is not None  # _push_targets has seen it
            self._pushed[target][op.block] = op.rank
            place = self._one_name(target, Space.OUTPUT, index)
            if op.reads == [place]:
                continue  # it came from there: a broadcast's root need not get its own data back
            op.stores.append(Source(Space.PEER_OUTPUT, target, index))
            op.writes.append(place)
        return bool(targets)

    def _store(self, op: _Op) -> None:
        index = self._out_index(op.rank, op.block)
        if index is None:
            op.destinations |= TO_SCRATCH
            op.memory_index = self._scratch[op.rank].setdefault(op.block, len(self._scratch[op.rank]))
            self._place[op.rank][op.block] = (op.rank, Space.SCRATCH, op.memory_index)
            return
        op.destinations |= TO_OUTPUT
        op.memory_index = index
        place = self._address(op.rank, Space.OUTPUT, index)
        op.writes.append(self._one_name(*place))
        self._place[op.rank][op.block] = place

    def _push_targets(self, rank: int, level: int, block: int) -> list[int]:
        """The ranks that receive the block next, if all of them only copy it, from this rank; else none."""
        if not self._sent(rank, level, block):
            return []
        arrivals, reduces = self._traffic.arrivals, self._traffic.reduces
        targets = [d for d in range(self._n) if rank in arrivals[d][level].get(block, ())]
        plain = all(
            arrivals[d][level][block] == [rank]
            and not reduces[d][level][block]
            and self._out_index(d, block) is not None
            for d in targets
        )
        return targets if plain else []

    def _unmoved(self) -> list[_Op]:
        """What no rank ever sent to this rank goes straight from its input to its output, last of all."""
        ops = []
        for rank in range(self._n):
            for block in range(self._blocks):
                source, target = self._in_index(rank, block), self._out_index(rank, block)
                if block in self._place[rank] or source is None or target is None:
                    continue
                op = _Op(rank, self._traffic.steps, block, destinations=TO_OUTPUT, memory_index=target)
                op.sources = [Source(Space.INPUT, rank, source)]
                op.reads = [self._one_name(rank, Space.INPUT, source)]
                op.writes = [self._one_name(rank, Space.OUTPUT, target)]
                if op.reads == op.writes:  # in place nothing is to be done; otherwise nobody else uses that output
                    op.writes = []
                if op.writes or self._private:
                    ops.append(op)
        return ops

    def _initial(self, rank: int, block: int) -> Place:
        index = self._in_index(rank, block)
        assert index is not None, f"rank {rank} gives block {block}, which it does not hold"
        return self._address(rank, Space.INPUT, index)

    def _address(self, rank: int, space: Space, index: int) -> Place:
        """Where an instruction finds a block. Whether private buffers are in place, each rank says for itself."""
        return (rank, space, index) if self._private else self._one_name(rank, space, index)

    def _sent(self, rank: int, level: int, block: int) -> bool:
        return level < self._traffic.steps and block in self._traffic.sends[rank][level]

    def _before_post(self, rank: int, level: int, block: int) -> int:
        return BEFORE_POST if self._sent(rank, level, block) else 0

    def _read_later(self, rank: int, level: int, block: int) -> bool:
        """Whether the value is used after the next step or is a result, unless it is overwritten before."""
        for step in range(level, self._traffic.steps):
            if step > level and block in self._traffic.sends[rank][step]:
                return True
            if block in self._traffic.arrivals[rank][step]:
                return self._traffic.reduces[rank][step][block]
        return self._out_index(rank, block) is not None


def _one_name(collective: Collective, in_place: bool) -> OneName:
    """Names of places under which the part that input and output share in place has one name only."""

    def name(rank: int, space: Space, index: int) -> Place:
        if in_place:
            match collective:
                case Collective.ALL_GATHER | Collective.GATHER if space is Space.INPUT:
                    return (rank, Space.OUTPUT, rank)
                case Collective.REDUCE_SCATTER | Collective.SCATTER if space is Space.OUTPUT:
                    return (rank, Space.INPUT, rank)
                case Collective.ALL_REDUCE | Collective.REDUCE | Collective.BROADCAST:
                    return (rank, Space.OUTPUT, index)
        return (rank, space, index)

    return name


def _as_source(place: Place, reader: int) -> Source:
    rank, space, index = place
    if rank == reader or space is Space.SCRATCH:
        return Source(space, rank, index)
    return Source(Space.PEER_INPUT if space is Space.INPUT else Space.PEER_OUTPUT, rank, index)


def _finished(ops: list[_Op], rank: int, n: int, collective: Collective) -> tuple[Instruction, ...]:
    """Merged and in order; what only waits becomes one instruction, before the message or after it."""
    working = [op.instruction() for op in ops if op.sources]
    if collective not in VERTICAL:
        working = merged(working)
    for before_post in (BEFORE_POST, 0):
        waits = {rank for op in ops if not op.sources and op.destinations == before_post for rank in op.waits}
        if waits:
            working.append(Instruction(before_post, 0, 0, 1, 0, False, (), (), tuple(sorted(waits))))
    return tuple(sorted(working, key=lambda op: urgency(op, rank, n)))
