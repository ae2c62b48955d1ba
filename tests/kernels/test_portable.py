"""The portable executor over gloo: every schedule, type and operation, its bytes against the native executor's, its
errors. One set of ranks for each number of ranks; each request carries many cases.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ranks.cases import Call

from autotune.backends.launch import RankPool
from autotune.kernels.portable_compiler import plan_of
from autotune.kernels.portable_plan import Area, cut
from autotune.kernels.schedules.registry import names
from autotune.types import Collective, DType, Layout, ReduceOp

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: not installed")
TESTS = Path(__file__).resolve().parent.parent
WITHIN_S = 60.0

Case = dict[str, Any]


class Pools:
    """Sets of ranks, one running at a time: the tests of one n come after each other."""

    def __init__(self) -> None:
        self._pool: RankPool | None = None

    def of(self, n: int) -> RankPool:
        if self._pool is None or self._pool.n_ranks != n:
            self.close()
            cores = sorted(os.sched_getaffinity(0))
            pool = RankPool(n, cores, staging_bytes=8 << 20, timeout_s=20.0, watchdog_s=WITHIN_S, module="gloo_rank")
            self._pool = pool
            pool.ask({"do": "device", "device": "cpu"})
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


@pytest.fixture(scope="module")
def pools() -> Iterator[Pools]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))
        kept = Pools()
        yield kept
        kept.close()


@pytest.fixture(scope="module", params=[1, 2, 3, 4])
def ranks(request: pytest.FixtureRequest, pools: Pools) -> RankPool:
    return pools.of(request.param)


def run(ranks: RankPool, cases: list[Case]) -> list[tuple[str, ...]]:
    """Fails with the first wrong case; each case's digests, by rank."""
    answers = ranks.ask({"do": "cases", "cases": cases})
    wrong: list[Any] = [words for answer in answers for words in answer["wrong"]]  # type: ignore[union-attr] # a list
    assert not wrong, (len(wrong), wrong[0])
    return list(zip(*(answer["digests"] for answer in answers), strict=True))  # type: ignore[arg-type] # lists


def case(call: Call, segment_bytes: int | None = None, **more: object) -> Case:
    return {"call": call.to_json(), "segment_bytes": segment_bytes, **more}


@needs_torch
@pytest.mark.parametrize("collective", Collective)
def test_every_schedule_is_right_for_every_cut(collective: Collective, ranks: RankPool) -> None:
    n = ranks.n_ranks
    roots = sorted({0, n - 1}) if collective.has_root else [0]
    grid = itertools.product(names(collective, n), roots, (0, 1, 1000), (None, 256))
    cases = [
        case(
            Call(
                collective=collective,
                algorithm=algorithm,
                dtype=DType.INT32,
                root=root,
                count=count,
                in_place=number % 2 == 1 and collective is not Collective.ALL_TO_ALL,
                seed=number,
            ),
            segment_bytes if number % 3 else None if segment_bytes is None else 64,
        )
        for number, (algorithm, root, count, segment_bytes) in enumerate(grid)
    ]
    run(ranks, cases)


@needs_torch
@pytest.mark.parametrize("collective", [Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE])
def test_every_type_and_operation_has_the_native_bytes(collective: Collective, ranks: RankPool) -> None:
    algorithms = names(collective, ranks.n_ranks)[:3]
    cases = [
        case(Call(collective=collective, algorithm=algorithm, dtype=dtype, op=op, count=137, seed=7), same=True)
        for algorithm, dtype, op in itertools.product(algorithms, DType, ReduceOp)
    ]
    run(ranks, cases)


@needs_torch
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16])
def test_random_sums_have_the_same_bytes_on_all_ranks_and_natively(dtype: DType, ranks: RankPool) -> None:
    cases = [
        case(
            Call(
                collective=Collective.ALL_REDUCE,
                algorithm=name,
                dtype=dtype,
                op=op,
                count=3001,
                values="random",
                seed=3,
            ),
            segment_bytes,
            same=segment_bytes is None,
        )
        for name in names(Collective.ALL_REDUCE, ranks.n_ranks)
        for op in (ReduceOp.SUM, ReduceOp.AVG)
        for segment_bytes in (None, 512)
    ]
    for asked, digests in zip(cases, run(ranks, cases), strict=True):
        assert len(set(digests)) == 1, (asked, digests)


