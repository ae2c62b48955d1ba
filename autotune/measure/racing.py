"""Who leads a race, who has lost it, and how much effort a run spends on it. Standard library only.

In:  samples of the race rounds, by config and round.
Out: the leader, who stays, and the `Effort` values that a plan names.

The race only has to keep good candidates and be cheap. Whether the one it picks replaces the default is decided on
other rounds (`paired.significantly_faster`), so its errors cost speed, never truth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..types import Config, Phase, Sample, SampleKind, Trial, TrialState
from .paired import MIN_ROUNDS

UNANIMOUS_ROUNDS = 5
TICK_US = 4000.0

Race = Mapping[Config, Mapping[int, Sample]]
"""Samples of the race, by config and round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How many rounds a cell gets.

    Args:
        name: the word in a plan.
        limits: in its r-th round a candidate is out if it is more than limits[r - 1] times slower than the leader.
        keep: the most candidates that stay once the limits are used up.
        race_rounds: rounds for those that stay to the end.
        confirm_rounds: fresh rounds of winner, default and reference; down to nine of them when time is short.
        steady_rounds: rounds on unchanged buffers, for the report.
    """

    name: str
    limits: tuple[float, ...]
    keep: int
    race_rounds: int
    confirm_rounds: int
    steady_rounds: int = 3

    def __post_init__(self) -> None:
        if min(self.race_rounds, self.confirm_rounds) < MIN_ROUNDS or self.keep < 1 or self.steady_rounds < 0:
            raise ValueError(f"an effort has {MIN_ROUNDS} rounds or more and keeps someone: {self}")
        if any(limit <= 1.0 for limit in self.limits):
            raise ValueError(f"limits {self.limits} would drop candidates that are as fast as the leader")


QUICK = Effort(name="quick", limits=(2.0, 1.5, 1.3), keep=4, race_rounds=9, confirm_rounds=15)
NORMAL = Effort(name="normal", limits=(2.0, 1.5, 1.3), keep=6, race_rounds=9, confirm_rounds=15)
THOROUGH = Effort(name="thorough", limits=(3.0, 2.0, 1.5), keep=12, race_rounds=15, confirm_rounds=25)
EFFORTS: Mapping[str, Effort] = {effort.name: effort for effort in (QUICK, NORMAL, THOROUGH)}


def race_of(trials: Iterable[Trial]) -> dict[Config, dict[int, Sample]]:
    """The race that the trials of one problem and session ran. A trial that failed has left it, with its samples."""
    return {
        trial.config: {s.round: s for s in trial.samples if s.phase is Phase.RACE and s.kind is SampleKind.FRESH}
        for trial in trials
        if trial.state is TrialState.OK
    }


def survivors(race: Race, effort: Effort) -> tuple[Config, ...]:
    """Who runs in the next round, fastest first; empty if nobody ran yet.

    A pure function of the samples, so that an interrupted race goes on as if nothing had happened. Those without a
    sample in the last round had left before. (If everybody who was left has failed, the ones that left last come back.)
    """
    last = max((r for rounds in race.values() for r in rounds), default=None)
    running = {config: rounds for config, rounds in race.items() if last in rounds}
    if not running:
        return ()
    score = scores(running)
    ranked = sorted(score, key=lambda config: (score[config], str(config)))
    best = running[ranked[0]]
    stay = [c for c in ranked if running[c] is best or not clearly_worse(running[c], best, effort.limits)]
    if len(best) >= len(effort.limits):
        stay = stay[: effort.keep]
    newcomers = [c for c in running if c not in score and not clearly_worse(running[c], best, effort.limits)]
    return (*stay, *newcomers)


def leader(race: Race) -> Config:
    """The fastest of the configs that ran at least nine rounds (or the most, if nobody did).

    They are compared over the rounds that all of them ran, by the median of log time less the round's mean: a slow
    phase of the host falls on a whole round and cancels. An exact tie goes to the first by name.

    Raises:
        ValueError: nobody ran, or no round is common to all.
    """
    score = scores(race)
    return min(score, key=lambda config: (score[config], str(config)))


def scores(race: Race) -> dict[Config, float]:
    """Median log time against the round's mean, of the configs that `leader` compares: lower is faster."""
    most = max((len(rounds) for rounds in race.values()), default=0)
    entrants = {config: rounds for config, rounds in race.items() if rounds and len(rounds) >= min(MIN_ROUNDS, most)}
    common = set.intersection(*(set(rounds) for rounds in entrants.values())) if entrants else set()
    if not common:
        raise ValueError("no round is common to the configs of this race")
    logs = {config: {r: math.log(rounds[r].time_us) for r in common} for config, rounds in entrants.items()}
    means = {r: statistics.fmean(times[r] for times in logs.values()) for r in common}
    return {config: statistics.median(times[r] - means[r] for r in common) for config, times in logs.items()}


def clearly_worse(candidate: Mapping[int, Sample], best: Mapping[int, Sample], limits: tuple[float, ...]) -> bool:
    """Whether a candidate is out, given its samples and the leader's by round.

    While it has no more than len(limits) rounds: if the lower median of its ratios to the leader is above the limit of
    that many rounds. A single sample counts only as far as one scheduler tick (4 ms) cannot explain it, and of two the
    better one counts, so one disturbed sample drops nobody. Later, from five rounds on: if it was slower in every one.

    Errors. A candidate as fast as the leader falls to the second rule with a probability of 2**-5 = 3 %, whatever the
    noise and however often one looks; a faster one with less. How often a whole race misses the true best, by
    simulation with 20 candidates (tests/measure/test_racing.py): under 1 % where the others are 10, 20, 30 ... % slower
    and noise is 5 % a sample, 7 % with noise of 10 % and spikes in one sample of fifty; 3 % where all the others are
    exactly 10 % slower and noise is 5 %.
    """
    common = sorted(candidate.keys() & best.keys())
    ratios = [candidate[r].time_us / best[r].time_us for r in common]
    if len(ratios) == 1:
        sample = candidate[common[0]]
        ratios[0] -= TICK_US / sample.batch_calls / best[common[0]].time_us
    if len(ratios) <= len(limits):
        return bool(ratios) and statistics.median_low(ratios) > limits[len(ratios) - 1]
    return len(ratios) >= UNANIMOUS_ROUNDS and min(ratios) > 1.0
