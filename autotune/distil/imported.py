"""Figures of others' logs -> a table of their own, never part of a measured one. Pure.

In:  trials that hold figures of logs, the library's own rules. Out: a `TuningTable` of evidence ``imported``.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..measure import MIN_GAIN, median_interval
from ..table import DefaultRules, Rule, TuningTable
from ..types import Config, Evidence, Problem, RuleKey, Trial, TrialState
from .ranges import size_ranges

_INTERVAL_FROM = 6  # values; below, no interval of 95 % exists
IMPORTED_TEST = (
    "none: figures of logs, not paired; the lowest median, but the default (else what won at the next smaller size) "
    f"stays unless another is {MIN_GAIN:g} times as fast and, from {_INTERVAL_FROM} figures on, the intervals are apart"
)
"""How a table of imported figures is decided, in words."""


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
            default = defaults.lookup(key, size)
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
