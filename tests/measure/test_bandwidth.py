"""Known answers of nccl-tests' page: an all_reduce of S bytes over n ranks moves 2 (n-1)/n S over the busiest link."""

from __future__ import annotations

import pytest

from autotune.measure import algbw_gb_per_s, busbw_factor, busbw_gb_per_s
from autotune.types import Collective


def test_gb_are_powers_of_ten() -> None:
    assert algbw_gb_per_s(1_000_000_000, 1e6) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        (Collective.ALL_REDUCE, 1.5),
        (Collective.REDUCE_SCATTER, 0.75),
        (Collective.ALL_GATHER, 0.75),
        (Collective.BROADCAST, 1.0),
        (Collective.REDUCE, 1.0),
        (Collective.ALL_TO_ALL, 0.75),
        (Collective.SCATTER, 0.75),
        (Collective.GATHER, 0.75),
    ],
)
def test_factors_for_four_ranks(collective: Collective, factor: float) -> None:
    assert busbw_factor(collective, 4) == factor
    assert busbw_gb_per_s(collective, 4, 4_000_000, 1000.0) == pytest.approx(4.0 * factor)


def test_one_rank_moves_nothing() -> None:
    assert busbw_factor(Collective.ALL_REDUCE, 1) == 0.0