@needs_torch
@pytest.mark.parametrize("collective", Collective)
def test_layouts_place_positions_on_ranks(collective: Collective, pools: Pools) -> None:
    layout = Layout(order=(2, 0, 3, 1), groups=((0, 2), (1, 3)))
    roots = range(4) if collective.has_root else [0]
    cases = [
        case(
            Call(collective=collective, algorithm=name, dtype=DType.INT64, root=root, count=33, seed=root),
            segment_bytes,
            layout=[layout.order, layout.groups],
        )
        for name in names(collective, 4, layout)
        for root in roots
        for segment_bytes in (None, 128)
    ]
    run(pools.of(4), cases)


def told(pool: RankPool, *calls: list[Case], check: bool = False) -> list[list[str]]:
    """What the ranks' calls said, by rank; the last list of calls is that of all further ranks."""
    of_rank = [*calls, *[calls[-1]] * (pool.n_ranks - len(calls))]
    return [answer["said"] for answer in pool.ask({"do": "tell", "calls": of_rank, "check": check})]  # type: ignore[misc]


REDUCE = {"method": "all_reduce", "tensor": [4, "float32"]}
CAST = {"method": "broadcast", "tensor": [4, "float32"]}


@needs_torch
@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        (REDUCE, CAST, "collective: all_reduce (ranks 0, 2), broadcast (rank 1)"),
        (REDUCE, {**REDUCE, "tensor": [5, "float32"]}, "count: 4 (ranks 0, 2), 5 (rank 1)"),
        (REDUCE, {**REDUCE, "tensor": [4, "float64"]}, "type: float32 (ranks 0, 2), float64 (rank 1)"),
        (REDUCE, {**REDUCE, "op": "max"}, "op: sum (ranks 0, 2), max (rank 1)"),
        (CAST, {**CAST, "root": 1}, "root: 0 (ranks 0, 2), 1 (rank 1)"),
        (REDUCE, {**REDUCE, "config": {"algorithm": "ring"}}, "config: direct (ranks 0, 2), ring (rank 1)"),
        (
            {**REDUCE, "config": {"algorithm": "x" * 60, "knobs": (("y" * 90, 1),)}},
            {**REDUCE, "config": {"algorithm": "x" * 60, "knobs": (("y" * 90, 2),)}},
            "config: xxxxxxxxxxxxxxxx... sha256",
        ),
    ],
)
def test_the_check_tells_every_rank_who_called_what(mine: Case, theirs: Case, words: str, pools: Pools) -> None:
    """The call before was equal; the one after is refused, since nobody knows where the others are."""
    said = told(pools.of(3), [REDUCE, mine, REDUCE], [REDUCE, theirs, REDUCE], [REDUCE, mine, REDUCE], check=True)
    assert said[0] == said[1] == said[2]
    before, found, after = said[0]
    assert before == ""
    assert found.startswith("CommunicatorError: ranks called different things: ")
    assert words in found
    assert "make every rank call the same collectives" in found
    assert after.startswith(found.partition(" | ")[0])
    assert "make a new process group" in after


@needs_torch
def test_calls_in_another_order_are_found_and_without_the_check_equal_calls_cost_no_exchange(pools: Pools) -> None:
    pool = pools.of(3)
    said = told(pool, [REDUCE, CAST], [CAST, REDUCE], [REDUCE, CAST], check=True)
    assert "call 1" not in said[0][0]
    assert "collective: all_reduce (ranks 0, 2), broadcast (rank 1)" in said[0][0]
    assert told(pool, [REDUCE, CAST]) == [["", ""]] * 3


