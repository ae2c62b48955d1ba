"""Collectives over several hosts against tests/spec.py: shared memory inside a host, sockets or UCX between them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ranks.cases import Call
from ranks.checks import check_alike, check_close, check_exact
from scenes.scene import Played, Scene
from spec import STORAGE, Array

from autotune.kernels.programs import layout_of
from autotune.kernels.schedules.registry import ALGORITHMS, build, names
from autotune.kernels.schedules.wire import codec_legality
from autotune.types import Collective, DType, ReduceOp

Play = Callable[[Scene, Path], Played]

COUNTS = (0, 1, 13, 1999, 40_001)
DTYPES = tuple(DType)


def host_of(per_host: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(host for host, size in enumerate(per_host) for _ in range(size))


def every_call(per_host: tuple[int, ...]) -> list[Call]:
    """Every collective by every algorithm; sizes, types, roots and segments take turns."""
    n = sum(per_host)
    layout = layout_of(n, 0, host_of(per_host))
    calls = []
    for collective in Collective:
        for algorithm in names(collective, n, layout):
            for count in COUNTS:
                turn = len(calls)
                dtype = DTYPES[turn % len(DTYPES)]
                calls.append(
                    Call(
                        collective=collective,
                        algorithm=algorithm,
                        dtype=dtype,
                        op=(ReduceOp.SUM, ReduceOp.MAX, ReduceOp.SUM, ReduceOp.MIN)[turn % 4],
                        root=turn % n if collective.has_root else 0,
                        count=count,
                        segment_bytes=(256, 4096, 1 << 20)[turn % 3],
                        slices_in_flight=(1, 4, 2)[turn % 3],
                        seed=turn,
                        in_place=turn % 5 == 0 and collective is not Collective.ALL_TO_ALL,
                    )
                )
    return calls


def outputs_of(call: Call, played: Played, step: int, index: int) -> list[Array | None]:
    found: list[Array | None] = []
    for rank, results in enumerate(played.results):
        assert results is not None
        assert "error" not in results[step], results[step]
        text = results[step]["outputs"][index]
        silent = call.collective in (Collective.REDUCE, Collective.GATHER) and rank != call.root
        found.append(None if text is None or silent else np.frombuffer(base64.b64decode(text), STORAGE[call.dtype]))
    return found


@pytest.mark.parametrize(
    "per_host",
    [(1, 1), (2, 1), pytest.param((2, 2), marks=pytest.mark.slow), pytest.param((1, 1, 1, 1), marks=pytest.mark.slow)],
    ids=str,
)
def test_every_collective_by_every_algorithm_matches_the_spec(
    per_host: tuple[int, ...], play: Play, over: str, tmp_path: Path
) -> None:
    n, calls = sum(per_host), every_call(per_host)
    steps = [
        {"do": "join"},
        {"do": "calls", "calls": [call.to_json() for call in calls]},
        {"do": "exchange", "count": 100_000, "pairs": [[a, b] for a in range(n) for b in range(a + 1, n)]},
        {"do": "exchange", "count": 0, "pairs": [[0, n - 1]]},
        {"do": "all_to_all_v"},
        {"do": "close"},
    ]
    played = play(Scene(per_host=per_host, steps=steps), tmp_path)
    assert played.codes == [0] * n, played.said
    for step in range(len(steps)):
        assert set(played.errors(step)) == {"none"}, played.errors(step)
    assert played.results[0] is not None
    joined = played.results[0][0]
    assert joined["host_of"] == list(host_of(per_host))
    others = [rank for rank, host in enumerate(host_of(per_host)) if host != 0]
    assert joined["transports"] == {str(rank): [over] for rank in others}
    for index, call in enumerate(calls):
        outputs = outputs_of(call, played, 1, index)
        check_exact(n, call, outputs)
        check_alike(call, outputs)


@pytest.mark.parametrize("per_host", [(3, 2), pytest.param((1, 3, 2), marks=pytest.mark.slow)], ids=str)
def test_hierarchical_schedules_on_hosts_with_different_numbers_of_ranks(
    per_host: tuple[int, ...], play: Play, tmp_path: Path
) -> None:
    """With one, two or as many leaders as the smallest host has ranks, whatever runs between the hosts."""
    n = sum(per_host)
    grouped = {algorithm.name for algorithm in ALGORITHMS if algorithm.grouped}
    calls = [call for call in every_call(per_host) if call.algorithm in grouped and call.count != COUNTS[-1]]
    assert {call.algorithm for call in calls if call.collective is Collective.ALL_REDUCE} == grouped
    gathering = {call.algorithm for call in calls if call.collective is Collective.ALL_GATHER}
    assert gathering == {"leaders", "folded_leaders"}
    steps = [{"do": "join"}, {"do": "calls", "calls": [call.to_json() for call in calls]}, {"do": "close"}]
    played = play(Scene(per_host=per_host, steps=steps), tmp_path)
    assert played.codes == [0] * n, played.said
    for step in range(len(steps)):
        assert set(played.errors(step)) == {"none"}, played.errors(step)
    for index, call in enumerate(calls):
        outputs = outputs_of(call, played, 1, index)
        check_exact(n, call, outputs)
        check_alike(call, outputs)


def test_a_host_whose_link_is_slow_stands_last_on_all_ranks_and_results_are_right(play: Play, tmp_path: Path) -> None:
    """Rank 0's own host is: roots on each host, in an order that begins with none of these for calls without a root."""
    n = 4
    calls = [call for call in every_call((1, 2, 1)) if call.count == COUNTS[2]]
    assert {call.root for call in calls} == set(range(n))
    sums = [call for call in calls if call.collective is Collective.ALL_REDUCE]
    calls += [replace(call, dtype=DType.FLOAT32, op=ReduceOp.SUM, values="random", in_place=False) for call in sums]
    steps = [{"do": "join"}, {"do": "calls", "calls": [call.to_json() for call in calls]}, {"do": "close"}]
    own = {
        str(rank): [{"do": "keep_rate", "gb_per_s": rate}, *steps] for rank, rate in enumerate((0.03, 0.12, 0.12, 0.1))
    }
    environ = {"AUTOTUNE_CACHE_DIR": str(tmp_path / "cache")}
    played = play(Scene(per_host=(1, 2, 1), steps=[], own=own, environ=environ), tmp_path)
    assert played.codes == [0] * n, played.said
    for step in range(1 + len(steps)):
        assert set(played.errors(step)) == {"none"}, played.errors(step)
    assert all(results is not None and results[1]["last_hosts"] == [0] for results in played.results)
    for index, call in enumerate(calls):
        outputs = outputs_of(call, played, 2, index)
        if call.values == "random":
            check_close(n, call, outputs)
        else:
            check_exact(n, call, outputs)
        check_alike(call, outputs)


