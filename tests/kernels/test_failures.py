"""What goes wrong between ranks: every survivor gets the same error, in time, with both ranks and the reason in it.

Never a hang (every wait below has an end), never a wrong result, and nothing left behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from ranks.cases import Call
from ranks.pool import Answer, Ranks, Step

from autotune.types import Collective, DType, ReduceOp

TIMEOUT_S = 2.0
ALL_REDUCE = Call(collective=Collective.ALL_REDUCE, algorithm="ring", count=100)
LARGE = replace(ALL_REDUCE, count=200_000)


def do(call: Call) -> Step:
    return {"do": "call", "group": "g", "call": call.to_json()}


SEND = {"do": "send", "group": "g", "count": 8, "seed": 0}
RECV = {"do": "recv", "group": "g", "count": 8, "seed": 0}
BARRIER = {"do": "method", "group": "g", "method": "barrier"}
CLOSE = {"do": "close", "group": "g"}


@pytest.fixture(scope="module")
def six() -> Iterator[Ranks]:
    """Ranks for tests in which none of them dies; every test joins a group of its own."""
    with Ranks(6) as ranks:
        yield ranks


def run(ranks: Ranks, steps: Sequence[Sequence[Step]], *, check: bool = False) -> tuple[list[Answer], list[str]]:
    """As many ranks as there are lists join, make their steps and one barrier more.

    Returns:
        the answers, and of every rank that lives the one text that all its errors have.
    """
    joined = ranks.join(len(steps), timeout_s=TIMEOUT_S, check=check)
    assert [answer.errors for answer in joined] == [[]] * len(steps)
    answers = ranks.ask({rank: [*of_rank, BARRIER] for rank, of_rank in enumerate(steps)}, within_s=TIMEOUT_S + 8.0)
    return answers, [said(answer) for answer in answers if answer.ended is None]


def said(answer: Answer) -> str:
    """The error of a rank: the first one and every later one are the same CommunicatorError, with a remedy."""
    failed = [result for result in answer.results if "error" in result]
    assert failed, answer
    assert answer.results[answer.results.index(failed[0]) :] == failed, "a step worked after an error"
    texts: set[str] = {result["message"].split(" (reported by")[0] for result in failed}
    assert len(texts) == 1, texts
    assert {result["error"] for result in failed} == {"CommunicatorError"}
    assert all(result["remedy"] for result in failed)
    return texts.pop()


def assert_all_say(texts: Sequence[str], *words: str) -> None:
    """All ranks tell the same story, with these words in it."""
    assert len(set(texts)) == 1, texts
    for word in words:
        assert word in texts[0], (word, texts[0])


BROADCAST = Call(collective=Collective.BROADCAST, algorithm="flat", count=10)
MISMATCHES: Mapping[str, tuple[Call, Call, str]] = {
    "count": (ALL_REDUCE, replace(ALL_REDUCE, count=101), "count"),
    "no elements": (replace(ALL_REDUCE, count=0), ALL_REDUCE, "count"),
    "large count": (LARGE, replace(LARGE, count=LARGE.count - 1), "count"),
    "dtype": (ALL_REDUCE, replace(ALL_REDUCE, dtype=DType.INT32), "dtype"),
    "op": (ALL_REDUCE, replace(ALL_REDUCE, op=ReduceOp.MAX), "op"),
    "root": (BROADCAST, replace(BROADCAST, root=1), "root"),
    "collective": (replace(BROADCAST, algorithm="tree"), replace(ALL_REDUCE, algorithm="tree", count=10), "collective"),
    "algorithm": (ALL_REDUCE, replace(ALL_REDUCE, algorithm="direct"), "algorithm"),
    "segment": (ALL_REDUCE, replace(ALL_REDUCE, segment_bytes=64), "segment_bytes"),
    "slices in flight": (LARGE, replace(LARGE, slices_in_flight=2), "knobs"),
    "stores": (LARGE, replace(LARGE, stores="streamed"), "knobs"),
}


@pytest.mark.parametrize("check", [False, True], ids=["always on", "AUTOTUNE_CHECK"])
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("kind", MISMATCHES)
def test_other_arguments_than_the_peers(six: Ranks, kind: str, n: int, check: bool) -> None:
    usual, odd, field = MISMATCHES[kind]
    started = time.monotonic()
    answers, texts = run(six, [[do(usual)]] * (n - 1) + [[do(odd)]], check=check)
    assert len(texts) == n
    assert_all_say(
        texts, f"rank {n - 1}", "disagree at call 1", f"in: {field}", f"rank {n - 1}: {odd.collective.value}("
    )
    assert time.monotonic() - started < 6.0, "found by a time-out"
    assert all(not answer.outputs for answer in answers if field not in ("root", "collective")), "a result came back"


def test_the_oldest_difference_is_named(six: Ranks) -> None:
    calls = [do(BROADCAST), do(ALL_REDUCE)]
    odd = [do(replace(BROADCAST, root=1)), do(replace(ALL_REDUCE, count=7))]
    _, texts = run(six, [[do(ALL_REDUCE)] * 3 + calls, [do(ALL_REDUCE)] * 3 + odd])
    assert_all_say(texts, "ranks 0 and 1 disagree at call 4 in: root", "root=0", "root=1")


def test_one_call_more_than_the_peers(six: Ranks) -> None:
    _, texts = run(six, [[do(ALL_REDUCE)] * 2, [do(ALL_REDUCE)], [do(ALL_REDUCE)]])
    assert_all_say(texts, "ranks 0 and ", "disagree at call 2 in: dtype, op, count, algorithm")


def test_a_wrong_rank_deep_in_a_chain_is_seen_by_all(six: Ranks) -> None:
    chain = Call(collective=Collective.ALL_REDUCE, algorithm="chain", count=5000, segment_bytes=256)
    _, texts = run(six, [[do(chain)]] * 5 + [[do(replace(chain, count=5001))]])
    assert len(texts) == 6
    assert_all_say(texts, "rank 5", "count=5000", "count=5001")


@pytest.mark.parametrize("check", [False, True], ids=["always on", "AUTOTUNE_CHECK"])
@pytest.mark.parametrize("n", [2, 4])
def test_killed_before_a_collective(n: int, check: bool) -> None:
    started = time.monotonic()
    with Ranks(n) as ranks:
        answers, texts = run(ranks, [[do(LARGE)]] * (n - 1) + [[{"do": "signal", "name": "SIGKILL"}]], check=check)
    assert answers[-1].ended == -signal.SIGKILL
    assert_all_say(texts, f"rank {n - 1} (pid ", "died")
    assert time.monotonic() - started < TIMEOUT_S + 2.0


@pytest.mark.parametrize("call", [ALL_REDUCE, LARGE], ids=["small", "many slices"])
@pytest.mark.parametrize("n", [2, 3])
def test_killed_inside_a_collective(n: int, call: Call) -> None:
    """The last rank repeats a call until it is killed, wherever it is then; the others repeat it until it fails."""
    with Ranks(n) as ranks:
        ranks.join(timeout_s=TIMEOUT_S)
        endless = {"do": "until_error", "group": "g", "call": call.to_json()}
        killed = {"do": "signal_in_collective", "group": "g", "call": call.to_json(), "after_s": 0.3}
        answers = ranks.ask({**{rank: [endless, BARRIER] for rank in range(n - 1)}, n - 1: [killed]})
        assert answers[-1].ended == -signal.SIGALRM
        assert_all_say([said(answer) for answer in answers[:-1]], f"rank {n - 1} (pid {ranks.pid(n - 1)}) died")
        assert all(result.get("wrong") is None for answer in answers[:-1] for result in answer.results)


@pytest.mark.parametrize("n", [2, 3])
def test_a_rank_that_hangs(n: int) -> None:
    with Ranks(n) as ranks:
        ranks.join(timeout_s=TIMEOUT_S)
        hung = {n - 1: [{"do": "signal", "name": "SIGSTOP"}, do(ALL_REDUCE)]}
        started = time.monotonic()
        answers = ranks.ask({**{rank: [do(ALL_REDUCE), BARRIER] for rank in range(n - 1)}, **hung}, silent=hung)
        assert TIMEOUT_S * 0.9 < time.monotonic() - started < TIMEOUT_S + 4.0
        assert_all_say([said(answer) for answer in answers], "waits for rank", "no sign of rank", "for 2 s")
        assert f"rank {n - 1} 0" in said(answers[0]), "the rank that is behind is named"
        ranks.kill(n - 1, signal.SIGCONT)  # comes back to a group that is no more
        assert_all_say([said(ranks.answers([n - 1])[0]), said(answers[0])])


def test_a_hung_rank_can_be_killed_while_the_others_wait() -> None:
    with Ranks(2) as ranks:
        ranks.join(timeout_s=20.0)
        steps = {0: [do(ALL_REDUCE)], 1: [{"do": "signal", "name": "SIGSTOP"}]}
        ranks.ask(steps, silent=[0, 1])
        ranks.until_asleep(0)
        ranks.kill(1)
        (answer,) = ranks.answers([0], within_s=10.0)
        assert "rank 1 (pid" in said(answer)


def test_a_rank_that_closes_early(six: Ranks) -> None:
    six.join(3, timeout_s=TIMEOUT_S)
    answers = six.ask({0: [do(ALL_REDUCE)], 1: [do(ALL_REDUCE)], 2: [CLOSE]})
    assert answers[2].errors == []
    assert_all_say([said(answer) for answer in answers[:2]], "rank 2 has closed its communicator")


def test_a_rank_that_closes_after_its_part_does_no_harm(six: Ranks) -> None:
    call = Call(collective=Collective.BROADCAST, algorithm="chain", count=3000, segment_bytes=512)
    six.join(4, timeout_s=TIMEOUT_S)
    slow = {"do": "work", "turns": 300_000}
    answers = six.ask({rank: [*[slow] * rank, do(call), CLOSE] for rank in range(4)})
    assert [answer.errors for answer in answers] == [[]] * 4
    assert len({answer.outputs[0] for answer in answers}) == 1


def test_a_forked_child_that_ends_does_not_leave_for_its_parent(six: Ranks) -> None:
    six.join(2, timeout_s=TIMEOUT_S)
    answers = six.ask({0: [do(ALL_REDUCE), {"do": "fork"}, do(ALL_REDUCE)], 1: [do(ALL_REDUCE), do(ALL_REDUCE)]})
    assert [answer.errors for answer in answers] == [[], []]
    answers = six.ask({0: [{"do": "work", "turns": 20_000_000}, do(ALL_REDUCE)], 1: [do(ALL_REDUCE)]})
    assert [answer.errors for answer in answers] == [[], []]


def test_two_processes_with_one_rank(six: Ranks) -> None:
    texts = [said(answer) for answer in six.join(3, timeout_s=TIMEOUT_S, rank=0)]
    assert_all_say(texts, "two processes joined as rank 0")


def test_a_rank_that_does_not_exist(six: Ranks) -> None:
    (answer,) = six.join(1, rank=5)
    assert answer.results[0]["error"] == "UsageError"
    assert "rank 5 is not in a group of 1" in answer.errors[0]


def test_a_missing_rank_when_joining(six: Ranks) -> None:
    with six.segment(3) as fd:
        step = {"do": "join", "group": "g", "n": 3, "timeout_s": TIMEOUT_S}
        answers = six.ask({0: [step], 1: [step]}, fd=fd)
    assert_all_say([said(answer) for answer in answers], "to join", "no sign of rank 2 for 2 s")


def test_a_rank_killed_while_the_others_join() -> None:
    with Ranks(3) as ranks:
        with ranks.segment(3) as fd:
            step = {"do": "join", "group": "g", "n": 3, "timeout_s": TIMEOUT_S}
            ranks.ask({0: [step], 1: [step]}, fd=fd, silent=[0, 1])
        ranks.until_asleep(1)
        ranks.kill(1)
        (answer,) = ranks.answers([0])
        assert_all_say([said(answer)], "rank 0 waits for rank 2 to join", "rank 1 (pid", "died")


@pytest.mark.parametrize("n", [2, 3])
def test_control_c_in_a_waiting_rank(n: int) -> None:
    with Ranks(n) as ranks:
        ranks.join(timeout_s=20.0)
        waiting = {rank: [do(ALL_REDUCE), BARRIER] for rank in range(n - 1)}
        ranks.ask({**waiting, n - 1: []}, silent=waiting)
        ranks.until_asleep(0)
        ranks.kill(0, signal.SIGINT)
        answers = ranks.answers(waiting)
        first = answers[0].results[0]
        assert first["error"] == "KeyboardInterrupt"
        others = [answer.results[0]["message"] for answer in answers[1:]] + [answers[0].results[1]["message"]]
        (late,) = ranks.ask({n - 1: [do(ALL_REDUCE)]})
        for message in (*others, *late.errors):
            assert message.startswith("rank 0 was interrupted while it waited for rank"), message


@pytest.mark.parametrize(
    ("sent", "received", "words"),
    [
        ({"count": 8}, {"count": 9}, ("sends 8 bytes of uint8", "receives 9 bytes of uint8")),
        ({"count": 0}, {"count": 1}, ("sends 0 bytes", "receives 1 bytes")),
        ({"count": 300_000}, {"count": 300_001}, ("sends 300000 bytes", "receives 300001 bytes")),
        ({"count": 2, "dtype": "int32"}, {"count": 8}, ("8 bytes of int32", "8 bytes of uint8")),
    ],
)
def test_send_and_recv_that_do_not_match(
    six: Ranks, sent: dict[str, Any], received: dict[str, Any], words: tuple[str, str]
) -> None:
    _, texts = run(six, [[{**SEND, "peer": 1, **sent}], [{**RECV, "peer": 0, **received}], []])
    assert len(texts) == 3
    assert_all_say(texts, "rank 0 sends", "to rank 1, which receives", *words)


@pytest.mark.parametrize("step", [{**SEND, "count": 1 << 20}, RECV], ids=["send", "recv"])
@pytest.mark.parametrize("peer_does", ["die", "nothing", "close"])
def test_send_and_recv_without_a_peer(step: Step, peer_does: str) -> None:
    with Ranks(2) as ranks:
        ranks.join(timeout_s=TIMEOUT_S)
        ranks.ask({0: [{**step, "peer": 1}], 1: [CLOSE] if peer_does == "close" else []}, silent=[0])
        if peer_does == "die":
            ranks.kill(1)
        text = said(ranks.answers([0])[0])
        assert "rank 0" in text
        reasons = {"die": "rank 1 (pid", "nothing": "no sign of rank 1 for 2 s", "close": "rank 1 has closed"}
        assert reasons[peer_does] in text


@pytest.mark.parametrize("how", ["close", "mismatch", "death", "missing rank"])
def test_nothing_is_left(how: str) -> None:
    """No mapping of a segment and no descriptor, whichever way a group ends."""
    with Ranks(2) as ranks:
        inspect = {"do": "inspect"}
        (before,) = ranks.ask({0: [inspect]})
        if how == "missing rank":
            with ranks.segment(2) as fd:
                ranks.ask({0: [{"do": "join", "group": "g", "n": 2, "timeout_s": 0.2}]}, fd=fd)
            steps: dict[int, list[Step]] = {0: []}
        else:
            ranks.join(timeout_s=TIMEOUT_S)
            (during,) = ranks.ask({0: [inspect]})
            assert during.results[0]["mapped"] == 1, "the test would not see a mapping"
            assert during.results[0]["pids"] == 1, "the test would not see a descriptor"
            second: list[Step] = {
                "close": [do(ALL_REDUCE), CLOSE],
                "mismatch": [do(replace(ALL_REDUCE, op=ReduceOp.MIN)), CLOSE],
                "death": [{"do": "signal", "name": "SIGKILL"}],
            }[how]
            steps = {0: [do(ALL_REDUCE), CLOSE], 1: second}
        ranks.ask(steps)
        (after,) = ranks.ask({0: [inspect]})
        assert after.results == before.results
        assert after.results[0]["mapped"] == 0


def test_no_process_is_left() -> None:
    with Ranks(3) as ranks, contextlib.ExitStack() as stack:
        ranks.join(timeout_s=TIMEOUT_S)
        ranks.ask({rank: [{"do": "signal", "name": "SIGSTOP"}] for rank in range(3)}, silent=range(3))
        handles = [os.pidfd_open(ranks.pid(rank)) for rank in range(3)]
        for handle in handles:
            stack.callback(os.close, handle)
        assert select.select(handles, [], [], 0)[0] == [], "the test would not see a process"
        ranks.close()
        assert sorted(select.select(handles, [], [], 5.0)[0]) == sorted(handles)
