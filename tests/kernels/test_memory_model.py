"""The protocol under weak memory: a model with the memory orders of the source, in all executions that C++11 has.

No reader sees stale data, no slot or buffer is overwritten before its readers are done, no wake-up is lost; and where a
part of the protocol is left out or weakened, the model finds an execution in which one of these goes wrong.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from litmus.handshakes import broadcast, channel, pingpong, record
from litmus.machine import first_fault
from litmus.operations import Add, Fence, Load, Operation, Read, Store, Write
from litmus.protocol import FOREVER, Call, Rules, clocks, thread
from litmus.source import synchronises, unknown

from autotune.kernels.compiler import compile_program
from autotune.kernels.programs import distinct_names
from autotune.kernels.schedules.registry import build
from autotune.kernels.zero_copy import NotZeroCopy, compile_single_copy, compile_zero_copy
from autotune.types import Collective

ORDERS = synchronises()
SOUND = Rules(ORDERS)
CUTS = ((1, 4), (3, 1), (4, 4))
"""Slices and how many are in flight: one; one after the other; so many that slots are used again while others go on."""

Cut = tuple[int, int]


def call(collective: Collective, algorithm: str, n: int, cut: Cut = CUTS[0], *, root: int = 0) -> Call:
    order = tuple((position + root) % n for position in range(n))
    schedule = build(collective, algorithm, n)
    return Call(tuple(compile_program(collective, schedule, rank, order) for rank in range(n)), *cut)


def zero_copy(
    collective: Collective, algorithm: str, n: int, cut: Cut = CUTS[0], *, root: int = 0, in_place: bool = False
) -> Call:
    order = tuple((position + root) % n for position in range(n))
    return Call(compile_zero_copy(collective, build(collective, algorithm, n), order, in_place=in_place), *cut)


def single_copy(
    collective: Collective, algorithm: str, n: int, cut: Cut = CUTS[0], *, root: int = 0, in_place: bool = False
) -> Call:
    order = tuple((position + root) % n for position in range(n))
    programs = compile_single_copy(collective, build(collective, algorithm, n), order)
    return Call(programs, *cut, in_place=in_place)


@functools.cache
def every_call(n: int) -> tuple[Call, ...]:
    """All algorithms of all collectives, by every exchange, in all cuts."""
    return tuple(_every_call(n))


def _every_call(n: int) -> Iterator[Call]:
    for collective in Collective:
        for algorithm in distinct_names(collective, n):
            for cut in CUTS:
                root = n - 1 if collective.has_root else 0
                yield call(collective, algorithm, n, cut, root=root)
                yield replace(call(collective, algorithm, n, cut, root=root), in_line=True)
                yield replace(call(collective, algorithm, n, cut, root=root), small=True)
                if n == 2:
                    yield replace(call(collective, algorithm, n, cut, root=root), slot_size=2)
                for in_place in (False, True):
                    for exchange in (zero_copy, single_copy):
                        try:
                            made = exchange(collective, algorithm, n, cut, root=root, in_place=in_place)
                        except NotZeroCopy:
                            continue
                        if not (in_place and collective is Collective.ALL_TO_ALL):
                            yield made


def fault(calls: Sequence[Call], rules: Rules = SOUND, *, oldest_only: bool) -> str | None:
    n = len(calls[0].programs)
    threads = [thread(rank, calls, rules) for rank in range(n)]
    return first_fault(threads, clocks(n), oldest_only=oldest_only)


# ---- The protocol.


def test_the_model_knows_every_memory_order_of_the_protocol() -> None:
    assert unknown() == []


def test_all_executions_of_two_ranks() -> None:
    for one in every_call(2):
        if one.most_in_flight > 1:  # the others take long, and wait for the same
            assert fault([one, one], oldest_only=False) is None, one


@pytest.mark.parametrize("n", [2, 3, 4])
def test_worst_executions_of_one_call_again_and_again(n: int) -> None:
    for one in every_call(n):
        assert fault([one] * 3, oldest_only=True) is None, one


@pytest.mark.parametrize("n", [2, 3, 4])
def test_worst_executions_of_different_calls(n: int) -> None:
    rng = random.Random(n)
    for _ in range(40):
        calls = [rng.choice(every_call(n)) for _ in range(5)]
        for banks in (2, 3):
            assert fault(calls, Rules(ORDERS, banks=banks), oldest_only=True) is None, calls


WAVES = call(Collective.BROADCAST, "ring", 2, CUTS[2])
ONCE = call(Collective.BROADCAST, "tree", 3)
LINES = replace(ONCE, in_line=True)
SMALL = replace(ONCE, small=True)
SWAPS = call(Collective.ALL_REDUCE, "ring", 2)
GATHER, SEND = call(Collective.ALL_GATHER, "ring", 2), call(Collective.BROADCAST, "tree", 2)
SLICED, SHORTER = (call(Collective.ALL_GATHER, "ring", 2, (n_slices, 4)) for n_slices in (4, 2))
WIDER = replace(SWAPS, slot_size=2)
PUSH = zero_copy(Collective.ALL_REDUCE, "ring", 2)
PULL = zero_copy(Collective.ALL_GATHER, "ring", 2)
READS = single_copy(Collective.ALL_GATHER, "ring", 2)
PULLS = zero_copy(Collective.BROADCAST, "ring", 2, CUTS[2])

WEAKENED = {
    "relaxed store of the word": (WAVES, Rules({**ORDERS, "message store": False})),
    "relaxed load of the word": (WAVES, Rules({**ORDERS, "message load": False})),
    "relaxed store of the clock": (WAVES, Rules({**ORDERS, "clock store": False})),
    "relaxed load of the clock": (WAVES, Rules({**ORDERS, "clock load": False})),
    "relaxed store of a word that only announces": (PUSH, Rules({**ORDERS, "message store": False})),
    "relaxed clock, where buffers are shared": (PULL, Rules({**ORDERS, "clock store": False})),
    "no wait for the slot's readers": (WAVES, Rules(ORDERS, frozenset({"slot"}))),
    "no wait for the slot's readers, where words only announce": (PULLS, Rules(ORDERS, frozenset({"slot"}))),
    "slot written a wave too early": (WAVES, Rules(ORDERS, slot_lead=1)),
    "no wait for the half after a call that does not synchronise": (ONCE, Rules(ORDERS, frozenset({"half"}))),
    "relaxed store of the word that says where buffers lie": (READS, Rules({**ORDERS, "message store": False})),
    "relaxed clock, where private buffers are read": (READS, Rules({**ORDERS, "clock store": False})),
    "no wait at the end, where private buffers are read": (READS, Rules(ORDERS, frozenset({"final"}))),
    "no wait for the line after calls that do not synchronise": (LINES, Rules(ORDERS, frozenset({"half"}))),
    "line written a call too early": (LINES, Rules(ORDERS, bank_lead=1)),
    "no wait for the bank after calls that do not synchronise": (SMALL, Rules(ORDERS, frozenset({"half"}))),
    "bank written a call too early": (SMALL, Rules(ORDERS, bank_lead=1)),
    "no wait at the end": (PULL, Rules(ORDERS, frozenset({"final"}))),
    "no wait of the program before a push": (PUSH, Rules(ORDERS, frozenset({"program"}))),
}


OUTBOXES = {
    "no wait after an exchange in another layout": (
        [SLICED, SHORTER, SLICED, WIDER],  # the shorter one leaves the slots of a row in different outboxes
        Rules(ORDERS, frozenset({"layout"})),
    ),
    "no wait before a half, after an exchange": ([GATHER, SEND], Rules(ORDERS, frozenset({"layout"}))),
    "no wait before an exchange, after a half": ([SEND, SEND, GATHER], Rules(ORDERS, frozenset({"layout"}))),
    "messages that are not swapped": ([GATHER] * 3, Rules(ORDERS, frozenset({"swap"}))),
    "an exchange whose words are relaxed": ([SLICED] * 2, Rules({**ORDERS, "message store": False})),
}


@pytest.mark.parametrize("name", OUTBOXES)
def test_an_outbox_that_is_used_too_early_is_found(name: str) -> None:
    calls, rules = OUTBOXES[name]
    assert fault(calls, oldest_only=True) is None
    found = fault(calls, rules, oldest_only=True)
    assert found is not None
    assert found.startswith("race: rank ")


@pytest.mark.parametrize("name", WEAKENED)
def test_what_is_weakened_is_found(name: str) -> None:
    one, rules = WEAKENED[name]
    assert fault([one] * 3, oldest_only=True) is None
    found = fault([one] * 3, rules, oldest_only=True)
    assert found is not None
    assert found.startswith("race: rank ")


def test_the_worst_executions_find_what_all_executions_find() -> None:
    small = [one for one in every_call(2) if one.waves <= 6]
    rng = random.Random(0)
    for _, weakened in WEAKENED.values():
        for one in rng.sample(small, 6):
            all_executions = fault([one, one], weakened, oldest_only=False)
            worst = fault([one, one], weakened, oldest_only=True)
            assert (all_executions is None) == (worst is None), (one, all_executions, worst)


# ---- Sleeping, records of calls, send and recv.

SLEEPS = {
    "two ranks wait for each other": functools.partial(pingpong, 2, 1),
    "two ranks wait for each other, twice": functools.partial(pingpong, 2, 2),
    "two ranks wait for one": functools.partial(broadcast, 3, 1),
    "one rank waits for one, twice": functools.partial(broadcast, 2, 2),
}


@pytest.mark.parametrize("name", SLEEPS)
def test_no_wake_up_is_lost(name: str) -> None:
    assert first_fault(SLEEPS[name](ORDERS)) is None


@pytest.mark.parametrize(
    "part", ["membarrier", "announcement before the barrier", "bell before the look", "new bell", "last look"]
)
@pytest.mark.parametrize("name", SLEEPS)
def test_a_wake_up_is_lost_without(name: str, part: str) -> None:
    found = first_fault(SLEEPS[name](ORDERS, {part}))
    assert found is not None
    assert found.startswith("stuck: ")
    assert "Sleep" in found


def test_a_record_is_read_whole_or_not_at_all() -> None:
    assert first_fault(record(3, ORDERS)) is None


@pytest.mark.parametrize("part", ["open", "record field store", "record field load", "record close", "record tag load"])
def test_a_torn_record_is_found_without(part: str) -> None:
    found = first_fault(record(2, ORDERS | ({part: False} if part in ORDERS else {}), {part}))
    assert found is not None
    assert "another call in a whole record" in found


def test_pieces_of_messages_arrive_whole() -> None:
    assert first_fault(channel(9, ORDERS)) is None


@pytest.mark.parametrize("part", ["received", "piece store", "piece load", "received store", "received load"])
def test_a_race_for_a_piece_is_found_without(part: str) -> None:
    found = first_fault(channel(6, ORDERS | ({part: False} if part in ORDERS else {}), {part}))
    assert found is not None
    assert found.startswith("race: ")


# ---- The machine itself, on the litmus tests that everybody knows.

BROKEN = Read("what may not be", 1)  # finds 0: a fault wherever it is reached


Code = list[Operation]


@pytest.mark.parametrize(("release", "acquire"), [(True, True), (True, False), (False, True), (False, False)])
def test_message_passing(release: bool, acquire: bool) -> None:
    sender: Code = [Store("data", 1, release=False), Store("flag", 1, release)]
    receiver: Code = [Load("flag", 1, 1, acquire), Load("data", 0, 0, acquire=False, otherwise=3), BROKEN]
    stale = first_fault([sender, receiver])
    assert (stale is None) == (release and acquire)


@pytest.mark.parametrize("fences", [True, False])
def test_store_buffering_needs_a_fence(fences: bool) -> None:
    """Both ranks may miss the other's store, however much they release and acquire."""

    def code(rank: int) -> Code:
        before: Code = [Store(rank, 1), *([Fence(1 - rank)] if fences else [])]
        return [*before, Load(1 - rank, 0, 0, otherwise=len(before) + 2), Add("missed", 1)]

    judge: Code = [Load("missed", 2, 2, otherwise=2), BROKEN]
    assert (first_fault([code(0), code(1), judge]) is None) == fences


def test_a_word_never_goes_back() -> None:
    writer: Code = [Store("word", value, release=False) for value in (1, 2)]
    reader: Code = [Load("word", 2, 2, acquire=False), Load("word", 0, 1, acquire=False, otherwise=3), BROKEN]
    assert first_fault([writer, reader]) is None


def test_plain_accesses_race_unless_ordered() -> None:
    assert first_fault([[Write("x", 1)], [Read("x")]]) is not None
    assert first_fault([[Read("x")], [Read("x")]]) is None
    sender: Code = [Write("x", 1), Store("f", 1)]
    receiver: Code = [Load("f", 1, FOREVER), Read("x", 1), Write("x", 2)]
    assert first_fault([sender, receiver]) is None
    assert first_fault([[*sender, Read("x")], receiver]) is not None


def test_threads_that_wait_for_ever_are_stuck() -> None:
    found = first_fault([[Load("a", 1, 1), Store("b", 1)], [Load("b", 1, 1), Store("a", 1)]])
    assert found is not None
    assert found.startswith("stuck: rank 0")