@pytest.mark.slow
def test_messages_of_more_than_two_gibibytes(play: Play, tmp_path: Path) -> None:
    large = {"do": "all_reduce", "count": 2**29 + 3, "segment_bytes": 1 << 20}
    steps = [{"do": "join"}, large, {"do": "close"}]
    played = play(Scene(per_host=(1, 1), steps=steps, timeout_s=60.0, within_s=240.0), tmp_path)
    assert played.codes == [0, 0], played.said
    for step in range(len(steps)):
        assert set(played.errors(step)) == {"none"}, played.errors(step)


def test_random_sums_have_the_same_bits_on_all_ranks_and_in_all_runs(play: Play, tmp_path: Path) -> None:
    per_host = (2, 1, 1)
    layout = layout_of(4, 0, host_of(per_host))
    reduces = {name: build(Collective.ALL_REDUCE, name, 4, layout) for name in names(Collective.ALL_REDUCE, 4, layout)}
    calls = [
        Call(
            collective=Collective.ALL_REDUCE,
            algorithm=algorithm,
            dtype=dtype,
            count=5003,
            segment_bytes=2048,
            values="random",
            codec=codec,
            seed=7,
        )
        for algorithm, schedule in reduces.items()
        for dtype in (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)
        for codec in ("none", "int8", "threshold(0.5)")
        if codec == "none"
        or codec_legality(Collective.ALL_REDUCE, build(Collective.ALL_REDUCE, algorithm, 4, layout)) is None
    ]
    sent = [call.to_json() for call in calls]
    steps = [{"do": "join"}, {"do": "calls", "calls": sent}, {"do": "calls", "calls": sent}]
    played = play(Scene(per_host=per_host, steps=steps), tmp_path)
    assert played.codes == [0] * 4, played.said
    for index, call in enumerate(calls):
        first, again = outputs_of(call, played, 1, index), outputs_of(call, played, 2, index)
        check_alike(call, [*first, *again])
        if call.codec == "none":
            check_close(4, call, first)
