"""RankPool: ranks that start, answer, die, hang, and never outlive their parent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.backends.launch import RankPool
from autotune.backends.rank_process import Json, PoolFailed
from autotune.errors import BackendUnavailable
from autotune.types import TrialState

CORES = tuple(sorted(os.sched_getaffinity(0)))
ROUND: dict[str, Json] = {
    "do": "round",
    "collective": "all_reduce",
    "dtype": "float32",
    "op": "sum",
    "count": 10,
    "memory": "private",
    "kind": "fresh",
    "batch": 0,
    "default": {"algorithm": "ring", "segment_bytes": 4096, "codec": "none", "knobs": {}},
    "configs": [{"algorithm": "ring", "segment_bytes": 4096, "codec": "none", "knobs": {}}],
}


def pool(n: int, module: str = "autotune.backends.worker", watchdog_s: float = 20.0) -> RankPool:
    return RankPool(n, CORES, staging_bytes=1 << 20, timeout_s=2.0, watchdog_s=watchdog_s, module=module)


def started() -> list[int]:
    """This process's children, the oldest first: the ranks in their order."""
    text = "".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return sorted(int(pid) for pid in text.split())


@contextlib.contextmanager
def watched(pids: list[int]) -> Iterator[list[int]]:
    """Handles on processes, which become readable when those end, whoever reaps them."""
    with contextlib.ExitStack() as stack:
        handles = [os.pidfd_open(pid) for pid in pids]
        for handle in handles:
            stack.callback(os.close, handle)
        assert select.select(handles, [], [], 0)[0] == [], "they have ended already"
        yield handles


def test_answers_come_in_the_order_of_ranks() -> None:
    with pool(3) as ranks:
        for _ in range(20):
            assert ranks.ask({"do": "join"}) == [{"rank": 0}, {"rank": 1}, {"rank": 2}]


def test_ranks_are_pinned_going_round() -> None:
    with pool(3) as ranks:
        ranks.ask({"do": "join"})
        assert [os.sched_getaffinity(pid) for pid in started()] == [{CORES[rank % len(CORES)]} for rank in range(3)]


def test_a_closed_pool_leaves_no_process_and_may_be_closed_again() -> None:
    ranks = pool(2)
    with watched(started()) as handles:
        ranks.close()
        assert len(select.select(handles, [], [], 0)[0]) == 2
    assert started() == []
    assert ranks.close() == []


@pytest.mark.usefixtures("faults")
def test_a_rank_that_dies_is_a_crash_with_its_last_words() -> None:
    ranks = pool(3, "backends.faults.ring_dies")
    with pytest.raises(PoolFailed) as caught:
        ranks.ask(ROUND)
    assert caught.value.state is TrialState.CRASHED
    assert "rank 1 was ended by signal 9 after writing: the ring is broken" in caught.value.message
    assert started() == []


@pytest.mark.usefixtures("faults")
def test_a_rank_that_hangs_in_a_collective_is_a_timeout_that_names_it() -> None:
    ranks = pool(3, "backends.faults.ring_hangs")
    before = time.monotonic()
    with pytest.raises(PoolFailed) as caught:
        ranks.ask(ROUND)
    assert caught.value.state is TrialState.TIMEOUT
    assert "rank 1 hung" in caught.value.message
    assert time.monotonic() - before < 15.0
    assert started() == []


@pytest.mark.usefixtures("faults")
def test_ranks_that_do_not_answer_are_a_timeout() -> None:
    ranks = pool(2, "backends.faults.mute", watchdog_s=3.0)
    with pytest.raises(PoolFailed, match=r"no answer from rank\(s\) 0, 1 within 3 s") as caught:
        ranks.ask(ROUND)
    assert caught.value.state is TrialState.TIMEOUT
    assert started() == []


def test_an_exception_in_a_rank_is_a_crash_with_its_words() -> None:
    ranks = pool(2)
    with pytest.raises(PoolFailed, match="unknown request 'nonsense'") as caught:
        ranks.ask({"do": "nonsense"})
    assert caught.value.state is TrialState.CRASHED


@pytest.mark.usefixtures("faults")
def test_an_error_of_ours_in_a_rank_keeps_its_words() -> None:
    ranks = pool(2, "backends.faults.other_counts")
    with pytest.raises(PoolFailed) as caught:
        ranks.ask(ROUND)
    assert "ranks 0 and 1 disagree at call" in caught.value.message


def test_a_config_that_no_rank_can_carry_out_costs_no_rank() -> None:
    odd: dict[str, Json] = {
        **ROUND,
        "configs": [{"algorithm": "rnig", "segment_bytes": 64, "codec": "none", "knobs": {}}],
    }
    invalid: Json = {"state": "invalid", "message": "algorithm 'rnig' is not known", "wrong": None}
    with pool(2) as ranks:
        assert [answer["outcomes"] for answer in ranks.ask(odd)] == [[invalid]] * 2
        assert ranks.ask({"do": "join"}) == [{"rank": 0}, {"rank": 1}]


def test_ranks_that_do_not_start_are_no_backend() -> None:
    with pytest.raises(BackendUnavailable, match="the ranks did not start") as caught:
        pool(2, "no.such.module")
    assert "No module named" in caught.value.message
    assert caught.value.remedy


def test_a_rank_killed_from_outside_between_requests_is_seen_at_the_next() -> None:
    ranks = pool(2)
    with watched(started()[1:]) as handles:
        os.kill(started()[1], signal.SIGKILL)
        assert select.select(handles, [], [], 10.0)[0] == handles
    with pytest.raises(PoolFailed) as caught:
        ranks.ask(ROUND)
    assert caught.value.state is TrialState.CRASHED
    assert "rank 1 was ended by signal 9" in caught.value.message


def test_ranks_besides_the_two_take_no_part_in_a_pingpong() -> None:
    with pool(3) as ranks:
        first, second, third = (answer["us"] for answer in ranks.ask({"do": "pingpong", "bytes": 8, "turns": 10}))
    assert isinstance(first, float)
    assert isinstance(second, float)
    assert third is None


PARENT = """
import sys
from pathlib import Path
from autotune.backends.launch import RankPool
with RankPool(3, {cores}, staging_bytes=1 << 20, timeout_s=60.0, watchdog_s=60.0) as pool:
    print(Path("/proc/self/task", str(__import__("os").getpid()), "children").read_text(), flush=True)
    if {busy}:
        pool.ask({{"do": "pingpong", "bytes": 8, "turns": 1 << 40}})
    sys.stdin.read()
"""


@pytest.mark.parametrize("busy", [False, True], ids=["waiting for requests", "inside a collective"])
def test_ranks_end_with_a_parent_that_is_killed(busy: bool) -> None:
    script = PARENT.format(cores=CORES, busy=busy)
    with subprocess.Popen(
        [sys.executable, "-P", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        ready = select.select([parent.stdout], [], [], 60.0)[0]
        assert ready, "the pool did not start"
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 3
        with watched(pids) as handles:
            parent.kill()
            deadline = time.monotonic() + 20.0
            while handles:
                ended = select.select(handles, [], [], max(0.0, deadline - time.monotonic()))[0]
                assert ended, f"{len(handles)} ranks outlived their parent"
                handles = [handle for handle in handles if handle not in ended]
