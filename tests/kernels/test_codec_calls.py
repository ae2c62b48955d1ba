"""Calls with codecs on ranks that are processes: bit for bit what tests/wire/executor.py makes of the schedule.

So all ranks hold the same bytes; and the error is within E, what is not finite passes, and threshold(0) is lossless.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from ranks.cases import Call
from ranks.pool import Groups
from ranks.strategies import calls
from spec import FLOATS, Array, exact, expected, tolerance, widened
from wire.calls import legal, reference
from wire.executor import norm

from autotune.kernels.codecs import Codec
from autotune.kernels.schedules import build
from autotune.kernels.schedules.wire import follow
from autotune.types import Collective, ReduceOp

C = Collective
CODECS = ("threshold(0.0)", "threshold(0.5)", "threshold_abs(0.8)", "int8", "int4")
SHARED = [HealthCheck.function_scoped_fixture]  # groups are shared by all examples on purpose


def check_bits(n: int, call: Call, outputs: list[Array | None]) -> None:
    for rank, (got, want) in enumerate(zip(outputs, reference(n, call), strict=True)):
        assert (got is None) == (want is None), (call, rank)
        if got is not None and want is not None:
            assert got.tobytes() == want.tobytes(), (call, rank, np.flatnonzero(got != want)[:5])


def check_error(n: int, call: Call, outputs: list[Array | None]) -> None:
    """Within E of the exact result, as `explain` prints it."""
    inputs, codec = call.inputs(n), Codec.parse(call.codec)
    wire = follow(call.collective, build(call.collective, call.algorithm, n))
    bound = wire.relative_error(codec.relative_error(call.dtype))
    if not call.collective.computes:
        for got, want in zip(
            outputs, expected(call.collective, inputs, op=call.op, dtype=call.dtype, root=call.root), strict=True
        ):
            if got is not None and want is not None:
                off = widened(got, call.dtype).astype(np.float64) - widened(want, call.dtype)
                assert np.linalg.norm(off) <= bound * norm([want], call.dtype), call
        return
    given = [output for output in outputs if output is not None]
    if call.collective is C.ALL_REDUCE:
        assert len({output.tobytes() for output in given}) == 1, call
    result = np.concatenate(given) if call.collective is C.REDUCE_SCATTER else given[0]
    off = widened(result, call.dtype).astype(np.float64) - exact(inputs, call.op, call.dtype)
    total = sum(norm([values], call.dtype) for values in inputs) / (n if call.op is ReduceOp.AVG else 1)
    rounding = np.linalg.norm(tolerance(inputs, ReduceOp.SUM, call.dtype))  # of values that the codec may have enlarged
    assert np.linalg.norm(off) <= bound * total + (1 + bound) * rounding, call


def check(groups: Groups, n: int, listed: list[Call]) -> None:
    for call, outputs in zip(listed, groups.run(n, listed), strict=True):
        if call.op is not ReduceOp.AVG:  # the reference has no divided sums
            check_bits(n, call, outputs)
        if call.values == "random":
            check_error(n, call, outputs)


def every_call(n: int) -> Iterator[Call]:
    for collective in C:
        for number, algorithm in enumerate(legal(collective, n)):
            for (codec, dtype), count in zip(
                itertools.product(CODECS, FLOATS), itertools.cycle((1337, 600, 2222, 257))
            ):
                yield Call(
                    collective=collective,
                    algorithm=algorithm,
                    dtype=dtype,
                    op=(ReduceOp.SUM, ReduceOp.MAX, ReduceOp.SUM)[count % 3] if collective.computes else ReduceOp.SUM,
                    root=number % n if collective.has_root else 0,
                    count=count if collective.splits_by_rank else n * count,
                    segment_bytes=(4096, 1 << 20, 1000)[(number + count) % 3],
                    values="random",
                    seed=number,
                    codec=codec,
                )


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_every_legal_schedule_codec_and_type_as_the_reference(groups: Groups, n: int) -> None:
    listed = list(every_call(n))
    for first in range(0, len(listed), 100):
        check(groups, n, listed[first : first + 100])


@pytest.mark.parametrize("n", [6, 7, 8, 9])
def test_more_ranks(groups: Groups, n: int) -> None:
    listed = [call for call in every_call(n) if call.collective in (C.ALL_REDUCE, C.REDUCE_SCATTER, C.ALL_GATHER)]
    check(groups, n, listed[n % 7 :: 7])


@pytest.mark.parametrize("n", range(1, 6))
def test_no_element_and_one_and_a_block_and_one(groups: Groups, n: int) -> None:
    listed = [
        Call(
            collective=collective,
            algorithm=algorithm,
            dtype=FLOATS[number % 4],
            count=count,
            codec=CODECS[(number + count) % len(CODECS)],
            values="random",
        )
        for collective in C
        for number, algorithm in enumerate(legal(collective, n))
        for count in (0, 1, 257)
    ]
    check(groups, n, listed)


@st.composite
def coded_calls(draw: st.DrawFn, n: int) -> Call:
    """Any legal call, two thirds of them with a codec."""
    call = draw(calls(n, ["random"]))
    codec = draw(st.sampled_from(("none", *CODECS, *CODECS[1:])))
    op = draw(st.sampled_from((ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.AVG)))
    algorithm = call.algorithm if codec == "none" else draw(st.sampled_from(legal(call.collective, n)))
    exchange = call.exchange if codec == "none" else "staged"
    op = op if call.collective.computes else call.op
    shared = call.shared_cores if codec == "none" else None
    return replace(call, codec=codec, algorithm=algorithm, exchange=exchange, op=op, shared_cores=shared)


@given(data=st.data())
@settings(max_examples=120, deadline=None, suppress_health_check=SHARED)
def test_calls_with_and_without_codecs_in_a_row(groups: Groups, data: st.DataObject) -> None:
    n = data.draw(st.sampled_from((2, 3, 4, 5, 8, 9)))
    listed = data.draw(st.lists(coded_calls(n), min_size=2, max_size=6))
    turns = data.draw(st.sampled_from((0, 3_000)))
    busy = np.random.default_rng(len(listed)).integers(0, turns + 1, (n, len(listed))).tolist()
    for call, outputs in zip(listed, groups.run(n, listed, turns=busy), strict=True):
        if call.codec != "none":
            if call.op is not ReduceOp.AVG:
                check_bits(n, call, outputs)
            check_error(n, call, outputs)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("stores", ["cached", "streamed"])
def test_averages_are_alike_and_within_the_bound(groups: Groups, n: int, stores: str) -> None:
    listed = [
        Call(collective=collective, algorithm=name, dtype=dtype, op=ReduceOp.AVG, count=n * 700, segment_bytes=4096)
        for collective in (C.ALL_REDUCE, C.REDUCE_SCATTER, C.REDUCE)
        for name in legal(collective, n)
        for dtype in FLOATS
    ]
    check(groups, n, [replace(call, codec="int8", values="random", stores=stores) for call in listed])


@pytest.mark.parametrize("values", ["random", "special"])
def test_threshold_0_is_lossless_and_infinities_and_nan_pass(groups: Groups, values: str) -> None:
    """Under ==, where -0.0 is 0.0. Blocks with what is not finite travel as they are with int8 and int4 too."""
    codecs = CODECS if values == "special" else ("threshold(0.0)", "threshold_abs(0.0)")
    plain = [
        Call(collective=collective, algorithm=name, dtype=dtype, count=800, segment_bytes=2048, values=values)
        for collective in C
        for name in legal(collective, 4)
        for dtype in FLOATS
    ]
    lossless = groups.run(4, plain)
    for codec in codecs:
        if codec == "threshold_abs(0.8)":
            continue  # drops by size, next to what is not finite too
        for call, got, want in zip(
            plain, groups.run(4, [replace(call, codec=codec) for call in plain]), lossless, strict=True
        ):
            for mine, right in zip(got, want, strict=True):
                if mine is not None and right is not None:
                    numbers = widened(mine, call.dtype), widened(right, call.dtype)
                    np.testing.assert_array_equal(*numbers, err_msg=f"{call} {codec}")


@pytest.mark.parametrize("algorithm", ["direct", "pairwise", "bruck"])
def test_parts_of_unequal_size(groups: Groups, algorithm: str) -> None:
    """all_to_all_v: whoever has less to say encodes zeros behind it, so that relays need not know."""
    counts = [[0, 300, 5, 1000], [257, 0, 0, 1], [999, 1000, 64, 0], [3, 2, 1, 700]]
    step = {"do": "all_to_all_v", "group": "4", "counts": counts, "dtype": "float32", "seed": 5}
    for segment_bytes in (512, 1 << 16):
        coded = {**step, "algorithm": algorithm, "segment_bytes": segment_bytes, "codec": "threshold(0.0)"}
        for answer in groups.ask(4, {rank: [coded] for rank in range(4)}):
            assert answer.results == [{"right": True, "guards_whole": True, "input_kept": True}]
