"""Every collective by every algorithm against tests/spec.py, on ranks that are processes."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from ranks.cases import Call
from ranks.checks import check_alike, check_close, check_exact
from ranks.pool import Groups
from ranks.strategies import calls
from spec import exact, expected

from autotune.kernels.schedules.registry import names
from autotune.types import Collective, DType, ReduceOp

Batch = tuple[int, list[Call], list[list[int]]]

RANKS = st.sampled_from((2, 3, 4, 5, 7, 8, 9, 6, 1))
SHARED = [HealthCheck.function_scoped_fixture]  # groups are shared by all examples on purpose


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Different calls that follow each other without a barrier, and how long each rank is busy before each."""
    n = draw(RANKS)
    listed = draw(st.lists(calls(n), min_size=1, max_size=6))
    turns = draw(st.sampled_from((0, 3_000, 30_000)))
    busy = np.random.default_rng(draw(st.integers(0, 99))).integers(0, turns + 1, (n, len(listed)))
    return n, listed, busy.tolist()


def check_batch(groups: Groups, batch: Batch) -> None:
    n, listed, busy = batch
    for call, outputs in zip(listed, groups.run(n, listed, turns=busy), strict=True):
        check_exact(n, call, outputs)
        check_alike(call, outputs)


@given(batch=batches())
@settings(max_examples=400, deadline=None, suppress_health_check=SHARED)
def test_calls_in_a_row_match_the_spec(groups: Groups, batch: Batch) -> None:
    check_batch(groups, batch)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(batch=batches())
@settings(max_examples=10_000, deadline=None, suppress_health_check=SHARED)
def test_many_calls_in_a_row_match_the_spec(groups: Groups, batch: Batch) -> None:
    check_batch(groups, batch)


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=SHARED)
def test_infinities_nan_and_negative_zero_match_the_spec(groups: Groups, data: st.DataObject) -> None:
    n = data.draw(RANKS)
    listed = data.draw(st.lists(calls(n, ["special"]), min_size=1, max_size=4))
    for call, outputs in zip(listed, groups.run(n, listed), strict=True):
        check_exact(n, call, outputs)
        check_alike(call, outputs)


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=SHARED)
def test_random_floats_are_alike_on_all_ranks_and_in_all_runs(groups: Groups, data: st.DataObject) -> None:
    n = data.draw(RANKS)
    listed = data.draw(st.lists(calls(n, ["random"]).filter(lambda c: c.collective.computes), min_size=1, max_size=3))
    first, again = groups.run(n, listed), groups.run(n, listed)
    for call, outputs, repeated in zip(listed, first, again, strict=True):
        check_alike(call, outputs)
        check_close(n, call, outputs)
        for output, other in zip(outputs, repeated, strict=True):
            assert output is None or other is None or output.tobytes() == other.tobytes(), call


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16])
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_every_algorithm_gives_all_ranks_the_same_random_sums(groups: Groups, dtype: DType, n: int) -> None:
    listed = [
        Call(
            collective=Collective.ALL_REDUCE,
            algorithm=algorithm,
            dtype=dtype,
            op=op,
            count=1999,
            segment_bytes=segment_bytes,
            stores=stores,
            values="random",
            seed=n,
        )
        for algorithm in names(Collective.ALL_REDUCE, n)
        for op in (ReduceOp.SUM, ReduceOp.AVG)
        for segment_bytes, stores in ((128, "cached"), (1024, "streamed"), (1 << 16, "cached"))
    ]
    for call, outputs, repeated in zip(listed, groups.run(n, listed), groups.run(n, listed), strict=True):
        check_alike(call, [*outputs, *repeated])
        check_close(n, call, outputs)


@pytest.mark.parametrize("n", range(1, 10))
def test_every_algorithm_and_collective_with_no_element_and_with_one(groups: Groups, n: int) -> None:
    listed = [
        Call(collective=collective, algorithm=algorithm, root=root if collective.has_root else 0, count=count, seed=n)
        for collective in Collective
        for algorithm in names(collective, n)
        for count in (0, 1)
        for root in {0, n - 1}
    ]
    for call, outputs in zip(listed, groups.run(n, listed), strict=True):
        check_exact(n, call, outputs)


def test_the_checks_see_a_wrong_bit_a_missing_output_and_ranks_that_differ() -> None:
    call = Call(collective=Collective.ALL_REDUCE, algorithm="ring", count=5)
    right = expected(call.collective, call.inputs(2), op=call.op, dtype=call.dtype)
    wrong = np.array(right[1])
    wrong[4] = np.nextafter(wrong[4], np.float32(np.inf))
    check_exact(2, call, right)
    with pytest.raises(AssertionError):
        check_exact(2, call, [right[0], wrong])
    with pytest.raises(AssertionError):
        check_exact(2, call, [right[0], None])
    with pytest.raises(AssertionError):
        check_alike(call, [right[0], wrong])
    far = replace(call, values="random")
    with pytest.raises(AssertionError):
        check_close(2, far, [exact(far.inputs(2), call.op, call.dtype).astype(np.float32) + np.float32(1e-5)])