@needs_torch
@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({**REDUCE, "tensor": [8, "float32", "strided"]}, "input of shape (4,) is not contiguous | give tensor.contig"),
        ({**REDUCE, "tensor": [4, "bool"]}, "'bool' is not one of: float32"),
        ({**REDUCE, "out": [5, "float32"]}, "the output has 5 elements of torch.float32, not 4 of torch.float32"),
        ({**REDUCE, "out": [4, "float64"]}, "the output has 4 elements of torch.float64, not 4 of torch.float32"),
        ({**REDUCE, "op": "summ"}, "'summ' is not one of: sum, prod, max, min, avg | did you mean 'sum'?"),
        ({**CAST, "root": 3}, "root 3 is not a rank of a group of 3"),
        ({**REDUCE, "config": {"algorithm": "rinng"}}, "algorithm 'rinng' is not known | did you mean 'ring'?"),
        ({**REDUCE, "config": {"algorithm": "hierarchical"}}, "it needs two or more groups"),
        ({**REDUCE, "config": {"algorithm": "ring", "codec": "int9"}}, "codec 'int9' is not one of: none"),
        (
            {**REDUCE, "tensor": [4, "int32"], "config": {"algorithm": "ring", "codec": "int8"}},
            "not int32 | use the codec",
        ),
        ({**REDUCE, "op": "prod", "config": {"algorithm": "ring", "codec": "int8"}}, "the error of a product"),
        (
            {**REDUCE, "config": {"algorithm": "recursive_doubling", "codec": "int8"}},
            "recursive_doubling cannot do all_reduce over 3 ranks with a lossy codec",
        ),
        ({**REDUCE, "name": "one", "config": {"algorithm": "ring", "codec": "int8"}}, "only one is given"),
        ({**REDUCE, "config": {"algorithm": "ring", "knobs": (("stores", "cached"),)}}, "unknown knob 'stores'"),
        ({**REDUCE, "config": {"algorithm": "ring", "knobs": (("slices_in_flight", 9),)}}, "is 9, not 1 to 8"),
        ({"method": "all_to_all", "tensor": [4, "int8"], "out": [4, "int8"]}, "4 elements are not a multiple of 3"),
        (
            {"method": "scatter", "tensor": None, "out": [4, "int8"], "config": {"algorithm": "flat"}},
            "rank 0 gives no input",
        ),
    ],
)
def test_arguments_that_cannot_be_meant_are_errors_and_the_next_call_works(
    call: Case, words: str, pools: Pools
) -> None:
    calls = [call, REDUCE]
    others = calls if "rank 0" not in words else [REDUCE]  # else the other ranks would wait for the root
    said = told(pools.of(3), calls, others)
    assert said[0][0].startswith("UsageError: ")
    assert words in said[0][0]
    assert said[0][1] == ""


@needs_torch
def test_a_rank_that_is_not_there_is_an_error_with_the_last_calls(pools: Pools) -> None:
    first, again = pools.of(3).ask({"do": "alone"})[0]["said"]  # type: ignore[misc] # a list of two
    assert first.startswith("CommunicatorError: rank 0: call 1: all_reduce float32 sum x 3 direct did not end: ")
    assert "the last calls here: 1: all_reduce" in first
    assert again == first


@needs_torch
def test_a_group_of_some_ranks(pools: Pools) -> None:
    found = [answer["value"] for answer in pools.of(3).ask({"do": "subgroup", "members": [0, 2]})]
    assert found == [[0.0, 2.0], "this process is not in the group", [0.0, 2.0]]


@pytest.mark.parametrize("collective", Collective)
@pytest.mark.parametrize("n", [2, 5, 8, 16])
def test_what_is_sent_is_what_is_received(collective: Collective, n: int) -> None:
    """And nothing lands on a block that leaves in the same step, whatever the ranks' number."""
    for name in names(collective, n):
        plans = [plan_of(collective, name, n, rank, 0, None, sliced=False) for rank in range(n)]
        assert len({(plan.n_steps, plan.largest_blocks) for plan in plans}) == 1
        for number in range(plans[0].n_steps):
            sent, received = {}, {}
            for rank, plan in enumerate(plans):
                step = plan.steps.get(number)
                if step is None:
                    continue
                for message in step.sends:
                    sent[rank, message.peer] = [run.block + i for run in message.runs for i in range(run.width)]
                for message in step.receives:
                    received[message.peer, rank] = [run.block + i for run in message.runs for i in range(run.width)]
                leaving = {b for a, blocks in sent.items() if a[0] == rank for b in blocks}
                landing = {
                    run.block + i
                    for message in step.receives
                    for run in message.runs
                    if run.area is not Area.ARRIVED
                    for i in range(run.width)
                }
                assert not leaving & landing
            assert sent == received
            assert all(blocks == sorted(blocks) for blocks in sent.values())
            assert max(map(len, sent.values())) <= plans[0].largest_blocks


@pytest.mark.parametrize("count", [1, 15, 16, 1000, 4096, 100_003])
@pytest.mark.parametrize("segment_bytes", [None, 64, 1000, 65536])
def test_slices_cover_the_message_and_no_message_is_larger_than_a_segment(
    count: int, segment_bytes: int | None
) -> None:
    for name in names(Collective.ALL_REDUCE, 6):
        plan = plan_of(Collective.ALL_REDUCE, name, 6, 0, 0, None, sliced=True)
        way = cut(plan, count, 4, segment_bytes)
        assert sum(way.length(number) for number in range(way.slices)) == count
        assert all(way.length(number) > 0 for number in range(way.slices))
        if segment_bytes is None:
            assert way.slices == 1
        else:
            largest = plan.largest_blocks * way.pitch(0) * 4
            assert largest <= max(segment_bytes, 64 * plan.largest_blocks)
