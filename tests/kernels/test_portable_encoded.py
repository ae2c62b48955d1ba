"""Codecs in the portable executor over gloo: within the native codec's bound, and the same bytes on all ranks."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ranks.cases import Call
from spec import FLOATS

from autotune.backends.launch import RankPool
from autotune.kernels.portable_compiler import plan_of
from autotune.kernels.schedules import build
from autotune.kernels.schedules.registry import names
from autotune.kernels.schedules.wire import codec_legality
from autotune.types import Collective, Layout, ReduceOp

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: not installed")
TESTS = Path(__file__).resolve().parent.parent
CODECS = ("threshold(0.0)", "threshold(0.5)", "threshold_abs(0.8)", "int8", "int4")
OPS = (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX)


@pytest.fixture(scope="module", params=[2, 3, 4, 5])
def ranks(request: pytest.FixtureRequest) -> Iterator[RankPool]:
    cores = sorted(os.sched_getaffinity(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))
        sizes: dict[str, Any] = {"staging_bytes": 8 << 20, "timeout_s": 20.0, "watchdog_s": 60.0}
        pool = RankPool(request.param, cores, **sizes, module="gloo_rank")
    try:
        pool.ask({"do": "device", "device": "cpu"})
        yield pool
    finally:
        pool.close()


def run(pool: RankPool, calls: list[tuple[Call, int | None]], layout: Layout | None = None) -> None:
    """Fails with the first result that is too far off, or that differs between ranks of an all_reduce."""
    place = None if layout is None else [layout.order, layout.groups]
    cases = [{"call": call.to_json(), "segment_bytes": segment, "layout": place} for call, segment in calls]
    answers: list[dict[str, Any]] = pool.ask({"do": "cases", "cases": cases})
    wrong = [words for answer in answers for words in answer["wrong"]]
    assert not wrong, (len(wrong), wrong[0])
    for (call, _), digests in zip(calls, zip(*(answer["digests"] for answer in answers), strict=True), strict=True):
        if call.collective is Collective.ALL_REDUCE:
            assert len(set(digests)) == 1, call


def legal(collective: Collective, n: int, layout: Layout | None = None) -> list[str]:
    return [a for a in names(collective, n, layout) if not codec_legality(collective, build(collective, a, n, layout))]


@pytest.mark.parametrize("collective", Collective)
def test_every_schedule_and_codec_is_within_the_bound(collective: Collective, ranks: RankPool) -> None:
    n = ranks.n_ranks
    algorithms = legal(collective, n)
    # 3 and 4 ranks share the schedules out, for time; both have every codec.
    grid = itertools.product(algorithms if n in (2, 5) else algorithms[n % 2 :: 2] or algorithms, CODECS)
    run(
        ranks,
        [
            (
                Call(
                    collective=collective,
                    algorithm=algorithm,
                    dtype=FLOATS[(number + number // 5) % 4],
                    op=OPS[number % 3] if collective.computes else ReduceOp.SUM,
                    root=number % n if collective.has_root else 0,
                    count=count if collective.splits_by_rank else n * count,
                    values="random",
                    seed=number,
                    in_place=number % 2 == 1 and collective is not Collective.ALL_TO_ALL,
                    codec=codec,
                ),
                (None, 4096, 1000)[(number + count) % 3],
            )
            for number, ((algorithm, codec), count) in enumerate(zip(grid, itertools.cycle((1337, 600, 257))))
        ],
    )


def test_no_element_and_one_and_a_block_and_one(ranks: RankPool) -> None:
    n = ranks.n_ranks
    listed = [
        (Call(collective=collective, algorithm=algorithm, count=count, codec=codec, values="random"), None)
        for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
        for algorithm in legal(collective, n)[:3]
        for count in (0, 1, 257)
        for codec in ("threshold(1.0)", "int8", "int4")
    ]
    run(ranks, listed)


@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_hierarchical_schedules_too(ranks: RankPool) -> None:
    layout = Layout(order=(2, 0, 3, 1), groups=((0, 2), (1, 3)))
    listed = [
        (Call(collective=collective, algorithm=algorithm, count=999, codec=codec, values="random"), segment)
        for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
        for algorithm in legal(collective, 4, layout)
        for codec in ("threshold(0.5)", "int8")
        for segment in (None, 512)
    ]
    run(ranks, listed, layout)


@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize("codec", ["int4", "threshold(1.0)"])
def test_what_is_dropped_is_in_one_residual(codec: str, op: str, ranks: RankPool) -> None:
    for algorithm, dtype in (("ring", "float32"), ("direct", "bfloat16"), ("tree", "float32")):
        arguments = {"algorithm": algorithm, "codec": codec, "op": op, "dtype": dtype, "count": 3001, "calls": 6}
        for answer in ranks.ask({"do": "feedback", "arguments": arguments}):
            balance, alone = answer["value"]  # type: ignore[misc] # two numbers
            rounding = 1e-6 if dtype == "float32" else 2e-2
            assert balance < rounding, arguments
            assert alone > 10 * balance or dtype != "float32", arguments


@pytest.mark.parametrize("n", [2, 3, 8])
def test_a_lossy_plan_encodes_what_it_sends_once_a_step(n: int) -> None:
    for collective in Collective:
        for algorithm in legal(collective, n):
            for rank in range(n):
                plan = plan_of(collective, algorithm, n, rank, 0, None, sliced=False, lossy=True)
                for step in plan.steps.values():
                    sent = {run.block for message in step.sends for run in message.runs}
                    assert sorted(sent) == sorted(encode.source.block for encode in step.encodes)
                    assert all(run.width == 1 for message in (*step.sends, *step.receives) for run in message.runs)
