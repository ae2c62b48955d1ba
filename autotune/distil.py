"""Trials -> tuning table: the only place where a measurement becomes a decision. Pure.

In:  trials of any sessions, the default's rules, the reference that gains are also reported against.
Out: a `Verdict` for each cell, and the `TuningTable` made of them. Figures of logs become a table of their own
(`distil_imported`), never part of a measured one.
May not touch: stores, clocks, files.

One rule for each measured size: its figures are those of exactly that size, and `explain` can show the trials behind
it. Neighbouring sizes do not flap between equal configs: the default stays unless a config is significantly better, and
ranges whose configs are statistically equal get the same one, so that they are one range to whoever reads decisions. A
range ends at the geometric mean of two measured sizes.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .measure import (
    MIN_GAIN,
    MIN_ROUNDS,
    TEST,
    Comparison,
    Interval,
    Standing,
    leader,
    median_interval,
    paired_ratio,
    race_of,
    scores,
    sequential_ratio,
    standing,
)
from .table import DefaultRules, Rule, TuningTable
from .types import Config, Evidence, Phase, Problem, RuleKey, Sample, SampleKind, Trial, TrialState

_INTERVAL_FROM = 6  # values; below, no interval of 95 % exists
IMPORTED_TEST = (
    "none: figures of logs, not paired; the lowest median, but the default (else what won at the next smaller size) "
    f"stays unless another is {MIN_GAIN:g} times as fast and, from {_INTERVAL_FROM} figures on, the intervals are apart"
)
"""How a table of imported figures is decided, in words."""


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
    proved = [c for c in itertools.takewhile(lambda c: standing(gains[c]) is Standing.FASTER, gains)]
    first = next(iter(gains), None)
    still_open = first if first is not None and standing(gains[first]) is Standing.OPEN else None
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
            challenger=still_open,
            challenger_gain=None if still_open is None else gains[still_open],
        )

    equals = [c for c in proved if c != config and _as_good(confirm[c], confirm[config])]
    return replace(verdict(config, winner), equals=tuple(verdict(c, c) for c in equals))


def verdicts(
    trials: Iterable[Trial],
    *,
    default: Callable[[Problem], Config],
    reference: Callable[[Problem], Config | None],
) -> dict[Problem, Verdict]:
    """Decide every cell: by the newest session that got as far. Samples of different sessions are never mixed.

    Where neighbouring sizes chose different configs that are equals at one of them, both get the same one.
    """
    cells: defaultdict[tuple[int, Problem], list[Trial]] = defaultdict(list)
    for trial in trials:
        cells[trial.session_id, trial.problem].append(trial)
    found: dict[Problem, Verdict] = {}
    for (_, problem), cell in sorted(cells.items(), key=lambda item: item[0][0]):
        verdict = judge(cell, default=default(problem), reference=reference(problem))
        if verdict is not None:
            found[problem] = verdict
    by_key: defaultdict[RuleKey, list[Verdict]] = defaultdict(list)
    for verdict in found.values():
        by_key[verdict.problem.key].append(verdict)
    for of_key in by_key.values():
        found |= {verdict.problem: verdict for verdict in merged(of_key)}
    return found


def deciding(
    cells: Iterable[tuple[Problem, Iterable[list[Trial]]]],
    *,
    default: Callable[[Problem], Config],
    reference: Callable[[Problem], Config | None],
) -> Iterator[Trial]:
    """Of each problem, the trials that `verdicts` goes by: of the newest session that decides it.

    Args:
        cells: problems with the trials of each session, newest first, as a store gives them; those of older sessions
            are not asked for, so that a store of many runs is not read whole.
    """
    for problem, newest_first in cells:
        for trials in newest_first:
            if judge(trials, default=default(problem), reference=reference(problem)) is not None:
                yield from trials
                break


def merged(of_key: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts of one key by size, with as few changes of config as equals allow.

    A range of sizes takes over its neighbour's config where that is the equal of the choice at every size of the range.
    """
    ordered = sorted(of_key, key=lambda verdict: verdict.problem.message_bytes)
    ranges = [list(run) for _, run in itertools.groupby(ordered, key=lambda verdict: verdict.config)]
    at = 0
    while at + 1 < len(ranges):
        left, right = ranges[at], ranges[at + 1]
        joined = _taking(left[0].config, right)
        if joined is not None:
            joined = [*left, *joined]
        elif (others := _taking(right[0].config, left)) is not None:
            joined = [*others, *right]
        if joined is None:
            at += 1
            continue
        ranges[at : at + 2] = [joined]
        at = max(0, at - 1)
    return [verdict for run in ranges for verdict in run]


