"""Who leads a race, who has lost it, and how much effort a run spends on it. Standard library only.

In:  samples of the race rounds, by config and round.
Out: the leader, who stays, and the `Effort` values that a plan names.

The race only has to keep good candidates and be cheap. Whether the one it picks replaces the default is decided on
other rounds (`sequential.standing`), so its errors cost speed, never truth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..types import Config, Phase, Sample, SampleKind, Trial, TrialState
from .paired import MIN_ROUNDS
from .sequential import bound

RACE_ALPHA = 0.05
"""How often a race may drop a config that is as fast as its leader, over all rounds and all configs of a cell."""
FIRST_LIMIT = 2.0
"""One sample drops nobody who is not this many times slower than the leader: there is no noise to compare with yet."""
SETTLED_ROUNDS = 3
"""Rounds from which on a config may lead, and of whom no more than `Effort.keep` stay."""
_POLISHES = 4
TICK_US = 4000.0
_USUAL_NOISE, _USUAL_WEIGHT = 0.07, 4  # of a log ratio, on a host that does other things as well; counts as 4 residuals

Race = Mapping[Config, Mapping[int, Sample]]
"""Samples of the race, by config and round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How many configs and rounds a cell gets.

    Args:
        name: the word in a plan.
        entrants: the most configs that a search lets into the race, or an eighth of all where that is more; None for
            all, whatever the search says.
        few_entrants: the same where a cell has few configs, of which a wrong forecast would leave out too large a part.
        drops: whether those that are clearly worse leave the race.
        keep: the most that stay after three rounds.
        race_rounds: of those that stay to the end of the race.
        confirm_rounds: fresh rounds of winner and default, up to the next look; nine when time is short.
        most_rounds: what a decision that is still open gets at most, if the time allows.
        steady_rounds: rounds on unchanged buffers, for the report.
    """

    name: str
    entrants: int | None
    few_entrants: int | None
    keep: int
    race_rounds: int
    confirm_rounds: int
    most_rounds: int
    steady_rounds: int = 3
    drops: bool = True

    def __post_init__(self) -> None:
        if self.confirm_rounds < MIN_ROUNDS or self.race_rounds < 1 or self.keep < 1 or self.steady_rounds < 0:
            raise ValueError(f"an effort confirms with {MIN_ROUNDS} rounds or more and keeps someone: {self}")
        if self.most_rounds < self.confirm_rounds or 0 in (self.entrants, self.few_entrants):
            raise ValueError(f"an effort lets someone in, and ends after its confirm rounds: {self}")


QUICK = Effort(name="quick", entrants=4, few_entrants=4, keep=3, race_rounds=4, confirm_rounds=9, most_rounds=15)
NORMAL = Effort(name="normal", entrants=5, few_entrants=12, keep=3, race_rounds=5, confirm_rounds=9, most_rounds=42)
THOROUGH = Effort(
    name="thorough", entrants=30, few_entrants=30, keep=8, race_rounds=9, confirm_rounds=15, most_rounds=70
)
EXHAUSTIVE = Effort(
    name="exhaustive",
    entrants=None,
    few_entrants=None,
    keep=1000,
    race_rounds=9,
    confirm_rounds=9,
    most_rounds=42,
    drops=False,
)
EFFORTS: Mapping[str, Effort] = {effort.name: effort for effort in (QUICK, NORMAL, THOROUGH, EXHAUSTIVE)}


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
    running = _last_round(race)
    if not running:
        return ()
    score = scores(running)
    ranked = sorted(score, key=lambda config: (score[config], str(config)))
    if not effort.drops:
        return tuple(ranked)
    best = running[_first(score, running)]
    scale, alpha = noise_of(running.values(), best), RACE_ALPHA / len(race)
    stay = [c for c in ranked if running[c] is best or not clearly_worse(running[c], best, scale=scale, alpha=alpha)]
    settled = [config for config in stay if len(running[config]) >= SETTLED_ROUNDS]
    return tuple(config for config in stay if config not in settled[effort.keep :])


def leader(race: Race) -> Config:
    """The fastest of the configs that ran to the end: in the last round, and three times if anybody did.

    An exact tie goes to the first by name.

    Raises:
        ValueError: nobody ran.
    """
    running = _last_round(race)
    if not running:
        raise ValueError("nobody ran in this race")
    return _first(scores(running), running)


def scores(race: Race) -> dict[Config, float]:
    """The log time of each config against the others: lower is faster.

    By median polish (Tukey, Exploratory Data Analysis, 1977): a log time is the config's part plus the round's, so that
    a slow phase of the host, which falls on a whole round, cancels, also where configs ran in different rounds.
    """
    logs = {config: {r: math.log(s.time_us) for r, s in rounds.items()} for config, rounds in race.items() if rounds}
    own = dict.fromkeys(logs, 0.0)
    numbers = sorted({r for rounds in logs.values() for r in rounds})
    for _ in range(_POLISHES):
        shift = {r: statistics.median(rounds[r] - own[c] for c, rounds in logs.items() if r in rounds) for r in numbers}
        own = {c: statistics.median(log - shift[r] for r, log in rounds.items()) for c, rounds in logs.items()}
    return own


def _first(score: Mapping[Config, float], running: Race) -> Config:
    most = max(map(len, running.values()))
    settled = [config for config, rounds in running.items() if len(rounds) >= min(SETTLED_ROUNDS, most)]
    return min(settled, key=lambda config: (score[config], str(config)))


def _last_round(race: Race) -> dict[Config, Mapping[int, Sample]]:
    """Those that ran in the last round, with all their rounds."""
    last = max((r for rounds in race.values() for r in rounds), default=None)
    return {config: rounds for config, rounds in race.items() if last in rounds}


def noise_of(running: Iterable[Mapping[int, Sample]], best: Mapping[int, Sample]) -> float:
    """The scale of a log ratio to the leader, from how much the ratios of all configs vary between rounds.

    By the median absolute deviation, which single disturbed samples do not move; few residuals are mixed with what is
    usual.
    """
    residuals: list[float] = []
    for rounds in running:
        ratios = [] if rounds is best else _log_ratios(rounds, best)
        if len(ratios) > 1:
            middle, widen = statistics.fmean(ratios), math.sqrt(len(ratios) / (len(ratios) - 1))
            residuals += [abs(ratio - middle) * widen for ratio in ratios]
    seen = 1.4826 * statistics.median(residuals) if residuals else 0.0
    weight = len(residuals)
    return math.sqrt((weight * seen**2 + _USUAL_WEIGHT * _USUAL_NOISE**2) / (weight + _USUAL_WEIGHT))


def clearly_worse(candidate: Mapping[int, Sample], best: Mapping[int, Sample], *, scale: float, alpha: float) -> bool:
    """Whether a candidate is out, given its samples and the leader's by round.

    With one round in common: if it is more than twice as slow, and one scheduler tick (4 ms) cannot explain that.
    Later, if its mean log ratio to the leader, without the highest (a disturbed sample drops nobody), is above the
    bound that holds for all rounds at once (`sequential.bound`).

    Errors. Where log ratios are normal with that scale, a candidate as fast as the leader is ever dropped with a
    probability of at most `alpha`. How often a whole race misses the true best, by simulation with 20 candidates, 10 %
    apart (tests/measure/test_racing.py): with noise of 5 % in at most 2 %, with noise of 10 % and spikes in one sample
    of fifty in 16 % (quick), 13 % (normal), 7 % (thorough).
    """
    ratios = _log_ratios(candidate, best)
    if len(ratios) == 1:
        (common,) = candidate.keys() & best.keys()
        sample = candidate[common]
        tick = TICK_US / sample.batch_calls / best[common].time_us
        return sample.time_us / best[common].time_us - tick > FIRST_LIMIT
    if not ratios:
        return False
    kept = sorted(ratios)[:-1]
    return statistics.fmean(kept) > bound(len(ratios), scale, alpha)


def _log_ratios(candidate: Mapping[int, Sample], best: Mapping[int, Sample]) -> list[float]:
    common = sorted(candidate.keys() & best.keys())
    return [math.log(candidate[r].time_us / best[r].time_us) for r in common]
