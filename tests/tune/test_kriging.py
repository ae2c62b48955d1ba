"""Forecasts from what was measured near, and the ratios that they learn from."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from autotune.tune.forecasts import Forecasts
from autotune.tune.kriging import Kernel, Measured, expected
from autotune.tune.ratios import Ratio, ratios_to
from autotune.types import Collective, Config, Problem, RuleKey

KERNEL = Kernel()
DEFAULT = Config(algorithm="direct", segment_bytes=256 << 10)
RING, RING_SMALL = (Config(algorithm="ring", segment_bytes=size) for size in (1 << 20, 16 << 10))
TREE = Config(algorithm="tree", segment_bytes=1 << 20)


def problem(size: int, n_ranks: int = 4) -> Problem:
    key = RuleKey(
        backend="native",
        collective=Collective.ALL_GATHER,
        dtype=None,
        op_class=None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
    )
    return Problem(key=key, message_bytes=size)


def measured(at: Problem, residuals: Mapping[Config, float], trust: float = 1.0) -> Measured:
    found = {config: Ratio(log=log, variance=1e-4) for config, log in residuals.items()}
    return Measured(problem=at, default=DEFAULT, residuals=found, trust=trust)


def forecast(cells: list[Measured], config: Config = RING, at: Problem | None = None) -> tuple[float, float]:
    found = expected(at or problem(1 << 20), DEFAULT, [config], cells, frozenset(), KERNEL)
    return float(found.means[0]), math.sqrt(found.covariance[0, 0])


def test_without_measurements_the_model_stands_with_the_prior_spread() -> None:
    mean, spread = forecast([])
    assert mean == 0.0
    other_cut = 1 - math.exp(-2 / KERNEL.segment_octaves)  # two octaves from the default's
    own = KERNEL.algorithm**2 + KERNEL.config**2 + KERNEL.cut**2 * other_cut
    assert spread == pytest.approx(math.sqrt(2 * own))


def test_what_was_measured_here_is_believed() -> None:
    mean, spread = forecast([measured(problem(1 << 20), {RING: 0.4})])
    assert mean == pytest.approx(0.4, abs=0.01)
    assert spread < 0.02


def test_what_was_measured_counts_less_the_farther_away_it_was() -> None:
    blind = forecast([])
    sizes = [forecast([measured(problem(1 << octave), {RING: 0.4})]) for octave in (19, 16, 12)]
    ranks = [forecast([measured(problem(1 << 20, n), {RING: 0.4})]) for n in (4, 8, 16)]
    configs = [forecast([measured(problem(1 << 20), {RING: 0.4})], c) for c in (RING, RING_SMALL)]
    trusts = [forecast([measured(problem(1 << 20), {RING: 0.4}, trust)]) for trust in (1.0, 0.5, 0.2)]
    for chain in (sizes, ranks, configs, trusts):
        means, spreads = [mean for mean, _ in chain], [spread for _, spread in chain]
        assert means == sorted(means, reverse=True)
        assert spreads == sorted(spreads)
        assert means[-1] > 0.0
        assert spreads[-1] < blind[1]


def test_one_algorithm_tells_another_of_one_cut_no_more_than_what_the_default_is_off_by() -> None:
    """Where two algorithms are slower than priced over the default, that is the default's doing, so a third is too."""
    ring, bruck, tree = (Config(algorithm=name, segment_bytes=256 << 10) for name in ("ring", "bruck", "tree"))
    one = forecast([measured(problem(1 << 20), {ring: 0.4})], tree)
    two = forecast([measured(problem(1 << 20), {ring: 0.4, bruck: 0.4})], tree)
    against = forecast([measured(problem(1 << 20), {ring: 0.4, bruck: -0.4})], tree)
    assert 0.1 < one[0] < two[0] < 0.4
    assert against[0] == pytest.approx(0.0, abs=0.01)


def test_a_cut_that_is_slow_in_two_algorithms_is_expected_to_be_slow_in_a_third() -> None:
    small = {name: Config(algorithm=name, segment_bytes=16 << 10) for name in ("ring", "bruck", "tree")}
    whole = Config(algorithm="tree", segment_bytes=256 << 10)  # the default's cut
    seen = [measured(problem(1 << 20), {small["ring"]: 0.5, small["bruck"]: 0.5})]
    assert forecast(seen, small["tree"])[0] > forecast(seen, whole)[0] + 0.05


