"""How far forecasts are off: learnt from what was measured, and not from its noise."""

from __future__ import annotations

import random

import pytest

from autotune.tune.calibration import Miss, likeliest_scale


def misses(scale: float, noise: float, n: int = 400) -> list[Miss]:
    luck = random.Random(1)
    spread = ((scale * 0.2) ** 2 + noise**2) ** 0.5
    return [Miss(off=luck.gauss(0.0, spread), claimed=0.2**2, noise=noise**2) for _ in range(n)]


def test_nothing_seen_is_taken_at_its_word() -> None:
    assert likeliest_scale([]) == 1.0


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_what_forecasts_are_off_by_is_found_through_the_noise(scale: float, noise: float) -> None:
    assert likeliest_scale(misses(scale, noise)) == pytest.approx(scale, rel=0.3)


def test_one_miss_that_is_off_by_worlds_does_not_decide() -> None:
    assert likeliest_scale([*misses(1.0, 0.1, 40), Miss(off=50.0, claimed=0.04, noise=0.01)]) < 1.5
