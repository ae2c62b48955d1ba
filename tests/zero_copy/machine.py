"""Ranks that carry out programs without outboxes on sets of contributions, in any order, while races are looked for.

In:  every rank's programs of a sequence of calls, how each is cut, the order in which ranks go on. Out: nothing, or a
`Fault` in words. May not touch: happens_before.py and zero_copy.py, whose work is what is judged here.

A value is the set of (call, rank, input block) that went into it; None is what nobody has written, or what a caller has
put over everything when its call returned. Vector clocks are kept as ranks go: they are joined where a rank has waited
for a message, or for another's end, and nowhere else. Two accesses to one place, one of them a write, that these
clocks do not order are a race, even where this order of ranks has kept them apart (Flanagan and Freund, "FastTrack",
2009). The executor's waits for slots and for the outbox only order more, and are left out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from autotune.kernels.program import BEFORE_POST, TO_OUTBOX, TO_OUTPUT, TO_SCRATCH, Instruction, Program, Source, Space
from autotune.types import Collective

Value = frozenset[tuple[int, int, int]]
Clock = list[int]


class Side(enum.Enum):
    """A buffer of the caller's. In place, what both hold is the output's, or of a reduce-scatter the input's."""

    INPUT = "input"
    OUTPUT = "output"


_NEVER = 1 << 60
Place = tuple[int, Side, int, int]  # rank, buffer, block, slice
SPLIT = frozenset(collective for collective in Collective if collective.splits_by_rank)


class Fault(AssertionError):
    """A program that does what it must not."""