def test_no_set_of_measurements_breaks_the_equations() -> None:
    rng = random.Random(1)
    configs = [
        Config(algorithm=name, segment_bytes=segment, knobs=knobs)
        for name in ("ring", "tree", "direct")
        for segment in (None, 64 << 10)
        for knobs in ((), (("outbox", "streamed"),))
    ]
    cells = [
        measured(
            problem(1 << rng.randint(0, 26), rng.choice((2, 3, 8))),
            {config: rng.gauss(0.0, 0.5) for config in configs},
            rng.choice((1.0, 0.5, 0.2)),
        )
        for _ in range(12)
    ]
    found = expected(problem(4096), DEFAULT, configs, [*cells, *cells], frozenset(), KERNEL)
    for mean, variance in zip(found.means, found.covariance.diagonal(), strict=True):
        assert math.isfinite(mean)
        assert 0.0 < variance < 4.0


def test_a_default_that_was_lucky_makes_nobody_slow() -> None:
    """Three algorithms that look as much slower in one noisy round: that is one unlucky comparison, not three."""
    others = {Config(algorithm=name): Ratio(log=0.6, variance=0.25) for name in ("ring", "bruck", "nhr")}
    here = problem(1 << 20)
    together = [Measured(problem=here, default=DEFAULT, residuals=others)]
    apart = [Measured(problem=here, default=DEFAULT, residuals={config: ratio}) for config, ratio in others.items()]
    assert 0.0 < forecast(together)[0] < 0.9 * forecast(apart)[0]
    assert forecast(together)[1] > forecast(apart)[1]


def test_kin_are_off_by_the_same() -> None:
    """What tells two segments of an algorithm apart is less than what tells two algorithms apart, their cut aside."""
    configs = [RING, RING_SMALL, TREE]
    found = expected(problem(1 << 20), DEFAULT, configs, [], frozenset(), replace(KERNEL, cut=0.0))
    forecasts = Forecasts(dict.fromkeys(configs, 0.0), found.covariance)
    assert forecasts.improvement(RING_SMALL, RING) < 0.6 * forecasts.improvement(TREE, RING)
    assert forecasts.improvement(RING, RING) < 0.001


def test_what_enters_together_is_not_off_by_the_same() -> None:
    """Three algorithms in two cuts, forecast alike: the first two are two algorithms in two cuts, and a twin adds
    nothing."""
    configs = [Config(algorithm=a, segment_bytes=s) for a in ("ring", "bruck", "tree") for s in (1 << 20, 16 << 10)]
    found = expected(problem(1 << 20), DEFAULT, [DEFAULT, *configs], [], frozenset(), KERNEL)
    forecasts = Forecasts(dict.fromkeys([DEFAULT, *configs], 0.0), found.covariance)
    (first, alone), (second, added), *more = forecasts.together(configs, 3, over=DEFAULT)
    assert alone == pytest.approx(forecasts.improvement(first, DEFAULT), rel=0.15)
    assert (first.algorithm, first.segment_bytes) != (second.algorithm, second.segment_bytes)
    assert first.algorithm != second.algorithm
    assert first.segment_bytes != second.segment_bytes
    assert alone > added > more[0][1] > 0.0
    assert forecasts.together(configs, 3, over=DEFAULT) == [(first, alone), (second, added), *more]
    twin = Forecasts({DEFAULT: 0.0, RING: -0.1, TREE: -0.1}, np.array([[0.0, 0, 0], [0, 0.04, 0.04], [0, 0.04, 0.04]]))
    assert twin.together([TREE], 1, over=DEFAULT, given=[RING])[0][1] == pytest.approx(0.0, abs=1e-6)


def logs(*times: float) -> dict[int, float]:
    return {number: math.log(time) for number, time in enumerate(times)}


def test_ratios_are_those_of_common_rounds() -> None:
    slow = {number: log + math.log(3.0) for number, log in logs(10, 10, 10, 10).items() if number > 1}
    found = ratios_to({DEFAULT: logs(10, 10, 30, 30), RING: slow, TREE: {}}, DEFAULT)
    assert set(found) == {DEFAULT, RING}
    assert found[DEFAULT] == Ratio(log=0.0, variance=0.0)
    assert found[RING].log == pytest.approx(0.0)


def test_configs_without_a_common_round_are_compared_through_a_third() -> None:
    pivot = logs(20, 20, 60, 60)
    found = ratios_to({RING: pivot, DEFAULT: dict(list(logs(10, 10).items())), TREE: {3: math.log(90)}}, DEFAULT)
    assert found[TREE].log == pytest.approx(math.log(3.0))
    assert found[TREE].variance > found[RING].variance


def test_more_rounds_and_less_noise_say_more() -> None:
    rng = random.Random(2)

    def pair(rounds: int, noise: float) -> float:
        times = {c: {n: rng.gauss(0.0, noise) for n in range(rounds)} for c in (DEFAULT, RING)}
        return ratios_to(times, DEFAULT)[RING].variance

    assert pair(40, 0.1) < pair(10, 0.1) < pair(10, 0.8)
    assert ratios_to({RING: logs(1.0)}, DEFAULT) == {}