def _taking(config: Config, run: Sequence[Verdict]) -> list[Verdict] | None:
    """These verdicts with another config; None where it is not the equal of all their choices."""
    taken = [other for verdict in run if (other := verdict.may_be(config)) is not None]
    return taken if len(taken) == len(run) else None


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


def distil(
    trials: Iterable[Trial],
    *,
    defaults: DefaultRules,
    reference: Callable[[Problem], Config | None],
    fingerprint: str,
    environment: Mapping[str, str],
    created_at: str,
    host_fingerprints: tuple[str, ...] = (),
    evidence: Evidence = Evidence.MEASURED,
) -> TuningTable:
    """The table that the trials prove. Trials of another backend than the defaults' are left out.

    Args:
        created_at: UTC, as ``2026-01-31T12:00:00Z``.
    """

    def default(problem: Problem) -> Config:
        return defaults.lookup(problem.key.collective, problem.key.n_ranks, problem.message_bytes, problem.key.memory)

    own = (trial for trial in trials if trial.problem.key.backend == defaults.backend)
    by_key: defaultdict[RuleKey, list[Verdict]] = defaultdict(list)
    for problem, verdict in verdicts(own, default=default, reference=reference).items():
        by_key[problem.key].append(verdict)
    rules: dict[RuleKey, tuple[Rule, ...]] = {}
    for key, found in by_key.items():
        found.sort(key=lambda verdict: verdict.problem.message_bytes)
        ranges = size_ranges([verdict.problem.message_bytes for verdict in found])
        rules[key] = tuple(_rule(v, sizes, evidence) for v, sizes in zip(found, ranges, strict=True))
    return TuningTable(
        fingerprint=fingerprint,
        host_fingerprints=host_fingerprints,
        environment=environment,
        created_at=created_at,
        test=TEST,
        rules=rules,
        defaults=defaults,
    )


def distil_imported(
    trials: Iterable[Trial],
    *,
    defaults: DefaultRules,
    fingerprint: str,
    environment: Mapping[str, str],
    created_at: str,
) -> TuningTable:
    """The table that figures of others suggest: evidence ``imported``, by `IMPORTED_TEST`.

    Of several trials of one config on one problem the newest session's counts. The interval of a rule is that of its
    repetitions; below six there is none, and lowest and highest stand in its place, both the figure itself where it is
    a single one.
    """
    newest: dict[tuple[Problem, Config], Trial] = {}
    for trial in sorted(trials, key=lambda trial: trial.session_id):
        if trial.problem.key.backend == defaults.backend:
            newest[trial.problem, trial.config] = trial
    cells: defaultdict[RuleKey, defaultdict[int, dict[Config, Trial]]] = defaultdict(lambda: defaultdict(dict))
    for (problem, config), trial in newest.items():
        if trial.state is TrialState.OK:
            cells[problem.key][problem.message_bytes][config] = trial
    rules: dict[RuleKey, tuple[Rule, ...]] = {}
    for key, by_size in cells.items():
        sizes = sorted(by_size)
        found: list[Rule] = []
        for size, span in zip(sizes, size_ranges(sizes), strict=True):
            default = defaults.lookup(key.collective, key.n_ranks, size, key.memory)
            found.append(_imported_rule(by_size[size], span, default, found[-1].config if found else None))
        rules[key] = tuple(found)
    return TuningTable(
        fingerprint=fingerprint,
        environment=environment,
        created_at=created_at,
        test=IMPORTED_TEST,
        rules=rules,
        defaults=defaults,
    )


