"""Races: who leads, who leaves, and how often a whole race misses the true best."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from autotune.measure import EXHAUSTIVE, NORMAL, QUICK, THOROUGH, Effort, leader, race_of, scores, survivors
from autotune.measure.racing import clearly_worse, noise_of
from autotune.types import (
    Collective,
    Config,
    Phase,
    Problem,
    RuleKey,
    Sample,
    SampleKind,
    Trial,
    TrialState,
)

KEY = RuleKey(backend="native", collective=Collective.BROADCAST, dtype=None, op_class=None, n_ranks=2, placement=(2,))
SCALE, ALPHA = 0.05, 0.01


def config(name: str) -> Config:
    return Config(algorithm=name)


def sample(r: int, time_us: float, calls: int = 1) -> Sample:
    return Sample(kind=SampleKind.FRESH, phase=Phase.RACE, round=r, position=0, batch_calls=calls, time_us=time_us)


def rounds(times_us: Sequence[float], calls: int = 1) -> dict[int, Sample]:
    return {r: sample(r, time_us, calls) for r, time_us in enumerate(times_us)}


def race(times: Mapping[str, Sequence[float]]) -> dict[Config, dict[int, Sample]]:
    return {config(name): rounds(values) for name, values in times.items()}


def test_the_leader_is_judged_inside_rounds() -> None:
    """b is faster in every round that both ran, but missed a fast one, so that its median time is the higher one."""
    with_drift = {config("a"): rounds([10, 10, 10, 30, 30]), config("b"): rounds([9, 9, 9, 27, 27])}
    for number in (0, 1):
        del with_drift[config("b")][number]
    assert leader(with_drift) == config("b")


def test_one_lucky_sample_does_not_lead() -> None:
    assert leader(race({"a": [10, 10, 10], "b": [1, 11, 11]})) == config("a")


def test_those_that_left_early_do_not_lead() -> None:
    assert leader(race({"a": [10, 10, 10], "left": [8]})) == config("a")


def test_a_tie_goes_to_the_first_by_name() -> None:
    assert leader(race({"b": [5, 5], "a": [5, 5]})) == config("a")


def test_nobody_leads_an_empty_race() -> None:
    with pytest.raises(ValueError, match="nobody ran"):
        leader({})
    assert survivors({}, QUICK) == ()


def worse(candidate: dict[int, Sample], best: dict[int, Sample]) -> bool:
    return clearly_worse(candidate, best, scale=SCALE, alpha=ALPHA)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ([210_000], True),
        ([199_000], False),
        ([110_000, 900_000], False),  # of two samples the better one counts
        ([140_000, 150_000], True),
        ([130_000] * 3, True),
        ([110_000, 110_000, 900_000], False),  # nor does one disturbed sample of three drop anybody
        ([105_000] * 5, False),
        ([112_000] * 9, True),
    ],
)
def test_limits_tighten_with_the_rounds(candidate: list[float], expected: bool) -> None:
    assert worse(rounds(candidate), rounds([100_000.0] * len(candidate))) is expected


def test_what_is_clear_depends_on_the_noise() -> None:
    best, candidate = rounds([100_000.0] * 4), rounds([125_000.0] * 4)
    assert clearly_worse(candidate, best, scale=0.02, alpha=ALPHA)
    assert not clearly_worse(candidate, best, scale=0.3, alpha=ALPHA)


def test_noise_is_read_off_the_ratios_and_single_spikes_do_not_move_it() -> None:
    rng = random.Random(5)

    def noisy(scale: float) -> dict[int, Sample]:
        return rounds([100.0 * (3.0 if r % 3 else 1.0) * math.exp(rng.gauss(0.0, scale)) for r in range(8)])

    for scale in (0.01, 0.2):
        best, *others = (noisy(scale) for _ in range(10))
        found = noise_of([best, *others], best)
        assert 0.6 * scale * math.sqrt(2) < found < 1.6 * scale * math.sqrt(2) + 0.02
    others[0][3] = sample(3, 1e6)
    assert noise_of([best, *others], best) == pytest.approx(found, rel=0.1)


def test_configs_that_ran_in_different_rounds_are_compared_through_the_others() -> None:
    """late ran in slow rounds only, and is the fastest all the same."""
    field = race({"a": [10, 10, 10, 30, 30, 30], "b": [11, 11, 11, 33, 33, 33]})
    field[config("late")] = {r: sample(r, 27.0) for r in (3, 4, 5)}
    assert leader(field) == config("late")
    found = scores(field)
    assert found[config("late")] - found[config("a")] == pytest.approx(math.log(0.9))


@pytest.mark.parametrize(("time_us", "calls", "expected"), [(3900.0, 1, False), (4300.0, 1, True), (390.0, 10, False)])
def test_one_scheduler_tick_drops_nobody(time_us: float, calls: int, expected: bool) -> None:
    assert worse(rounds([time_us], calls), rounds([100.0], calls)) is expected


def test_rounds_that_only_one_of_them_ran_do_not_count() -> None:
    candidate = {7: sample(7, 150.0)}
    assert not worse(candidate, rounds([100.0] * 3))


def test_after_three_rounds_only_the_fastest_stay() -> None:
    times = {f"c{i}": [100.0 + i] * 3 for i in range(9)}
    assert survivors(race(times), QUICK) == tuple(config(f"c{i}") for i in range(QUICK.keep))
    assert len(survivors(race({name: values[:2] for name, values in times.items()}), QUICK)) == 9


def test_an_exhaustive_race_drops_nobody() -> None:
    times = {f"c{i}": [100.0 * (i + 1)] * 9 for i in range(9)}
    assert len(survivors(race(times), EXHAUSTIVE)) == 9


def test_newcomers_stay_until_they_are_clearly_worse() -> None:
    running = race({f"c{i}": [100.0 + i] * 4 for i in range(4)})
    running[config("new")] = {3: sample(3, 90.0)}
    running[config("slow")] = {3: sample(3, 90_000.0)}
    stay = survivors(running, QUICK)
    assert config("new") in stay
    assert config("slow") not in stay


def test_a_single_lucky_sample_of_a_newcomer_does_not_lead() -> None:
    running = race({"a": [100.0] * 4, "b": [101.0] * 4})
    running[config("new")] = {3: sample(3, 50.0)}
    assert leader(running) == config("a")


def test_failed_trials_are_out_of_the_race() -> None:
    problem = Problem(key=KEY, message_bytes=8)
    steady = Sample(kind=SampleKind.STEADY, phase=Phase.RACE, round=5, position=0, batch_calls=1, time_us=1.0)

    def trial(name: str, state: TrialState) -> Trial:
        return Trial(
            trial_id=1,
            session_id=1,
            problem=problem,
            config=config(name),
            state=state,
            samples=(sample(0, 5.0), steady),
        )

    found = race_of([trial("good", TrialState.OK), trial("bad", TrialState.CRASHED)])
    assert found == {config("good"): {0: sample(0, 5.0)}}


@pytest.mark.parametrize(
    "bad",
    [{"race_rounds": 0}, {"confirm_rounds": 8}, {"keep": 0}, {"entrants": 0}, {"few_entrants": 0}, {"most_rounds": 14}],
)
def test_efforts_that_decide_nothing_are_refused(bad: dict[str, object]) -> None:
    values: dict[str, object] = {
        "name": "x",
        "entrants": 4,
        "few_entrants": 6,
        "keep": 2,
        "race_rounds": 5,
        "confirm_rounds": 15,
        "most_rounds": 15,
    }
    Effort(**values)  # type: ignore[arg-type] # as a mapping, to plant faults in
    with pytest.raises(ValueError, match="an effort"):
        Effort(**(values | bad))  # type: ignore[arg-type] # planted faults


def misses(effort: Effort, times_us: list[float], *, noise: float, spikes: float, runs: int) -> float:
    """How often the winner of a race is not the first candidate, which is the fastest."""
    rng = random.Random(3)
    configs = [config(f"c{i:02}") for i in range(len(times_us))]
    true_us = dict(zip(configs, times_us, strict=True))
    missed = 0
    for _ in range(runs):
        running: tuple[Config, ...] = tuple(configs)
        samples: dict[Config, dict[int, Sample]] = {c: {} for c in configs}
        while len(running) > 1 and min(len(samples[c]) for c in running) < effort.race_rounds:
            r = max(len(own) for own in samples.values())
            speed = 3.0 if rng.random() < 0.2 else 1.0
            for c in running:
                spike = 10.0 if rng.random() < spikes else 1.0
                samples[c][r] = sample(r, true_us[c] * speed * spike * math.exp(rng.gauss(0.0, noise)))
            running = survivors(samples, effort)
        missed += leader(samples) != configs[0]
    return missed / runs


SPREAD = [100.0 * (1 + 0.1 * i) for i in range(20)]
CROWD = [100.0] + [110.0] * 19


@pytest.mark.parametrize(
    ("effort", "spread", "spiked", "crowd"),
    [(QUICK, 0.02, 0.16, 0.14), (NORMAL, 0.02, 0.13, 0.10), (THOROUGH, 0.01, 0.07, 0.05)],
)
def test_races_miss_the_true_best_no_more_often_than_stated(
    effort: Effort, spread: float, spiked: float, crowd: float
) -> None:
    """What a miss costs is the distance to the next: 10 % in all of these fields."""
    runs = 200
    for times_us, noise, spikes, stated in (
        (SPREAD, 0.05, 0.0, spread),
        (SPREAD, 0.1, 0.02, spiked),
        (CROWD, 0.05, 0.0, crowd),
    ):
        missed = misses(effort, times_us, noise=noise, spikes=spikes, runs=runs)
        assert missed <= stated + 3 * math.sqrt(stated / runs), (noise, spikes)


def test_a_large_message_with_spikes_keeps_its_best() -> None:
    """Samples of 20 ms and more are judged after one round; a spike of ten then costs a candidate its place."""
    missed = misses(QUICK, [200 * t for t in SPREAD], noise=0.02, spikes=0.01, runs=100)
    assert missed <= 0.03 + 3 * math.sqrt(0.03 / 100)
