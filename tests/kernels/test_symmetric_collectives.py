"""Collectives over symmetric memory on ranks that are processes: every algorithm, type and operation."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from ranks.cases import Call
from ranks.checks import check_alike, check_close, check_exact
from ranks.pool import Groups
from ranks.strategies import SHARING, symmetric_calls
from ranks.strategies import calls as private_calls
from spec import FLOATS

from autotune.kernels import zero_copy_names
from autotune.types import Collective, DType, ReduceOp

C = Collective
MOST_RANKS = 5
SHARED = [HealthCheck.function_scoped_fixture]  # groups are shared by all examples on purpose


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, list[Call], list[list[int]]]:
    """Calls over one arena, each of which overwrites the one before at once; some in private memory between them."""
    n = draw(st.integers(1, MOST_RANKS))
    listed = draw(st.lists(symmetric_calls(n) | symmetric_calls(n) | private_calls(n), min_size=1, max_size=6))
    turns = draw(st.sampled_from((0, 3_000, 30_000)))
    busy = np.random.default_rng(draw(st.integers(0, 99))).integers(0, turns + 1, (n, len(listed)))
    return n, listed, busy.tolist()


@given(batch=batches())
@settings(max_examples=200, deadline=None, suppress_health_check=SHARED)
def test_calls_in_a_row_match_the_spec(groups: Groups, batch: tuple[int, list[Call], list[list[int]]]) -> None:
    n, listed, busy = batch
    for call, outputs in zip(listed, groups.run(n, listed, turns=busy), strict=True):
        check_exact(n, call, outputs)
        check_alike(call, outputs)


COUNTS = (0, 1, 13, 251, 700)  # of 512-byte segments: several slices


@pytest.mark.parametrize("n", range(1, MOST_RANKS + 1))
@pytest.mark.parametrize("collective", SHARING)
def test_every_algorithm_type_and_operation(groups: Groups, collective: Collective, n: int) -> None:
    ops = tuple(ReduceOp) if collective.computes else (ReduceOp.SUM,)
    mixed = itertools.product(zero_copy_names(collective, n), DType, ops)
    placed = itertools.cycle([(False, 0, 0), (True, 64, 8), (False, 4000, 1), (True, 0, 0), (False, 128, 60)])
    listed = []
    for number, ((name, dtype, op), (in_place, place, shift), count) in enumerate(
        zip(mixed, placed, itertools.cycle((*COUNTS, 33, 64)), strict=False)
    ):
        listed.append(
            Call(
                collective=collective,
                algorithm=name,
                dtype=dtype,
                op=op,
                root=number % n if collective.has_root else 0,
                count=count,
                segment_bytes=512,
                seed=number,
                in_place=collective is C.BROADCAST or (in_place and collective is not C.ALL_TO_ALL),
                shift=shift,
                symmetric=True,
                place=place,
                exchange="zero_copy",
            )
        )
    for call, outputs in zip(listed, groups.run(n, listed), strict=True):
        check_exact(n, call, outputs)
        check_alike(call, outputs)


@pytest.mark.parametrize("n", range(2, MOST_RANKS + 1))
def test_all_ranks_get_the_same_bytes_of_sums_that_round(groups: Groups, n: int) -> None:
    listed = [
        Call(
            collective=C.ALL_REDUCE,
            algorithm=name,
            dtype=dtype,
            op=op,
            count=count,
            segment_bytes=segment_bytes,
            values="random",
            seed=count,
            in_place=in_place,
            symmetric=True,
            exchange="zero_copy",
        )
        for name in zero_copy_names(C.ALL_REDUCE, n)
        for dtype in FLOATS
        for op in (ReduceOp.SUM, ReduceOp.AVG)
        for in_place, count, segment_bytes in ((False, 999, 1 << 20), (True, 1001, 1024))
    ]
    for call, outputs in zip(listed, groups.run(n, listed), strict=True):
        check_alike(call, outputs)
        check_close(n, call, outputs)
