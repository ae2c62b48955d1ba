"""send and recv, all_to_all_v, barrier: between ranks that are processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from ranks.cases import Call
from ranks.pool import Answer, Groups, Ranks, Step

from autotune.kernels.schedules.registry import names
from autotune.types import Collective, DType

PIECE = 64 << 10
SHARED = [HealthCheck.function_scoped_fixture]  # groups are shared by all examples on purpose
MESSAGES = st.sampled_from((0, 1, 8, 1000, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 6 * PIECE + 5))


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """Ranks for tests that may break their group; every test joins one of its own."""
    with Ranks(4) as started:
        yield started


def message(do: str, group: str, peer: int, count: int, seed: int, dtype: str = "uint8") -> Step:
    return {"do": do, "group": group, "peer": peer, "count": count, "seed": seed, "dtype": dtype}


def assert_right(answers: list[Answer]) -> None:
    for rank, answer in enumerate(answers):
        assert answer.errors == [], (rank, answer.errors)
        for result in answer.results:
            assert result.get("right", True), (rank, result)
            assert result.get("guards_whole", True), (rank, result)
            assert result.get("input_kept", True), (rank, result)


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=SHARED)
def test_messages_arrive_in_the_order_of_their_sends(groups: Groups, data: st.DataObject) -> None:
    """Rank 0 to rank 1 and back, sizes around the pieces of a channel; a collective in between does not mix them up."""
    n = data.draw(st.integers(2, 4))
    steps: dict[int, list[Step]] = {rank: [] for rank in range(n)}
    for seed in range(data.draw(st.integers(1, 8))):
        count = data.draw(MESSAGES)
        dtype = data.draw(st.sampled_from(DType))
        source = data.draw(st.sampled_from((0, 1)))
        whole = count // dtype.itemsize
        steps[source].append(message("send", str(n), 1 - source, whole, seed, dtype.value))
        steps[1 - source].append(message("recv", str(n), source, whole, seed, dtype.value))
        if data.draw(st.booleans()):
            call = Call(collective=Collective.ALL_REDUCE, algorithm="ring", count=50).to_json()
            for rank in range(n):
                steps[rank].append({"do": "call", "group": str(n), "call": call})
    assert_right(groups.ask(n, steps))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_around_a_ring_through_all_pairs(groups: Groups, n: int) -> None:
    """Every rank sends to its right and receives from its left; rank 0 receives last."""
    steps: dict[int, list[Step]] = {}
    for rank in range(n):
        left, right = (rank - 1) % n, (rank + 1) % n
        sending = message("send", str(n), right, 5 * PIECE + 3, rank)
        receiving = message("recv", str(n), left, 5 * PIECE + 3, left)
        steps[rank] = [sending, receiving] if rank == 0 else [receiving, sending]
    assert_right(groups.ask(n, steps))


def test_small_sends_do_not_wait_for_their_receivers(groups: Groups) -> None:
    """Both send first: what fits a channel is taken later."""
    for_peer = [message("send", "2", 1, 100, seed) for seed in range(4)]
    steps = {
        0: [*for_peer, *(message("recv", "2", 1, 100, seed) for seed in range(4))],
        1: [{**step, "peer": 0} for step in for_peer] + [message("recv", "2", 0, 100, seed) for seed in range(4)],
    }
    assert_right(groups.ask(2, steps))


@pytest.mark.parametrize("peer", [0, -1, 2, 7])
def test_a_rank_cannot_exchange_with_itself_or_a_stranger(ranks: Ranks, peer: int) -> None:
    ranks.join(2)
    for do in ("send", "recv"):
        (answer,) = ranks.ask({0: [message(do, "g", peer, 1, 0)]})
        assert answer.results[0]["error"] == "UsageError"
        assert f"rank 0 of 2 cannot exchange with rank {peer}" in answer.errors[0]


def _counts(draw: st.DrawFn, n: int) -> list[list[int]]:
    some = st.integers(0, 400) | st.sampled_from((0, 0, 1, 2000))
    return [[draw(some) for _ in range(n)] for _ in range(n)]


@st.composite
def splits(draw: st.DrawFn) -> tuple[int, Step]:
    n = draw(st.integers(1, 6))
    return n, {
        "do": "all_to_all_v",
        "group": str(n),
        "counts": _counts(draw, n),
        "algorithm": draw(st.sampled_from(names(Collective.ALL_TO_ALL, n))),
        "segment_bytes": draw(st.sampled_from((64, 256, 4096))),
        "dtype": draw(st.sampled_from(DType)).value,
        "seed": draw(st.integers(0, 1000)),
    }


@given(case=splits())
@settings(max_examples=120, deadline=None, suppress_health_check=SHARED)
def test_unequal_splits_arrive_whole(groups: Groups, case: tuple[int, Step]) -> None:
    n, step = case
    assert_right(groups.ask(n, {rank: [step, step] for rank in range(n)}))


SPLIT: Step = {
    "do": "all_to_all_v",
    "group": "g",
    "counts": [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    "algorithm": "direct",
    "segment_bytes": 256,
    "seed": 1,
}


def test_a_pair_that_disagrees_is_an_error_on_all_ranks_and_harms_nothing(ranks: Ranks) -> None:
    ranks.join(3)
    odd = {**SPLIT, "recv_counts": {"2": [3, 7, 9]}}
    answers = ranks.ask({0: [SPLIT, SPLIT], 1: [SPLIT, SPLIT], 2: [odd, SPLIT]})
    for answer in answers:
        assert answer.results[0]["error"] == "UsageError"
        assert answer.errors == ["all_to_all_v: rank 1 sends 6 elements to rank 2, which expects 7"]
        assert answer.results[1]["right"], "nothing was exchanged yet, so the group goes on"


@pytest.mark.parametrize(
    "odd",
    [{"dtype": "float32"}, {"algorithm": "pairwise"}, {"segment_bytes": 128}],
    ids=["dtype", "algorithm", "segment"],
)
def test_splits_that_agree_under_other_arguments_are_an_error(ranks: Ranks, odd: dict[str, Any]) -> None:
    ranks.join(3, timeout_s=2.0)
    for answer in ranks.ask({0: [SPLIT], 1: [{**SPLIT, **odd}], 2: [SPLIT]}):
        assert answer.results[0]["error"] == "CommunicatorError"
        assert next(iter(odd)) in answer.errors[0]
        assert "rank 1: all_to_all(" in answer.errors[0]


def test_all_to_all_v_meets_another_collective(ranks: Ranks) -> None:
    ranks.join(3, timeout_s=2.0)
    call = Call(collective=Collective.ALL_TO_ALL, algorithm="direct", dtype=DType.INT32, count=9, segment_bytes=256)
    for answer in ranks.ask({0: [SPLIT], 1: [SPLIT], 2: [{"do": "call", "group": "g", "call": call.to_json()}]}):
        assert answer.results[0]["error"] == "CommunicatorError"
        assert "disagree at call 1 in: collective" in answer.errors[0]


@pytest.mark.parametrize("counts", [[1, 2], [1, 2, 3, 4], [1, -1, 3]])
def test_counts_that_are_no_split(ranks: Ranks, counts: list[int]) -> None:
    ranks.join(3)
    (answer,) = ranks.ask({0: [{**SPLIT, "send_counts": {"0": counts}}]})
    assert answer.results[0]["error"] == "UsageError"
    assert "send_counts" in answer.errors[0]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_barrier_waits_for_the_last(ranks: Ranks, n: int) -> None:
    """What a rank writes before the barrier, the others find after it."""
    ranks.join(n)
    barrier: Step = {"do": "method", "group": "g", "method": "barrier"}
    early: dict[int, list[Step]] = {rank: [barrier, {"do": "clock"}] for rank in range(n - 1)}
    late: dict[int, list[Step]] = {n - 1: [{"do": "work", "turns": 2_000_000}, {"do": "clock"}, barrier]}
    answers = ranks.ask({**early, **late})
    assert_right(answers)
    reached = next(result["ns"] for result in answers[-1].results if "ns" in result)
    assert all(answer.results[-1]["ns"] >= reached for answer in answers[:-1])
