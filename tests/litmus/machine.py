"""An abstract machine with C++11's weak memory, small enough that all executions of a few threads can be tried.

In:  what each thread does, as operations. Out: the first fault that any execution has, in words, or None.
May not touch: the protocol that runs on it (protocol.py, handshakes.py).

Memory is a list of messages for each word: whoever stores appends one, and a load may return any that is not older than
what its thread has already seen of that word (the view-based machine of Kang et al., "A promising semantics for relaxed
memory concurrency", 2017, without promises). What a thread has seen travels with release messages to those that acquire
them, and in no other way. Every word here is stored by one thread only or changed by read-modify-write, so that
appending loses no order. Plain accesses carry vector clocks: two of them to one place, one a write, that are not
ordered by happens-before are a data race, which is a fault whatever the values are. So a plain load that a CPU delays
until after a later store, which only promises would show as a value, shows here as a race.

Faults are races, plain reads of an unexpected value, and threads that are stuck: for those, loads return the newest
message, since a stale one does not stay visible for ever.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeVar

from litmus.operations import Add, Fence, Jump, Load, Name, Operation, Read, Sleep, Store, Wake, Write

T = TypeVar("T")


Numbers = tuple[int, ...]


class _View:
    """What is known: of each word the newest message, of each thread the time up to which it happened before.

    Equal ones are one object, which makes states quick to compare.
    """

    __slots__ = ("past", "seen")
    _all: ClassVar[dict[tuple[Numbers, Numbers], _View]] = {}
    seen: Numbers
    past: Numbers

    def __new__(cls, seen: Numbers, past: Numbers) -> _View:
        view = cls._all.get((seen, past))
        if view is None:
            view = cls._all[seen, past] = super().__new__(cls)
            view.seen, view.past = seen, past
        return view

    @classmethod
    def forget_all(cls) -> None:
        cls._all.clear()

    def seeing(self, word: int, message: int) -> _View:
        return _View(_put(self.seen, word, message), self.past)

    def joined(self, other: _View) -> _View:
        return _View(tuple(map(max, self.seen, other.seen)), tuple(map(max, self.past, other.past)))


class _Thread(NamedTuple):
    at: int
    kept: int
    asleep: bool
    view: _View


class _Message(NamedTuple):
    value: int
    view: _View | None  # None: relaxed, so it tells nothing


_GONE = _Message(-1, None)  # one that nobody will load


class _Place(NamedTuple):
    value: int
    writer: int
    written: int  # the writer's time
    read: Numbers  # by thread, the time of its latest read


class _State(NamedTuple):
    threads: tuple[_Thread, ...]
    memory: tuple[tuple[_Message, ...], ...]
    places: tuple[_Place, ...]


class _Fault(Exception):
    pass


def first_fault(
    threads: Sequence[Sequence[Operation]], initial: Mapping[Name, int] | None = None, *, oldest_only: bool = False
) -> str | None:
    """Try all executions.

    Args:
        initial: values of words that do not begin with 0.
        oldest_only: try only those in which a repeated load ends with the oldest message that ends it. Where every word
            is stored by one thread, a newer message tells all that an older one does, and who knows more has fewer
            races and fewer stale values to read; so these are the worst.
    """
    _View.forget_all()
    machine = _Machine(threads, initial or {}, oldest_only)
    try:
        machine.explore()
    except _Fault as fault:
        return str(fault)
    return None


class _Machine:
    def __init__(self, threads: Sequence[Sequence[Operation]], initial: Mapping[Name, int], oldest_only: bool) -> None:
        self._code, self._oldest_only = threads, oldest_only
        operations = [op for code in threads for op in code]
        words = dict.fromkeys(op.word for op in operations if isinstance(op, Store | Load | Add | Sleep | Wake))
        self._word = {name: number for number, name in enumerate(words)}
        places = dict.fromkeys(op.place for op in operations if isinstance(op, Write | Read))
        self._place = {name: number for number, name in enumerate(places)}
        nothing = _View((0,) * len(words), (0,) * len(threads))
        self._initial = _State(
            tuple(
                _Thread(0, 0, False, _View(nothing.seen, _put(nothing.past, number, 1)))
                for number in range(len(threads))
            ),
            tuple((_Message(initial.get(name, 0), nothing),) for name in words),
            tuple(_Place(0, 0, 0, nothing.past) for _ in places),
        )
        # A store may be carried out at once: those who load can still return what was there before. That is not so
        # where somebody asks for the newest.
        self._newest_matters = any(isinstance(op, Add | Fence | Sleep) for op in operations)
        stored = Counter((op.word, op.value) for op in operations if isinstance(op, Store))
        self._loads: list[list[tuple[int, int, int, int]]] = [[] for _ in words]  # thread, where, low, high
        for number, code in enumerate(threads):
            for at, op in enumerate(code):
                if isinstance(op, Load):
                    wanted = (op.low, op.high) if op.otherwise is None else (0, sys.maxsize)
                    self._loads[self._word[op.word]].append((number, at, *wanted))
        self._last_wanted: dict[tuple[int, int], dict[int, int]] = {}
        self._once = {what for what, times in stored.items() if times == 1}

    def explore(self) -> None:
        todo, known = deque([self._settled(self._initial)]), set[_State]()
        while todo:
            state = todo.popleft()  # the shortest way to a fault comes first
            if state in known:
                continue
            known.add(state)
            running = [t for t, thread in enumerate(state.threads) if thread.at < len(self._code[t])]
            if running and not any(True for t in running for _ in self._moves(state, t, newest=True)):
                raise _Fault("stuck: " + ", ".join(f"rank {t} at {self._operation(state, t)}" for t in running))
            todo += [self._settled(after) for t in running for after in self._moves(state, t)]

    def _operation(self, state: _State, thread: int) -> Operation:
        return self._code[thread][state.threads[thread].at]

    def _settled(self, state: _State) -> _State:
        """The state once every thread is at an operation whose moment matters, or has to wait."""
        idle = 0
        while idle < len(self._code):
            idle += 1
            for number, code in enumerate(self._code):
                while (at := state.threads[number].at) < len(code) and self._at_any_time(code[at]):
                    after = next(self._moves(state, number), None)
                    if after is None:
                        break
                    state, idle = after, 0
        return state if self._newest_matters else self._forgetting(state)

    def _forgetting(self, state: _State) -> _State:
        """The state without what no load to come can tell apart, so that paths that have met again are one."""
        memory, first = [], []
        for word, messages in enumerate(state.memory):
            kept = [m if self._wanted(state, word, m.value) else _GONE for m in messages]
            memory.append(tuple(kept))
            first.append(next((i for i, m in enumerate(kept) if m is not _GONE), len(kept) - 1))

        def raised(view: _View) -> _View:
            return _View(tuple(map(max, view.seen, first)), view.past)

        return _State(
            tuple(thread._replace(view=raised(thread.view)) for thread in state.threads),
            tuple(tuple(m if m.view is None else _Message(m.value, raised(m.view)) for m in of) for of in memory),
            state.places,
        )

    def _wanted(self, state: _State, word: int, value: int) -> bool:
        last = self._last_wanted.get((word, value))
        if last is None:  # by thread, where the last load is that ends with this value
            last = self._last_wanted[word, value] = {
                thread: at for thread, at, low, high in self._loads[word] if low <= value <= high
            }
        return any(at >= state.threads[thread].at for thread, at in last.items())

    def _at_any_time(self, op: Operation) -> bool:
        """Whether it has one outcome, whenever it is carried out, and does not change the outcomes of others."""
        match op:
            case Store():
                return not self._newest_matters
            case Load(word, low, high, _, None):
                once = low == high and (word, low) in self._once
                return not self._newest_matters and (once or self._oldest_only)
        return isinstance(op, Write | Read | Jump)

    def _moves(self, state: _State, number: int, newest: bool = False) -> Iterator[_State]:
        """The states that one operation of a thread can lead to; none if it has to wait."""
        thread = state.threads[number]
        op = self._operation(state, number)
        after = thread._replace(at=thread.at + 1)
        match op:
            case Write() | Read():
                yield self._accessed(state, number, after, op)
            case Store(word, value, release):
                yield self._stored(state, number, after, self._word[word], value, release)
            case Load():
                yield from self._loaded(state, number, op, newest)
            case Add(word, amount):
                found = state.memory[self._word[word]][-1]
                if found.view is not None:
                    after = after._replace(view=after.view.joined(found.view))
                yield self._stored(state, number, after, self._word[word], found.value + amount, True)
            case Fence(other):
                seen = tuple(map(max, thread.view.seen, state.threads[other].view.seen))
                for passing, then in ((other, state.threads[other]), (number, after)):
                    state = _with(state, passing, then._replace(view=_View(seen, then.view.past)))
                yield state
            case Sleep(word):
                if not thread.asleep:
                    changed = state.memory[self._word[word]][-1].value != thread.kept
                    yield _with(state, number, after if changed else thread._replace(asleep=True))
            case Wake(word):
                for other, sleeper in enumerate(state.threads):
                    if sleeper.asleep and self._operation(state, other) == Sleep(word):
                        state = _with(state, other, sleeper._replace(at=sleeper.at + 1, asleep=False))
                yield _with(state, number, after)
            case Jump(to):
                yield _with(state, number, after._replace(at=to))

    def _stored(self, state: _State, number: int, after: _Thread, word: int, value: int, release: bool) -> _State:
        messages = state.memory[word]
        view = after.view.seeing(word, len(messages))
        message = _Message(value, view if release else None)
        state = state._replace(memory=_put(state.memory, word, (*messages, message)))
        later = _View(view.seen, _put(view.past, number, view.past[number] + 1))
        return _with(state, number, after._replace(view=later))

    def _loaded(self, state: _State, number: int, op: Load, newest: bool) -> Iterator[_State]:
        thread, word = state.threads[number], self._word[op.word]
        messages = state.memory[word]
        for index in range(len(messages) - 1 if newest else thread.view.seen[word], len(messages)):
            message = messages[index]
            right = op.low <= message.value <= op.high
            if not right and op.otherwise is None:
                continue
            view = thread.view.seeing(word, index)
            if op.acquire and message.view is not None:
                view = view.joined(message.view)
            at = thread.at + 1 if right or op.otherwise is None else op.otherwise
            kept = message.value if op.keep else thread.kept
            yield _with(state, number, thread._replace(at=at, kept=kept, view=view))
            if self._oldest_only and op.otherwise is None:
                return

    def _accessed(self, state: _State, number: int, after: _Thread, op: Write | Read) -> _State:
        index, past = self._place[op.place], after.view.past
        place = state.places[index]
        if past[place.writer] < place.written:
            raise _Fault(f"race: rank {number}'s {op} with the write by rank {place.writer}")
        if isinstance(op, Read):
            if op.value is not None and op.value != place.value:
                raise _Fault(f"rank {number}'s {op} finds {place.value}")
            place = place._replace(read=_put(place.read, number, past[number]))
        else:
            for other, read in enumerate(place.read):
                if past[other] < read:
                    raise _Fault(f"race: rank {number}'s {op} with a read by rank {other}")
            place = _Place(op.value, number, past[number], place.read)
        return _with(state._replace(places=_put(state.places, index, place)), number, after)


def _put(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _with(state: _State, number: int, thread: _Thread) -> _State:
    return state._replace(threads=_put(state.threads, number, thread))
