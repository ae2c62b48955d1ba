"""Looks: when a decision may be tested, what each test may spend, and that the error holds however one stops."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from autotune.measure import ALPHA, Comparison, Standing, last_look, look_with, rounds_at, sequential_ratio, standing
from autotune.measure.sequential import bound, level
from autotune.types import Phase, Sample, SampleKind

LOOKS = 5


def samples(times_us: Sequence[float]) -> list[Sample]:
    return [
        Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=r, position=0, batch_calls=1, time_us=time_us)
        for r, time_us in enumerate(times_us)
    ]


def noisy_pair(
    rng: random.Random, *, gain: float, noise: float, rounds: int, spikes: float = 0.0
) -> tuple[list[Sample], list[Sample]]:
    """Default and challenger on a host that runs every third round three times slower."""

    def one(time_us: float, speed: float) -> float:
        spike = rng.uniform(1.5, 6.0) if rng.random() < spikes else 1.0
        return time_us * speed * spike * math.exp(rng.gauss(0.0, noise))

    speeds = [3.0 if rng.random() < 1 / 3 else 1.0 for _ in range(rounds)]
    return samples([one(gain, s) for s in speeds]), samples([one(1.0, s) for s in speeds])


def comparison(n_rounds: int, median: float, p_value: float, high: float = 3.0) -> Comparison:
    return Comparison(n_rounds=n_rounds, median=median, low=1.0, high=high, p_value=p_value)


def test_looks_come_at_nine_rounds_and_then_ever_later() -> None:
    assert [rounds_at(look) for look in range(6)] == [9, 15, 25, 42, 70, 116]
    assert [last_look(n) for n in (0, 8, 9, 14, 15, 24, 25, 1000)] == [None, None, 0, 0, 1, 1, 2, 9]
    assert [look_with(n) for n in (1, 9, 10, 15, 16)] == [0, 0, 1, 1, 2]


def test_all_looks_together_err_with_alpha_whatever_the_distribution() -> None:
    """Signs and ranks of ratios that lie symmetrically about 1, which is all that the test sees of them."""
    rng, runs = np.random.default_rng(12), 60_000
    wrong = np.zeros(runs, bool)
    sizes, above = rng.random((runs, rounds_at(LOOKS))), rng.random((runs, rounds_at(LOOKS))) < 0.5
    for look in range(LOOKS + 1):
        n = rounds_at(look)
        ranks = np.argsort(np.argsort(sizes[:, :n], axis=1), axis=1) + 1
        wrong |= tail(n)[(ranks * above[:, :n]).sum(axis=1)] < ALPHA * level(look)
    assert 0.9 * ALPHA <= wrong.mean() <= ALPHA + 3 * math.sqrt(ALPHA / runs)
    assert ALPHA * level(0) > 2**-9, "nine unanimous rounds decide"
    assert [level(look) for look in (LOOKS + 1, LOOKS + 2)] == pytest.approx([0.07 / 3, 0.07 / 9])


def tail(n: int) -> np.ndarray:
    """How likely a signed-rank statistic of n values is to be at least so large, by the statistic."""
    counts = np.ones(1)
    for rank in range(1, n + 1):
        counts = (np.pad(counts, (0, rank)) + np.pad(counts, (rank, 0))) / 2
    return np.cumsum(counts[::-1])[::-1]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (comparison(9, 1.02, 0.00199), Standing.FASTER),
        (comparison(9, 1.02, 0.002), Standing.OPEN),
        (comparison(8, 2.0, 0.0001), Standing.OPEN),
        (comparison(9, 1.019, 0.001), Standing.OPEN),
        (comparison(9, 1.0, 0.6, high=1.0199), Standing.NOT_FASTER),
        (comparison(15, 1.1, 0.0049), Standing.FASTER),
        (comparison(25, 1.1, 0.0029), Standing.FASTER),
        (comparison(25, 1.1, 0.003), Standing.OPEN),
    ],
)
def test_each_condition_of_the_rule_is_needed(found: Comparison, expected: Standing) -> None:
    assert standing(found) is expected


def test_rounds_after_the_last_look_do_not_count() -> None:
    before, after = samples([2.0] * 14), samples([1.0] * 9 + [50.0] * 5)
    found = sequential_ratio(before, after)
    assert found is not None
    assert (found.n_rounds, found.median) == (9, pytest.approx(2.0))
    assert sequential_ratio(before[:8], after) is None


def stopped(rng: random.Random, gain: float, noise: float, spikes: float) -> Standing:
    """Measure on, look after look, until the answer is clear or the looks are used up."""
    before, after = noisy_pair(rng, gain=gain, noise=noise, rounds=rounds_at(LOOKS - 1), spikes=spikes)
    found = Standing.OPEN
    for look in range(LOOKS):
        gained = sequential_ratio(before[: rounds_at(look)], after[: rounds_at(look)])
        assert gained is not None
        found = standing(gained)
        if found is not Standing.OPEN:
            return found
    return found


@pytest.mark.parametrize(("noise", "spikes"), [(0.05, 0.0), (0.3, 0.0), (0.05, 0.1)])
def test_an_equal_config_rarely_replaces_the_default_however_often_one_looks(noise: float, spikes: float) -> None:
    rng = random.Random(7)
    runs = 400
    false = sum(stopped(rng, 1.0, noise, spikes) is Standing.FASTER for _ in range(runs))
    # Expected at most ALPHA; the bound leaves three standard errors.
    assert false / runs <= ALPHA + 3 * math.sqrt(ALPHA / runs)


def test_a_slower_config_never_replaces_the_default() -> None:
    rng = random.Random(8)
    assert not any(stopped(rng, 0.95, 0.05, 0.0) is Standing.FASTER for _ in range(150))


@pytest.mark.parametrize(("gain", "spikes", "power"), [(1.1, 0.0, 0.98), (1.2, 0.02, 0.98)])
def test_a_real_gain_is_found(gain: float, spikes: float, power: float) -> None:
    rng = random.Random(9)
    runs = 150
    assert sum(stopped(rng, gain, 0.05, spikes) is Standing.FASTER for _ in range(runs)) / runs >= power


def test_the_interval_holds_the_truth_at_every_look_together() -> None:
    rng = random.Random(10)
    runs, missed = 300, 0
    for _ in range(runs):
        before, after = noisy_pair(rng, gain=1.3, noise=0.1, rounds=rounds_at(3))
        looks = [sequential_ratio(before[: rounds_at(look)], after[: rounds_at(look)]) for look in range(4)]
        missed += any(not (g.low or 0.0) <= 1.3 <= (g.high or math.inf) for g in looks if g is not None)
    assert missed / runs <= 0.05 + 3 * math.sqrt(0.05 / runs)


def test_the_bound_of_races_holds_at_all_rounds_together() -> None:
    rng = random.Random(11)
    runs, alpha = 1000, 0.05
    crossed = 0
    for _ in range(runs):
        sums = itertools.accumulate(rng.gauss(0.0, 0.1) for _ in range(30))
        crossed += any(abs(total) / n > bound(n, 0.1, alpha) for n, total in enumerate(sums, 1))
    assert crossed / runs <= alpha
    assert bound(3, 0.1, 0.01) > bound(3, 0.1, 0.05) > bound(9, 0.1, 0.05)
