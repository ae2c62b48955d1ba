"""The cut of a call is the native executor's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.cost.cut import cut
from autotune.cost.work import work_of
from autotune.errors import UsageError
from autotune.kernels import slices
from autotune.kernels.schedules import names
from autotune.types import Collective, DType

CASES = [(collective, n, name) for collective in Collective for n in (2, 3, 5, 8) for name in names(collective, n)]


@given(
    case=st.sampled_from(CASES),
    count=st.integers(0, 1 << 20),
    dtype=st.sampled_from([DType.UINT8, DType.FLOAT32, DType.FLOAT64]),
    segment=st.sampled_from([1, 64, 1000, 16 << 10, 1 << 20]),
    staging=st.sampled_from([256 << 10, 8 << 20]),
)
def test_slices_are_those_of_the_executor(
    case: tuple[Collective, int, str], count: int, dtype: DType, segment: int, staging: int
) -> None:
    collective, n, name = case
    shape = work_of(collective, name, n, 2).shape
    message_bytes = count * dtype.itemsize * (n if collective.splits_by_rank else 1)
    expected = slices(collective, name, n, message_bytes, dtype, segment, staging)
    found = cut(shape, count, dtype.itemsize, segment, staging)
    assert found.slices == expected
    assert found.waves == shape.levels + found.spacing * (found.slices - 1)
    assert 0.0 <= found.reused < 1.0


@pytest.mark.parametrize(
    ("size", "segment", "slices", "calls"),
    [
        (64 << 10, 1 << 20, 1, 2 * 16),  # a slot of 64 KiB, in a megabyte of each half
        (256 << 10, 64 << 10, 4, 2 * 2),  # 3 waves of 2 slices
        (4 << 20, 256 << 10, 16, 2),
        (2 << 10, 1 << 20, 1, 2),  # small messages stay where they are
    ],
)
def test_calls_go_round_a_megabyte_of_the_outbox(size: int, segment: int, slices: int, calls: int) -> None:
    shape = work_of(Collective.BROADCAST, "flat", 2, 2).shape
    found = cut(shape, size, 1, segment, 8 << 20)
    assert (found.slices, found.calls, found.bulk) == (slices, calls, size >= 4 << 10)


def test_more_ranks_go_round_less_of_the_outbox() -> None:
    shape = work_of(Collective.BROADCAST, "flat", 3, 2).shape
    assert cut(shape, 64 << 10, 1, 1 << 20, 8 << 20).calls == 2 * 4


def test_two_ranks_that_answer_each_other_have_one_place_a_slot() -> None:
    shape = work_of(Collective.ALL_GATHER, "direct", 2, 2).shape
    assert cut(shape, 64 << 10, 1, 1 << 20, 8 << 20).calls == 1


def test_an_outbox_that_holds_nothing_is_refused() -> None:
    shape = work_of(Collective.ALL_REDUCE, "ring", 8, 2).shape
    with pytest.raises(UsageError, match="outbox"):
        cut(shape, 1 << 20, 4, 1 << 20, 128)
