"""Statistics against known answers, and their promised error rates by seeded simulation."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Sequence

import pytest
from scipy import stats

from autotune.measure import median_interval, paired_ratio
from autotune.types import Phase, Sample, SampleKind


def samples(times_us: Sequence[float], *, first_round: int = 0, kind: SampleKind = SampleKind.FRESH) -> list[Sample]:
    return [
        Sample(kind=kind, phase=Phase.CONFIRM, round=r, position=0, batch_calls=1, time_us=time_us)
        for r, time_us in enumerate(times_us, first_round)
    ]


def noisy_pair(
    rng: random.Random, *, gain: float, noise: float, rounds: int, spikes: float = 0.0
) -> tuple[list[Sample], list[Sample]]:
    """Baseline and candidate on a host that runs every third round three times slower."""

    def one(time_us: float, speed: float) -> float:
        spike = 10.0 if rng.random() < spikes else 1.0
        return time_us * speed * spike * math.exp(rng.gauss(0.0, noise))

    speeds = [3.0 if rng.random() < 1 / 3 else 1.0 for _ in range(rounds)]
    return samples([one(gain, s) for s in speeds]), samples([one(1.0, s) for s in speeds])


def test_median_of_nine_lies_between_the_second_and_the_eighth() -> None:
    found = median_interval([9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0])
    assert (found.n_values, found.median, found.low, found.high) == (9, 5.0, 2.0, 8.0)


@pytest.mark.parametrize(("n", "low", "high"), [(6, 1, 6), (10, 2, 9), (15, 4, 12), (25, 8, 18)])
def test_order_statistics_of_published_tables(n: int, low: int, high: int) -> None:
    found = median_interval([float(i) for i in range(1, n + 1)])
    assert (found.low, found.high) == (low, high)


def test_below_six_values_there_is_no_interval() -> None:
    found = median_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (found.median, found.low, found.high) == (3.0, None, None)
    pair = paired_ratio(samples([2.0] * 5), samples([1.0] * 5))
    assert (pair.low, pair.high, pair.unstable) == (None, None, True)


def test_a_known_comparison() -> None:
    """Nine ratios exp(0.01 .. 0.09): every Walsh average is a multiple of 0.005, the sixth from either end is known."""
    logs = [0.01 * i for i in range(1, 10)]
    found = paired_ratio(samples([math.exp(x) for x in logs]), samples([1.0] * 9))
    walsh = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    assert found.n_rounds == 9
    assert found.median == pytest.approx(math.exp(0.05))
    assert found.low == pytest.approx(math.exp(walsh[5]))
    assert found.high == pytest.approx(math.exp(walsh[-6]))
    assert found.p_value == pytest.approx(2**-9)


@pytest.mark.parametrize("n", [6, 7, 9, 12, 20, 25])
def test_the_interval_inverts_scipys_test(n: int) -> None:
    """Just inside its ends the two-sided test does not reject at 5 %, just outside it does."""
    rng = random.Random(n)
    logs = [rng.gauss(0.1, 0.05) for _ in range(n)]
    found = paired_ratio(samples([math.exp(x) for x in logs]), samples([1.0] * n))
    assert found.low is not None
    for end, outwards in ((found.low, -1), (found.high, 1)):
        assert end is not None
        inside = [x - math.log(end) + outwards * 1e-9 for x in logs]
        outside = [x - math.log(end) - outwards * 1e-9 for x in logs]
        assert stats.wilcoxon(inside).pvalue > 0.05
        assert stats.wilcoxon(outside).pvalue <= 0.05


def test_a_higher_confidence_widens_the_interval() -> None:
    logs = [0.01 * i for i in range(1, 10)]
    usual = paired_ratio(samples([math.exp(x) for x in logs]), samples([1.0] * 9))
    wide = paired_ratio(samples([math.exp(x) for x in logs]), samples([1.0] * 9), confidence=0.99)
    assert (wide.median, wide.p_value) == (usual.median, usual.p_value)
    assert wide.low is not None
    assert usual.low is not None
    assert wide.low < usual.low


def test_only_rounds_of_the_same_kind_and_number_are_pairs() -> None:
    steady = samples([50.0] * 9, kind=SampleKind.STEADY)
    found = paired_ratio(
        [*samples([2.0] * 9), *steady], [*samples([1.0] * 9, first_round=3), *samples([9.0] * 3, first_round=12)]
    )
    assert (found.n_rounds, found.median) == (6, pytest.approx(2.0))
    with pytest.raises(ValueError, match="no round in common"):
        paired_ratio(samples([1.0]), samples([1.0], first_round=1))


def test_equal_times_prove_nothing() -> None:
    found = paired_ratio(samples([5.0] * 9), samples([5.0] * 9))
    assert (found.median, found.p_value) == (1.0, 1.0)


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_intervals_hold_the_truth_in_95_percent(noise: float) -> None:
    rng = random.Random(11)
    runs = 400
    ratio = time = 0
    for _ in range(runs):
        before, after = noisy_pair(rng, gain=1.3, noise=noise, rounds=9)
        found = paired_ratio(before, after)
        assert found.low is not None
        assert found.high is not None
        ratio += found.low <= 1.3 <= found.high
        interval = median_interval([math.exp(rng.gauss(0.0, noise)) for _ in range(9)])
        assert interval.low is not None
        assert interval.high is not None
        time += interval.low <= 1.0 <= interval.high
    # Exact coverage for nine rounds is 0.961; four standard errors of 400 runs are 0.039.
    assert 0.922 <= ratio / runs <= 1.0
    assert 0.922 <= time / runs <= 1.0


def test_instability_is_judged_on_ratios_not_on_times() -> None:
    rng = random.Random(10)
    drifting = paired_ratio(*noisy_pair(rng, gain=1.1, noise=0.02, rounds=9))
    noisy = paired_ratio(*noisy_pair(rng, gain=1.1, noise=0.4, rounds=9))
    assert not drifting.unstable
    assert noisy.unstable


def test_importing_measure_loads_the_standard_library_only() -> None:
    program = "import sys, autotune.measure; print(sorted({'numpy', 'scipy', 'yaml', 'sqlalchemy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
