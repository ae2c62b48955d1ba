"""The backend's contract: values that cannot be meant are refused, batches are long enough."""

from __future__ import annotations

import math

import pytest

from autotune.measure import Failure, Timing, batch_calls, single_calls, undisturbed_mean
from autotune.types import TrialState


@pytest.mark.parametrize(
    ("estimate_us", "calls"), [(1e6, 1), (20.0, 1), (19.99, 11), (10.0, 20), (3.0, 67), (0.2, 1000)]
)
def test_short_calls_run_in_batches_of_200_us(estimate_us: float, calls: int) -> None:
    assert batch_calls(estimate_us) == calls
    assert calls == 1 or calls * estimate_us >= 200.0


def test_a_batch_is_finite_whatever_the_estimate() -> None:
    assert batch_calls(0.0) == 100_000


@pytest.mark.parametrize("time_us", [0.0, -1.0, math.inf, math.nan])
def test_a_time_that_no_clock_gives_is_refused(time_us: float) -> None:
    with pytest.raises(ValueError, match="not a timing"):
        Timing(time_us=time_us, batch_calls=1)


def test_a_failure_says_what_failed() -> None:
    with pytest.raises(ValueError, match="other than OK"):
        Failure(state=TrialState.OK, message="fine")
    with pytest.raises(ValueError, match="a message"):
        Failure(state=TrialState.CRASHED, message="")


@pytest.mark.parametrize(
    ("estimate_us", "sample_us", "calls"),
    [(20.0, 1e3, 8), (600.0, 1e3, 2), (2e3, 1e3, 1), (2e3, 1e4, 6), (0.0, 1e3, 8)],
)
def test_a_sample_holds_calls_of_its_length_and_at_most_eight(estimate_us: float, sample_us: float, calls: int) -> None:
    assert single_calls(estimate_us, sample_us) == calls


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([5.0], 5.0),
        ([1.0, 9.0], 5.0),
        ([9.0, 1.0, 3.0], 2.0),
        ([1.0, 2.0, 900.0, 3.0], 2.0),
        ([900.0, 1.0, 2.0, 3.0, 800.0], 2.0),
        ([1.0] * 6 + [7.0, 8.0], 1.0),
    ],
)
def test_the_slowest_quarter_of_three_calls_or_more_is_left_out(times: list[float], expected: float) -> None:
    assert undisturbed_mean(times) == pytest.approx(expected)
