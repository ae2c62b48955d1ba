"""Races: who leads, who leaves, and how often a whole race misses the true best."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from autotune.measure import NORMAL, QUICK, THOROUGH, Effort, clearly_worse, leader, race_of, survivors
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
LIMITS = QUICK.limits


def config(name: str) -> Config:
    return Config(algorithm=name)


def sample(r: int, time_us: float, calls: int = 1) -> Sample:
    return Sample(kind=SampleKind.FRESH, phase=Phase.RACE, round=r, position=0, batch_calls=calls, time_us=time_us)


def rounds(times_us: Sequence[float], calls: int = 1) -> dict[int, Sample]:
    return {r: sample(r, time_us, calls) for r, time_us in enumerate(times_us)}


def race(times: Mapping[str, Sequence[float]]) -> dict[Config, dict[int, Sample]]:
    return {config(name): rounds(values) for name, values in times.items()}


def test_the_leader_is_judged_inside_rounds() -> None:
    """b is faster in every round but ran in one more slow round, so that its median time is the higher one."""
    with_drift = {config("a"): rounds([10, 30, 10]), config("b"): rounds([9, 27, 9, 27, 27])}
    with_drift[config("a")] |= {5: sample(5, 10), 6: sample(6, 10)}
    assert leader(with_drift) == config("b")


def test_one_lucky_sample_does_not_lead() -> None:
    assert leader(race({"a": [10, 10, 10], "b": [1, 11, 11]})) == config("a")


def test_those_that_left_early_do_not_lead() -> None:
    assert leader(race({"a": [10, 10, 10], "left": [8]})) == config("a")


def test_a_tie_goes_to_the_first_by_name() -> None:
    assert leader(race({"b": [5, 5], "a": [5, 5]})) == config("a")


def test_nobody_leads_an_empty_race() -> None:
    with pytest.raises(ValueError, match="no round is common"):
        leader({})
    assert survivors({}, QUICK) == ()


@pytest.mark.parametrize(
    ("candidate", "worse"),
    [
        ([210_000], True),
        ([199_000], False),
        ([140_000, 149_000], False),
        ([151_000, 160_000], True),
        ([1_000_000, 110_000], False),  # of two samples the better one counts
        ([131_000, 131_000, 90_000], True),
        ([129_000, 129_000, 900_000], False),
        ([101_000] * 4, False),  # between the limits and five rounds nobody leaves
        ([101_000] * 5, True),
        ([101_000] * 8 + [99_000], False),
    ],
)
def test_limits_tighten_and_then_unanimity_decides(candidate: list[float], worse: bool) -> None:
    best = rounds([100_000.0] * len(candidate))
    assert clearly_worse(rounds(candidate), best, LIMITS) is worse


@pytest.mark.parametrize(("time_us", "calls", "worse"), [(3900.0, 1, False), (4300.0, 1, True), (390.0, 10, False)])
def test_one_scheduler_tick_drops_nobody(time_us: float, calls: int, worse: bool) -> None:
    assert clearly_worse(rounds([time_us], calls), rounds([100.0], calls), LIMITS) is worse


def test_rounds_that_only_one_of_them_ran_do_not_count() -> None:
    candidate = {7: sample(7, 150.0)}
    assert not clearly_worse(candidate, rounds([100.0] * 3), LIMITS)


def test_after_the_limits_only_the_fastest_stay() -> None:
    times = {f"c{i}": [100.0 + i] * 3 for i in range(9)}
    assert survivors(race(times), QUICK) == tuple(config(f"c{i}") for i in range(QUICK.keep))


def test_newcomers_stay_until_they_are_clearly_worse() -> None:
    running = race({f"c{i}": [100.0 + i] * 4 for i in range(4)})
    running[config("new")] = {3: sample(3, 90.0)}
    running[config("slow")] = {3: sample(3, 90_000.0)}
    stay = survivors(running, QUICK)
    assert config("new") in stay
    assert config("slow") not in stay


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


@pytest.mark.parametrize("bad", [{"race_rounds": 8}, {"confirm_rounds": 8}, {"keep": 0}, {"limits": (2.0, 1.0)}])
def test_efforts_below_nine_rounds_are_refused(bad: dict[str, object]) -> None:
    values: dict[str, object] = {"name": "x", "limits": (2.0,), "keep": 2, "race_rounds": 9, "confirm_rounds": 9}
    with pytest.raises(ValueError, match=r"limits|rounds or more"):
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
        for r in range(effort.race_rounds):
            speed = 3.0 if rng.random() < 0.2 else 1.0
            for c in running:
                spike = 10.0 if rng.random() < spikes else 1.0
                samples[c][r] = sample(r, true_us[c] * speed * spike * math.exp(rng.gauss(0.0, noise)))
            running = survivors(samples, effort)
            if len(running) == 1:
                break
        missed += leader(samples) != configs[0]
    return missed / runs


SPREAD = [100.0 * (1 + 0.1 * i) for i in range(20)]
CROWD = [100.0] + [110.0] * 19


@pytest.mark.parametrize("effort", [QUICK, NORMAL, THOROUGH])
@pytest.mark.parametrize(
    ("times_us", "noise", "spikes", "stated"),
    [(SPREAD, 0.05, 0.0, 0.01), (SPREAD, 0.1, 0.02, 0.07), (CROWD, 0.05, 0.0, 0.03)],
)
def test_races_miss_the_true_best_no_more_often_than_stated(
    effort: Effort, times_us: list[float], noise: float, spikes: float, stated: float
) -> None:
    runs = 400
    missed = misses(effort, times_us, noise=noise, spikes=spikes, runs=runs)
    assert missed <= stated + 3 * math.sqrt(stated / runs)


def test_a_large_message_with_spikes_keeps_its_best() -> None:
    """Samples of 20 ms and more are judged after one round; a spike of ten then costs a candidate its place."""
    missed = misses(QUICK, [200 * t for t in SPREAD], noise=0.02, spikes=0.01, runs=150)
    assert missed <= 0.01 + 3 * math.sqrt(0.01 / 150)