@dataclass(frozen=True, slots=True)
class Call:
    """One collective call of all ranks.

    Args:
        programs: by rank.
        slices: how many; slice s does level l in wave l + spacing * s, as in csrc/group.cc.
        in_place: ranks whose private buffers are; over symmetric memory the programs say it for all.
    """

    programs: Sequence[Program]
    root: int = 0
    slices: int = 1
    spacing: int = 1
    in_place: frozenset[int] = frozenset()

    @property
    def collective(self) -> Collective:
        return self.programs[0].collective

    @property
    def in_flight(self) -> int:
        return -(-len(self.programs[0].levels) // self.spacing)

    def place(self, rank: int, side: Side, index: int, cut: int) -> Place:
        """Where a block lies. A broadcast of symmetric memory is in place, whatever its program is called."""
        shared = not self.programs[0].single_copy and self.collective is Collective.BROADCAST
        if self.programs[0].in_place or rank in self.in_place or shared:
            if self.collective in (Collective.ALL_GATHER, Collective.GATHER) and side is Side.INPUT:
                return (rank, Side.OUTPUT, rank, cut)
            if self.collective in (Collective.REDUCE_SCATTER, Collective.SCATTER) and side is Side.OUTPUT:
                return (rank, Side.INPUT, rank, cut)
            if self.collective not in SPLIT:
                return (rank, Side.OUTPUT, index, cut)
        return (rank, side, index, cut)

    def inputs(self, rank: int) -> range:
        """Blocks of a rank's input."""
        n, blocks = len(self.programs), self.programs[0].blocks
        match self.collective:
            case Collective.ALL_GATHER | Collective.GATHER:
                return range(1)
            case Collective.SCATTER:
                return range(n if rank == self.root else 0)
            case Collective.REDUCE_SCATTER | Collective.ALL_TO_ALL:
                return range(n)
            case Collective.BROADCAST:
                return range(blocks if rank == self.root else 0)
            case _:
                return range(blocks)

    def wanted(self, rank: int, call: int) -> list[Value]:
        """A rank's output, block by block; nothing where the call leaves it to chance."""
        everyone, blocks = range(len(self.programs)), self.programs[0].blocks
        match self.collective:
            case Collective.ALL_REDUCE:
                return [frozenset((call, other, b) for other in everyone) for b in range(blocks)]
            case Collective.REDUCE:
                return [frozenset((call, other, b) for other in everyone) for b in range(blocks) if rank == self.root]
            case Collective.REDUCE_SCATTER:
                return [frozenset((call, other, rank) for other in everyone)]
            case Collective.BROADCAST:
                return [frozenset({(call, self.root, b)}) for b in range(blocks)]
            case Collective.ALL_GATHER:
                return [frozenset({(call, other, 0)}) for other in everyone]
            case Collective.ALL_TO_ALL:
                return [frozenset({(call, other, rank)}) for other in everyone]
            case Collective.GATHER:
                return [frozenset({(call, other, 0)}) for other in everyone if rank == self.root]
            case Collective.SCATTER:
                return [frozenset({(call, self.root, rank)})]


@dataclass(slots=True)
class _Cell:
    value: Value | None = None
    writer: int = 0
    written: int = 0  # the writer's own time
    reads: dict[int, int] = field(default_factory=dict)  # since then: the last time of each rank


@dataclass(frozen=True, slots=True)
class _Awaited:
    """What a rank is blocked on: a message (call, sender, slice, level), or a rank's end of a call (level is -1)."""

    call: int
    rank: int
    cut: int
    level: int


_Turn = Iterator[_Awaited | None]
Chooser = Callable[[Sequence[int]], int]
"""The rank that goes on, of those that can."""


def run(calls: Sequence[Call], choose: Chooser) -> None:
    """All ranks, through all calls, one after the other without a barrier.

    Raises:
        Fault: a race, a wrong result, a wait for what never comes, a number that the executor could not rely on.
    """
    machine = _Machine(calls)
    turns = [machine.rank(rank) for rank in range(machine.n)]
    blocked: list[_Awaited | None] = [None] * machine.n
    running = set(range(machine.n))
    while running:
        ready = [r for r in sorted(running) if blocked[r] is None or blocked[r] in machine.announced]
        if not ready:
            raise Fault(f"all wait for what never comes: {[blocked[rank] for rank in sorted(running)]}")
        rank = choose(ready)
        try:
            blocked[rank] = next(turns[rank])
        except StopIteration:
            running.discard(rank)
    for message in machine.announced.keys() - machine.taken:
        if message.level >= 0:
            raise Fault(f"nobody waits for {message}")


class _Machine:
    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.n = len(calls[0].programs)
        self.announced: dict[_Awaited, Clock] = {}
        self.taken: set[_Awaited] = set()
        self._clocks: list[Clock] = [[0] * self.n for _ in range(self.n)]
        self._cells: list[dict[Place, _Cell]] = [{} for _ in range(self.n)]
        self._started: list[list[int]] = [[_NEVER] * self.n for _ in calls]  # [call][rank]: its own time
        for call in calls:
            for rank in range(self.n):
                for place in self._places(call, rank):
                    self._cells[rank].setdefault(place, _Cell(writer=rank))

    def _places(self, call: Call, rank: int) -> Iterator[Place]:
        outputs = self.n if call.collective in SPLIT else call.programs[0].blocks
        for cut in range(call.slices):
            for index in call.inputs(rank):
                yield call.place(rank, Side.INPUT, index, cut)
            for index in range(outputs):
                yield call.place(rank, Side.OUTPUT, index, cut)

    def rank(self, rank: int) -> _Turn:
        """What one rank does."""
        for number, call in enumerate(self.calls):
            for place in self._cells[rank]:  # the caller may use all of its memory between two calls
                self._write(rank, place, None, f"the caller of rank {rank}, before call {number}")
            for cut in range(call.slices):
                for index in call.inputs(rank):
                    self._cells[rank][call.place(rank, Side.INPUT, index, cut)].value = frozenset(
                        {(number, rank, index)}
                    )
            yield from self._call(rank, number, call)
            for index, wanted in enumerate(call.wanted(rank, number)):
                for cut in range(call.slices):
                    place = call.place(rank, Side.OUTPUT, index, cut)
                    got = self._read(rank, place, f"the caller of rank {rank}, after call {number}")
                    if got != wanted:
                        raise Fault(f"call {number}: {place} holds {got}, not {wanted}")

    def _call(self, rank: int, number: int, call: Call) -> _Turn:
        program, clock = call.programs[rank], self._clocks[rank]
        clock[rank] += 1
        self._started[number][rank] = clock[rank]
        levels = len(program.levels)
        scratch: list[dict[int, Value]] = [{} for _ in range(call.in_flight)]
        for wave in range(levels + call.spacing * (call.slices - 1)):
            for cut in reversed(range(call.slices)):
                level = wave - call.spacing * cut
                if 0 <= level < levels:
                    yield from self._level(rank, number, call, cut, level, scratch[cut % call.in_flight])
        clock[rank] += 1
        self.announced[_Awaited(number, rank, 0, -1)] = clock.copy()
        for other in program.final_waits:
            yield from self._await(rank, _Awaited(number, other, 0, -1))
        if program.synchronising and any(map(int.__lt__, clock, self._started[number])):
            raise Fault(f"rank {rank} ends call {number} without a sign of everybody's start")

    def _level(self, rank: int, number: int, call: Call, cut: int, level: int, scratch: dict[int, Value]) -> _Turn:
        program = call.programs[rank]
        left = sum(bool(op.destinations & BEFORE_POST) for op in program.levels[level])
        message = _Awaited(number, rank, cut, level)
        if program.posts[level] and not left:
            self._announce(rank, message)
        for op in program.levels[level]:
            yield None
            peers = [source.rank for source in op.sources if source.space >= Space.PEER]
            for other in (*peers, *op.waits):
                if rank not in call.programs[other].readers:
                    raise Fault(f"rank {rank} waits for rank {other}, which does not know it")
                yield from self._await(rank, _Awaited(number, other, cut, level - 1))
            yield from self._carry_out(rank, number, call, cut, op, scratch)
            if op.destinations & BEFORE_POST:
                left -= 1
                if program.posts[level] and not left:
                    self._announce(rank, message)

    def _announce(self, rank: int, message: _Awaited) -> None:
        self._clocks[rank][rank] += 1
        self.announced[message] = self._clocks[rank].copy()

    def _await(self, rank: int, awaited: _Awaited) -> _Turn:
        while awaited not in self.announced:
            yield awaited
        self.taken.add(awaited)
        clock = self._clocks[rank]
        clock[:] = map(max, clock, self.announced[awaited])
        clock[rank] += 1

    def _carry_out(
        self, rank: int, number: int, call: Call, cut: int, op: Instruction, scratch: dict[int, Value]
    ) -> _Turn:
        program, where = call.programs[rank], f"call {number}, rank {rank}, block {op.block}"
        if op.destinations & TO_OUTBOX or op.block + op.width > program.blocks:
            raise Fault(f"{where}: {op} does not fit a zero-copy program")
        if [source.rank for source in op.sources] != sorted({source.rank for source in op.sources}):
            raise Fault(f"{where}: operands are not in the order of ranks")
        for i in range(op.width if op.sources else 0):
            operands = []
            for source in op.sources:
                operands.append(self._operand(rank, call, cut, source, source.index + i, scratch, where))
                yield None
            result = frozenset().union(*operands)
            if len(result) != sum(map(len, operands)):
                raise Fault(f"{where}: a contribution is counted twice")
            if op.completes != (len(op.sources) > 1 and len(result) == self.n):
                raise Fault(f"{where}: completes is {op.completes} with {len(result)} of {self.n}")
            targets = [(store.rank, store.index + i) for store in op.stores]
            if op.destinations & TO_OUTPUT:
                targets.append((rank, op.memory_index + i))
            for owner, index in targets:
                if _stays(call, rank, op, index, owner, cut):
                    continue
                if owner != rank and not program.shares_output:
                    raise Fault(f"{where}: stores to rank {owner}, and shares no output")
                self._write(rank, call.place(owner, Side.OUTPUT, index, cut), result, where)
                yield None
            if op.destinations & TO_SCRATCH:
                if op.memory_index + i >= program.scratch_blocks:
                    raise Fault(f"{where}: scratch {op.memory_index + i} of {program.scratch_blocks}")
                scratch[op.memory_index + i] = result

    def _operand(
        self, rank: int, call: Call, cut: int, source: Source, index: int, scratch: dict[int, Value], where: str
    ) -> Value:
        space, owner = source.space, source.rank
        program = call.programs[rank]
        value: Value | None
        match space:
            case Space.SCRATCH:
                value = scratch.get(index)
            case Space.INPUT | Space.PEER_INPUT:
                value = self._read(rank, call.place(owner, Side.INPUT, index, cut), where)
            case Space.OUTPUT | Space.PEER_OUTPUT:
                value = self._read(rank, call.place(owner, Side.OUTPUT, index, cut), where)
            case Space.PEER:
                raise Fault(f"{where}: takes data from a message")
        shared = {Space.PEER_INPUT: program.shares_input, Space.PEER_OUTPUT: program.shares_output}.get(space)
        if shared is False or (shared is None) != (owner == rank):
            raise Fault(f"{where}: takes {space.name} of rank {owner}")
        if value is None:
            raise Fault(f"{where}: block {index} of {space.name} of rank {owner} holds nothing")
        return value

    def _cell(self, place: Place, where: str) -> _Cell:
        cell = self._cells[place[0]].get(place)
        if cell is None:
            raise Fault(f"{where}: {place} is nowhere")
        return cell

    def _read(self, rank: int, place: Place, where: str) -> Value | None:
        cell, clock = self._cell(place, where), self._clocks[rank]
        if clock[cell.writer] < cell.written:
            raise Fault(f"{where}: rank {rank} may read {place} before rank {cell.writer} has written it")
        clock[rank] += 1
        cell.reads[rank] = clock[rank]
        return cell.value

    def _write(self, rank: int, place: Place, value: Value | None, where: str) -> None:
        cell, clock = self._cell(place, where), self._clocks[rank]
        for other, time in ((cell.writer, cell.written), *cell.reads.items()):
            if clock[other] < time:
                raise Fault(f"{where}: rank {rank} may write {place} while rank {other} uses it")
        clock[rank] += 1
        cell.value, cell.writer, cell.written, cell.reads = value, rank, clock[rank], {}


def _stays(call: Call, rank: int, op: Instruction, index: int, owner: int, cut: int) -> bool:
    """Whether a copy has one place as source and target, in place, where the executor leaves it alone."""
    first, at = op.sources[0], index - op.memory_index
    if len(op.sources) != 1 or owner != rank or first.space is not Space.INPUT:
        return False
    return call.place(rank, Side.INPUT, first.index + at, cut) == call.place(rank, Side.OUTPUT, index, cut)
