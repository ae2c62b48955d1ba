"""One problem, decided from what one session measured of it. Pure.

In:  a cell's trials, the default, the reference. Out: a `Verdict`, or that the session did not get as far.
May not touch: other cells, tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..measure import (
    MIN_GAIN,
    MIN_ROUNDS,
    Comparison,
    Interval,
    Standing,
    holds_again,
    leader,
    median_interval,
    paired_ratio,
    race_of,
    scores,
    sequential_ratio,
    standing,
)
from ..types import Config, Phase, Problem, Sample, SampleKind, Trial, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one session decided for one problem.

    Args:
        config: the choice: the default, unless a challenger proved significantly faster.
        winner: the config that replaced the default; else the winner of the race, which may be the default itself.
        time_us: of the choice, over its confirm rounds.
        gain: of the winner over the default; None where the winner is the default.
        reference_gain: of the choice over the reference, where they ran together; a few rounds, for reports.
        trial_ids: of choice, winner, default and reference.
        lost_again: the winner was no faster once the ranks had been started anew, so that the default stays.
        challenger: a config that more rounds might still show to be faster than the default; None where it is settled.
        challenger_gain: its gain over the default so far.
        equals: what the verdict would be with another config that proved faster than the default as well, and that is
            not significantly slower than the choice, nor by more than is worth a change.
    """

    problem: Problem
    config: Config
    winner: Config
    default: Config
    time_us: Interval
    gain: Comparison | None
    reference_gain: Comparison | None
    trial_ids: tuple[int, ...]
    lost_again: bool = False
    challenger: Config | None = None
    challenger_gain: Comparison | None = None
    equals: tuple[Verdict, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.config == self.default

    @property
    def at_stake(self) -> float:
        """The share of the default's time that may still be lost by keeping it; 0 where the decision is settled."""
        gain = self.challenger_gain
        return 0.0 if gain is None or gain.high is None else max(0.0, 1.0 - 1.0 / gain.high)

    def may_be(self, config: Config) -> Verdict | None:
        """The verdict with this config in place of the choice, where the two are equals."""
        return next((v for v in (self, *self.equals) if v.config == config), None)


def judge(trials: Iterable[Trial], *, default: Config, reference: Config | None) -> Verdict | None:
    """Decide a cell from one session's trials of it; None if that session did not get as far.

    Race rounds say who the winner is; whether it beats the default is tested on confirm rounds alone, which were
    measured afterwards and so are free of the luck that won the race.
    """
    passed = {trial.config: trial for trial in trials if trial.state is TrialState.OK}
    confirm = {config: _confirm_samples(trial) for config, trial in passed.items()}
    if len(confirm.get(default, ())) < MIN_ROUNDS or not any(race_of(passed.values()).values()):
        return None
    winner = leader(race_of(passed.values()))
    if len(confirm[winner]) < MIN_ROUNDS:
        return None
    # All that ran in the confirm rounds are tested, in the order of the race: where a neighbour's winner beats the
    # default, keeping that would be a loss.
    order = [config for config in _in_race_order(passed.values()) if config != default]
    found = {config: sequential_ratio(confirm[default], confirm[config]) for config in order}
    gains = {config: gain for config, gain in found.items() if gain is not None}
    held = {config for config in gains if holds_again(confirm[default], confirm[config])}
    proved = [c for c in itertools.takewhile(lambda c: standing(gains[c]) is Standing.FASTER, gains) if c in held]
    first = next(iter(gains), None)
    still_open = first if first in held and standing(gains[first]) is Standing.OPEN else None
    config = max(proved, key=lambda c: gains[c].median) if proved else default
    if proved:
        winner = config

    def verdict(config: Config, winner: Config) -> Verdict:
        beside = confirm.get(reference, []) if reference is not None else []
        named = dict.fromkeys(c for c in (config, winner, default, reference) if c in passed and confirm[c])
        return Verdict(
            problem=passed[config].problem,
            config=config,
            winner=winner,
            default=default,
            time_us=median_interval([sample.time_us for sample in confirm[config]]),
            gain=gains.get(winner),
            reference_gain=_over_reference(beside, confirm[config]),
            trial_ids=tuple(stored for c in named if (stored := passed[c].trial_id) is not None),
            lost_again=winner in gains and winner not in held,
            challenger=still_open,
            challenger_gain=None if still_open is None else gains[still_open],
        )

    equals = [c for c in proved if c != config and _as_good(confirm[c], confirm[config])]
    return replace(verdict(config, winner), equals=tuple(verdict(c, c) for c in equals))


def _in_race_order(trials: Iterable[Trial]) -> list[Config]:
    """Who led the race first, then those that ran to its end, then the others by name: a function of the race alone."""
    race = race_of(trials)
    first, score = leader(race), scores(race)
    last = max(r for rounds in race.values() for r in rounds)
    return sorted(race, key=lambda c: (c != first, last not in race[c], score.get(c, math.inf), str(c)))


def _over_reference(reference: Sequence[Sample], choice: Sequence[Sample]) -> Comparison | None:
    common = {(s.kind, s.round) for s in reference} & {(s.kind, s.round) for s in choice}
    return paired_ratio(reference, choice) if common else None


def _as_good(candidate: Sequence[Sample], choice: Sequence[Sample]) -> bool:
    loss = sequential_ratio(candidate, choice)
    return loss is not None and loss.median < MIN_GAIN and standing(loss) is not Standing.FASTER


def _confirm_samples(trial: Trial) -> list[Sample]:
    return [s for s in trial.samples if s.phase is Phase.CONFIRM and s.kind is SampleKind.FRESH]