def size_ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Half-open ranges around distinct ascending sizes, without gap or overlap.

    The first begins at its size, the last ends one byte after its; between two sizes the border is their geometric mean
    (rounded down, but above the smaller).
    """
    borders = [max(a + 1, math.isqrt(a * b)) for a, b in itertools.pairwise(sizes)]
    return list(zip([sizes[0], *borders], [*borders, sizes[-1] + 1], strict=True))


def _imported_rule(
    trials: Mapping[Config, Trial], sizes: tuple[int, int], default: Config, before: Config | None
) -> Rule:
    times = {config: _spread([sample.time_us for sample in trial.samples]) for config, trial in trials.items()}
    best = min(times, key=lambda config: (times[config].median, str(config)))
    kept = next((config for config in (default, before) if config in times), best)
    config = best if kept != best and _apart(times[best], times[kept]) else kept
    time = times[config]
    over = times.get(default) if config != default else None
    ids = [trials[c].trial_id for c in (config, *sorted(times.keys() - {config}, key=str))]
    return Rule(
        from_bytes=sizes[0],
        to_bytes=sizes[1],
        config=config,
        evidence=Evidence.IMPORTED,
        is_default=config == default,
        n_rounds=time.n_values,
        median_us=time.median,
        low_us=time.low,
        high_us=time.high,
        gain=None if over is None else over.median / time.median,
        gain_low=None if over is None else over.low / time.high,
        gain_high=None if over is None else over.high / time.low,
        trial_ids=tuple(trial_id for trial_id in ids if trial_id is not None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """A median between a low and a high: the interval's ends, or the extremes of values too few for one."""

    n_values: int
    median: float
    low: float
    high: float
    is_interval: bool


def _spread(values: Sequence[float]) -> _Spread:
    if len(values) < _INTERVAL_FROM:
        low, high = min(values), max(values)
        return _Spread(n_values=len(values), median=statistics.median(values), low=low, high=high, is_interval=False)
    found = median_interval(values)
    assert found.low is not None, "six values have an interval"
    assert found.high is not None, "six values have an interval"
    return _Spread(n_values=len(values), median=found.median, low=found.low, high=found.high, is_interval=True)


def _apart(challenger: _Spread, kept: _Spread) -> bool:
    overlap = challenger.is_interval and kept.is_interval and challenger.high >= kept.low
    return kept.median >= MIN_GAIN * challenger.median and not overlap


def _confirm_samples(trial: Trial) -> list[Sample]:
    return [s for s in trial.samples if s.phase is Phase.CONFIRM and s.kind is SampleKind.FRESH]


def _rule(verdict: Verdict, sizes: tuple[int, int], evidence: Evidence) -> Rule:
    gain = None if verdict.is_default else verdict.gain
    low_us, high_us = verdict.time_us.low, verdict.time_us.high
    assert low_us is not None, "nine rounds have an interval"
    assert high_us is not None, "nine rounds have an interval"
    return Rule(
        from_bytes=sizes[0],
        to_bytes=sizes[1],
        config=verdict.config,
        evidence=evidence,
        is_default=verdict.is_default,
        n_rounds=verdict.time_us.n_values if gain is None else gain.n_rounds,
        median_us=verdict.time_us.median,
        low_us=low_us,
        high_us=high_us,
        gain=None if gain is None else gain.median,
        gain_low=None if gain is None else gain.low,
        gain_high=None if gain is None else gain.high,
        ring_gain=None if verdict.reference_gain is None else verdict.reference_gain.median,
        trial_ids=verdict.trial_ids,
    )
