"""Reading peers' private buffers (exchange=single_copy): where it is allowed, what it refuses, and what happens when a
rank dies. Random calls by it are among those of test_collectives.py.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from ranks.cases import Call
from ranks.pool import Groups, Ranks, Step
from spec import FLOATS, Array

from autotune.kernels import single_copy_names
from autotune.kernels.single_copy import own_memory_fault, single_copy_fault, yama_fault
from autotune.types import Collective, DType, ReduceOp

STATUS = "Name:\tpython\nCapEff:\t{:016x}\nSeccomp:\t0\n"
NONE, PTRACE = STATUS.format(0), STATUS.format(1 << 19)


@pytest.mark.parametrize(
    ("scope", "status", "allowed"),
    [
        (None, NONE, True),  # no Yama
        ("0\n", NONE, True),
        ("1\n", NONE, False),  # descendants only, and ranks are siblings
        ("1\n", PTRACE, True),
        ("2\n", NONE, False),
        ("2\n", PTRACE, True),
        ("3\n", PTRACE, False),  # nobody, whatever it may otherwise
        ("1\n", "Name:\tpython\n", False),  # a status that does not say
    ],
)
def test_what_yama_forbids(scope: str | None, status: str, allowed: bool) -> None:
    fault = yama_fault(scope, status)
    assert (fault is None) == allowed
    assert fault is None or fault.startswith(f"kernel.yama.ptrace_scope is {(scope or '').strip()}, ")


def test_this_host_says_the_same_twice() -> None:
    assert single_copy_fault() == single_copy_fault()
    assert own_memory_fault() is None or single_copy_fault() is not None


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    with Ranks(2) as ranks:
        assert [answer.errors for answer in ranks.join(timeout_s=20.0)] == [[], []]
        yield ranks


def bytes_of(output: Array | None) -> bytes | None:
    return None if output is None else output.tobytes()


def step(call: Call) -> Step:
    return {"do": "call", "group": "g", "call": call.to_json()}


def test_every_algorithm_type_and_operation_gives_the_bytes_of_the_outboxes(groups: Groups) -> None:
    """Sums that round: the order of ranks decides the bytes, not the way the operands came."""
    for n in range(2, 6):
        listed = []
        for number, (collective, dtype) in enumerate(itertools.product(Collective, DType)):
            for algorithm, count in zip(single_copy_names(collective, n), itertools.cycle((0, 1, 251, 999))):
                drawn = Call(
                    collective=collective,
                    algorithm=algorithm,
                    dtype=dtype,
                    op=tuple(ReduceOp)[number % len(ReduceOp)] if collective.computes else ReduceOp.SUM,
                    root=number % n if collective.has_root else 0,
                    count=count,
                    segment_bytes=1024 if number % 2 else 1 << 20,
                    values="random" if dtype in FLOATS else "exact",
                    seed=number,
                    in_place=number % 3 == 0 and collective is not Collective.ALL_TO_ALL,
                    stores=("cached", "streamed")[number % 2],
                )
                listed += [drawn, replace(drawn, exchange="single_copy")]
        outputs = groups.run(n, listed)
        for call, staged, single in zip(listed[::2], outputs[::2], outputs[1::2], strict=True):
            assert list(map(bytes_of, staged)) == list(map(bytes_of, single)), call


@pytest.mark.parametrize("collective", [Collective.ALL_GATHER, Collective.ALL_REDUCE])
def test_a_rank_that_dies_in_the_middle_is_named_by_all_others(collective: Collective) -> None:
    call = Call(collective=collective, algorithm="ring", exchange="single_copy", count=300_000, segment_bytes=1 << 20)
    again: Step = {"do": "until_error", "group": "g", "call": call.to_json()}
    with Ranks(3) as ranks:
        assert [answer.errors for answer in ranks.join(timeout_s=20.0)] == [[]] * 3
        dying = again | {"do": "signal_in_collective", "after_s": 0.3}
        answers = ranks.ask({0: [again, step(call)], 1: [dying], 2: [again, step(call)]}, within_s=15.0)
        assert answers[1].ended == -signal.SIGALRM
        for rank in (0, 2):
            first, second = (error.split(" (reported by")[0] for error in answers[rank].errors)
            assert first == second
            assert "rank 1 (pid " in first


def test_codecs_need_messages(two: Ranks) -> None:
    call = Call(collective=Collective.ALL_REDUCE, algorithm="direct", exchange="single_copy", codec="int8", count=9)
    for answer in two.ask({0: [step(call)], 1: [step(call)]}):
        assert "there are no messages to encode" in answer.errors[0]
