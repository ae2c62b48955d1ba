"""What a rank does to shared memory in a sequence of calls: csrc/group.cc and level.cc without arithmetic and sizes.

In:  the programs that kernels/compiler.py and zero_copy.py make, how calls are cut, the memory orders of the source.
Out: one thread's operations for the machine. May not touch: the machine's insides. Reading a private buffer through the
kernel is a read like any other.

Every function names the one of the executor that it stands for. Waits are loads that are repeated; handshakes.py has
what happens when they turn into sleep. Bytes are not modelled but places: a slot of an outbox, or a block of one slice
of a buffer that others use; other private buffers are nobody else's. Between calls the caller overwrites all of its
buffers that others use, as it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from litmus.operations import Load, Name, Operation, Read, Store, Write

from autotune.kernels.program import BEFORE_POST, TO_OUTBOX, TO_OUTPUT, VERTICAL, Instruction, Program, Space
from autotune.types import Collective

FOREVER = 1 << 40


@dataclass(frozen=True, slots=True)
class Rules:
    """How the protocol is carried out; anything but the source's way is a planted fault.

    Args:
        orders: of each access (source.py), whether it synchronises.
        without: waits that are left out: "slot", "half", "layout", "final" or "program"; or "swap", and messages of
            an exchange stay in their sender's outbox.
        slot_lead: a slot is written again so many waves too early.
        banks: calls whose words are apart, of those that synchronise and of the others. The source has more, which only
            makes it rarer that one is used again.
        bank_lead: so many calls too early.
    """

    orders: Mapping[str, bool]
    without: frozenset[str] = frozenset()
    slot_lead: int = 0
    banks: int = 2
    bank_lead: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One call of all ranks: their programs, and how the message is cut (`Plan::derive`).

    Args:
        n_slices: the plan's `slices`.
        most_in_flight: the knob `slices_in_flight`.
        in_place: whether private buffers are, on all ranks; over symmetric memory the programs say it.
        in_line: whether messages lie in the cache lines of their words.
        small: whether they lie in the bank of their call, and not in a half of the outbox; exchanges have no banks.
        slot_size: of a slot of an exchange, in places.
    """

    programs: tuple[Program, ...]
    n_slices: int = 1
    most_in_flight: int = 4
    in_place: bool = False
    in_line: bool = False
    small: bool = False
    slot_size: int = 1

    @property
    def exchanges(self) -> bool:
        """`exchanges_`: and it needs an outbox."""
        return not self.in_line and self.programs[0].exchanges

    @property
    def layout(self) -> tuple[int, int]:
        """Slots and their size, where the outboxes are swapped."""
        return (self.window * self.in_flight, self.slot_size) if self.exchanges else (0, 0)

    @property
    def spacing(self) -> int:
        """Waves between the starts of two slices."""
        deep = min(self.most_in_flight, self._levels)
        return -(-self._levels // deep) if self.n_slices > 1 else 1

    @property
    def in_flight(self) -> int:
        """Slices that share the outbox."""
        return -(-self._levels // self.spacing) if self.n_slices > 1 else 1

    @property
    def window(self) -> int:
        """Waves until a slot is used again."""
        return self._levels if self.n_slices == 1 and self._levels <= 8 else 3

    @property
    def waves(self) -> int:
        return self._levels + self.spacing * (self.n_slices - 1)

    @property
    def _levels(self) -> int:
        return len(self.programs[0].levels)


def thread(rank: int, calls: Sequence[Call], rules: Rules) -> list[Operation]:
    """A rank's calls, one after the other."""
    return list(_Rank(rank, rules).calls(calls))


def clocks(n: int) -> dict[Name, int]:
    """What `Group::Group` stores before anybody starts."""
    return {("clock", rank): 1 for rank in range(n)}


class _Rank:
    """`Group`, with its members by their names."""

    def __init__(self, rank: int, rules: Rules) -> None:
        self._rank, self._rules = rank, rules
        self._call, self._epoch, self._starts, self._all_started = 0, 1, [0], 0
        self._outbox_end, self._layout, self._swapped = 0, (0, 0), dict[tuple[int, int], bool]()
        self._calls, self._bank, self._bank_spans = [0, 0], 0, dict[int, tuple[int, int]]()

    def calls(self, calls: Sequence[Call]) -> Iterator[Operation]:
        for call in calls:
            yield from self._user(call)
            yield from self._run(call)
            yield from self._user(call)

    def _user(self, call: Call) -> Iterator[Operation]:
        """The caller's own use of its buffers: the strongest that it may make, writing."""
        program = call.programs[self._rank]
        if program.zero_copy:
            yield from map(Write, dict.fromkeys(_buffers(call, self._rank)))

    def _run(self, call: Call) -> Iterator[Operation]:
        """`Group::run`."""
        program = call.programs[self._rank]
        yield from self._begin(call)
        start = self._epoch
        for wave in range(call.waves):
            for number in reversed(range(call.n_slices)):
                level = wave - call.spacing * number
                if 0 <= level < len(program.levels):
                    part = _Level(
                        self._rank, self._rules, call, self._call, self._bank, start, wave, number, self._swapped
                    )
                    yield from part.operations()
                    if call.exchanges and program.posts[level]:
                        self._swapped[part.slot(wave)] = not self._swapped.get(part.slot(wave), False)
            if call.waves > call.window or wave + 1 == call.waves:
                yield Store(("clock", self._rank), start + wave + 1, self._rules.orders["clock store"])
        if "final" not in self._rules.without:
            for other in program.final_waits:
                yield await_clock(other, start + call.waves, self._rules)
        if program.synchronising:
            self._all_started = start
        self._epoch = start + call.waves

    def _begin(self, call: Call) -> Iterator[Operation]:
        """`Group::begin`."""
        self._call += 1
        in_banks = call.in_line or call.programs[0].zero_copy or (call.small and not call.exchanges)
        program = call.programs[self._rank]
        banks = self._rules.banks
        self._calls[program.synchronising] += 1
        self._bank = banks * program.synchronising + self._calls[program.synchronising] % banks
        last = self._bank_spans.get(self._bank, (0, 0))
        started = last[0 if self._rules.bank_lead else 1] if in_banks or call.exchanges else self._starts[-1]
        self._bank_spans[self._bank] = (self._epoch, self._epoch + call.waves)
        if self._all_started < started and "half" not in self._rules.without:
            for other in range(call.programs[0].n_ranks):
                if other != self._rank:
                    yield await_clock(other, started, self._rules)
        self._starts.append(self._epoch)
        if not in_banks:
            yield from self._take_place(call)

    def _take_place(self, call: Call) -> Iterator[Operation]:
        """`Group::take_place`."""
        if call.layout != self._layout and "layout" not in self._rules.without:
            for other in range(call.programs[0].n_ranks):
                if other != self._rank:
                    yield await_clock(other, self._outbox_end, self._rules)
        self._layout = call.layout
        self._outbox_end = self._epoch + call.waves


class _Level:
    """`Group::run_level` with the `Group::Wave` that it gets."""

    def __init__(
        self,
        rank: int,
        rules: Rules,
        call: Call,
        number: int,
        bank: int,
        start: int,
        wave: int,
        part: int,
        swapped: Mapping[tuple[int, int], bool],
    ) -> None:
        self._rank, self._rules, self._call, self._start, self._wave, self._slice = rank, rules, call, start, wave, part
        self._program = call.programs[rank]
        self._half, self._bank = number % 2, bank
        self._level = wave - call.spacing * part
        self._swapped = swapped

    def operations(self) -> Iterator[Operation]:
        program, call, rules = self._program, self._call, self._rules
        posts = program.posts[self._level]
        if posts and self._wave >= call.window and "slot" not in rules.without:
            for reader in program.readers:
                yield await_clock(reader, self._start + self._wave - call.window + 2 - rules.slot_lead, rules)
        level = program.levels[self._level]
        left = sum(bool(op.destinations & BEFORE_POST) for op in level)
        if posts and left == 0:
            yield from self._post()
        for op in level:
            yield from self._instruction(op)
            if op.destinations & BEFORE_POST:
                left -= 1
                if posts and left == 0:
                    yield from self._post()

    def _instruction(self, op: Instruction) -> Iterator[Operation]:
        shared = self._program.zero_copy
        if shared and self._stays(op):
            return
        for source in op.sources:
            match source.space:
                case Space.PEER:
                    yield from self._await_message(source.rank)
                    taken = self._start + self._wave - 1
                    yield from (Read(place, taken) for place in self._message(source.rank, self._wave - 1))
                case Space.PEER_INPUT | Space.PEER_OUTPUT:
                    yield from self._await_message(source.rank)
                    yield from map(Read, self._blocks(op, source.space, source.rank, source.index))
                case Space.INPUT | Space.OUTPUT if shared:
                    yield from map(Read, self._blocks(op, source.space, self._rank, source.index))
        for other in op.waits if "program" not in self._rules.without else ():
            yield from self._await_message(other)
        for target in op.stores:
            yield from map(Write, self._blocks(op, target.space, target.rank, target.index))
        if op.destinations & TO_OUTPUT and shared:
            yield from map(Write, self._blocks(op, Space.OUTPUT, self._rank, op.memory_index))
        if op.destinations & TO_OUTBOX:
            made = self._start + self._wave
            yield from (Write(place, made) for place in self._message(self._rank, self._wave))

    def _stays(self, op: Instruction) -> bool:
        """Whether a copy has one place as source and target, in place: `Group::execute` leaves it alone."""
        if len(op.sources) != 1 or op.sources[0].space is not Space.INPUT or not op.destinations & TO_OUTPUT:
            return False
        target = self._blocks(op, Space.OUTPUT, self._rank, op.memory_index)
        return not op.stores and self._blocks(op, Space.INPUT, self._rank, op.sources[0].index) == target

    def _post(self) -> Iterator[Operation]:
        """`Group::post`. A word that is overwritten before all have seen it is awaited for ever: as bad as a race."""
        word = ("message", self._rank, self._bank, *self.slot(self._wave))
        yield Write(word)
        yield Store(word, self._start + self._wave, self._rules.orders["message store"])

    def _await_message(self, source: int) -> Iterator[Operation]:
        """`Group::await_message`."""
        word = ("message", source, self._bank, *self.slot(self._wave - 1))
        wanted = self._start + self._wave - 1
        yield Load(word, wanted, wanted, self._rules.orders["message load"])
        yield Read(word)

    def _message(self, rank: int, wave: int) -> list[Name]:
        """`Group::messages`: beside the word, in the bank of the call, in a half of the outbox, or where two swap."""
        call, slot = self._call, self.slot(wave)
        if call.in_line:
            return [("line", rank, self._bank, *slot)]
        if call.exchanges:
            was = wave != self._wave  # its message has been announced, so the slot has been swapped since
            swapped = self._swapped.get(slot, False) != was and "swap" not in self._rules.without
            first = (slot[0] * call.in_flight + slot[1]) * call.slot_size
            return [("outbox", 1 - rank if swapped else rank, 0, first + i) for i in range(call.slot_size)]
        if call.small:
            return [("bank", rank, self._bank, *slot)]
        return [("outbox", rank, self._half, slot[0] * call.in_flight + slot[1])]

    def slot(self, wave: int) -> tuple[int, int]:
        """Of a message of this slice: row and column."""
        return wave % self._call.window, self._slice % self._call.in_flight

    def _blocks(self, op: Instruction, space: Space, rank: int, index: int) -> list[Name]:
        name = _places(self._call)
        return [(name(space, rank, index + i), self._slice) for i in range(op.width)]


def await_clock(source: int, clock: int, rules: Rules) -> Operation:
    """`Group::await_clock`; a look that `seen_clock_` saves would tell no more than the one before."""
    return Load(("clock", source), clock, FOREVER, rules.orders["clock load"])


def _places(call: Call) -> Callable[[Space, int, int], Name]:
    """Where blocks lie, as `Group::places` demands it: blocks that lie at one address have one name."""
    program = call.programs[0]
    collective = program.collective
    shared = collective is Collective.BROADCAST and not program.single_copy
    aliased = program.in_place or call.in_place or shared

    def name(space: Space, rank: int, index: int) -> Name:
        is_input = space in (Space.INPUT, Space.PEER_INPUT)
        match collective:
            case Collective.ALL_GATHER | Collective.GATHER if aliased and is_input:
                return (rank, "output", rank + index)
            case Collective.REDUCE_SCATTER | Collective.SCATTER if aliased and not is_input:
                return (rank, "input", rank + index)
            case Collective.ALL_REDUCE | Collective.REDUCE | Collective.BROADCAST if aliased:
                return (rank, "output", index)
        return (rank, "input" if is_input else "output", index)

    return name


def _buffers(call: Call, rank: int) -> Iterator[Name]:
    """All places of a rank's own buffers."""
    program = call.programs[rank]
    blocks = program.n_ranks if program.collective in VERTICAL else program.blocks
    inputs = 1 if program.collective in (Collective.ALL_GATHER, Collective.GATHER) else blocks
    outputs = 1 if program.collective in (Collective.REDUCE_SCATTER, Collective.SCATTER) else blocks
    name = _places(call)
    for part in range(call.n_slices):
        for space, length in ((Space.INPUT, inputs), (Space.OUTPUT, outputs)):
            for index in range(length):
                yield (name(space, rank, index), part)
