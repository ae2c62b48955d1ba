"""Hypothesis strategies for calls: every legal algorithm, type and knob; counts and segments where cuts go wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import hypothesis.strategies as st
from ranks.cases import Call, Values
from spec import FLOATS

from autotune.kernels import shared_core_names, sharing, single_copy_names, zero_copy_names
from autotune.kernels.schedules.registry import names
from autotune.types import Collective, DType, ReduceOp


def _counts(draw: st.DrawFn, segment_bytes: int, dtype: DType, n: int) -> int:
    """Counts where cuts go wrong: none, one, primes, and around one, two and many segments, for one block and for n."""
    segment = max(1, segment_bytes // dtype.itemsize)
    edges = [0, 1, 2, 3, 7, 13, 31, 127, 251, 1021]
    for base in (segment, 2 * segment, segment * n, segment // n, 7 * segment):
        edges += [max(0, base - 1), base, base + 1]
    most = 12_000 // dtype.itemsize
    return min(draw(st.sampled_from(edges) | st.integers(0, most)), most)


@st.composite
def calls(draw: st.DrawFn, n: int, values: Sequence[Values] = ("exact",)) -> Call:
    """Any legal call over n ranks, with small segments, so that small counts make many slices."""
    collective = draw(st.sampled_from(Collective))
    of_values = draw(st.sampled_from(values))
    dtype = draw(st.sampled_from(DType if of_values == "exact" else FLOATS))
    segment_bytes = draw(st.sampled_from((64, 100, 128, 256, 1000, 1024, 4096)))
    reading = single_copy_names(collective, n, names(collective, n)) if draw(st.integers(0, 2)) == 0 else ()
    return Call(
        collective=collective,
        algorithm=draw(st.sampled_from(reading or names(collective, n))),
        exchange="single_copy" if reading else "staged",
        dtype=dtype,
        op=draw(st.sampled_from(ReduceOp)) if collective.computes else ReduceOp.SUM,
        root=draw(st.integers(0, n - 1)) if collective.has_root else 0,
        count=_counts(draw, segment_bytes, dtype, n),
        segment_bytes=segment_bytes,
        slices_in_flight=draw(st.integers(1, 8)),
        stores=draw(st.sampled_from(("cached", "streamed"))),
        values=of_values,
        seed=draw(st.integers(0, 1 << 30)),
        in_place=collective is not Collective.ALL_TO_ALL and draw(st.booleans()),
        shift=draw(st.sampled_from((0, 0, 0, 1, 8, 60))),
        shared_cores=None if reading else draw(_for_shared_cores(collective, n)),
    )


def _for_shared_cores(collective: Collective, n: int, *, zero_copy: bool = False) -> st.SearchStrategy[str | None]:
    """None, or an algorithm for ranks that share cores, as those of `ranks.pool` do where they are more than cores."""
    cores = sorted(os.sched_getaffinity(0))
    found = shared_core_names(collective, sharing([cores[rank % len(cores)] for rank in range(n)]), zero_copy=zero_copy)
    return st.sampled_from((*[None] * (1 + len(found)), *found))


SHARING = tuple(c for c in Collective if zero_copy_names(c, 2))
"""Collectives that can do without copies over symmetric memory."""


@st.composite
def symmetric_calls(draw: st.DrawFn, n: int, values: Sequence[Values] = ("exact",)) -> Call:
    """Any legal call over symmetric memory, without copies or through outboxes."""
    collective = draw(st.sampled_from(SHARING))
    exchange = draw(st.sampled_from(("zero_copy", "zero_copy", "staged")))
    legal = zero_copy_names(collective, n) if exchange == "zero_copy" else names(collective, n)
    root = draw(st.integers(0, n - 1)) if collective.has_root else 0
    call: Call = draw(calls(n, values))
    return replace(
        call,
        collective=collective,
        algorithm=draw(st.sampled_from(legal)),
        op=call.op if collective.computes else ReduceOp.SUM,
        root=root,
        in_place=collective is Collective.BROADCAST or (collective is not Collective.ALL_TO_ALL and call.in_place),
        symmetric=True,
        place=draw(st.sampled_from((0, 0, 64, 4000))),
        exchange=exchange,
        shared_cores=draw(_for_shared_cores(collective, n, zero_copy=exchange == "zero_copy")),
    )
