"""Verdicts -> tuning table: one rule for each measured size, with exactly its figures. Pure.

In:  what was decided (or the trials that decide it), the default's rules, where and when it was measured.
Out: a `TuningTable`. May not touch: stores, clocks, files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from ..measure import TEST
from ..table import DefaultRules, Rule, TuningTable
from ..types import Config, Evidence, Problem, RuleKey, Trial
from .cells import verdicts
from .ranges import size_ranges
from .verdict import Verdict


def table_of(
    decided: Iterable[Verdict],
    *,
    defaults: DefaultRules,
    fingerprint: str,
    environment: Mapping[str, str],
    created_at: str,
    host_fingerprints: tuple[str, ...] = (),
    evidence: Evidence = Evidence.MEASURED,
) -> TuningTable:
    """The table of what was decided. Verdicts of another backend than the defaults' are left out.

    Args:
        decided: one verdict a problem.
        created_at: UTC, as ``2026-01-31T12:00:00Z``.
    """
    by_key: defaultdict[RuleKey, list[Verdict]] = defaultdict(list)
    for verdict in decided:
        if verdict.problem.key.backend == defaults.backend:
            by_key[verdict.problem.key].append(verdict)
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
    """The table that the trials prove, where the default is the one that the table itself states."""

    def default(problem: Problem) -> Config:
        return defaults.lookup(problem.key, problem.message_bytes)

    own = (trial for trial in trials if trial.problem.key.backend == defaults.backend)
    return table_of(
        verdicts(own, default=default, reference=reference).values(),
        defaults=defaults,
        fingerprint=fingerprint,
        environment=environment,
        created_at=created_at,
        host_fingerprints=host_fingerprints,
        evidence=evidence,
    )


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
