"""The rules of a table as claims that can be measured again. Reads the store; measures nothing.

In:  a table, the trials that prove it where they are at hand. Out: `Claim` values, in the order in which they are
measured. May not touch: backends, but for what they would try.
"""

from __future__ import annotations

import math

from ..db import TrialStore
from ..errors import StoreError
from ..measure import Backend
from ..table import Rule, TuningTable
from ..types import Config, Evidence, Problem, RuleKey, Trial, round_up_message
from .recheck import Claim


def claims_of(table: TuningTable, store: TrialStore, backend: Backend) -> list[Claim]:
    """The measured rules of the backend: rank counts outermost, so that a pool of ranks serves many, sizes ascending.

    A rule is measured at the size that its trials have; without them at the middle of its range. A default that was
    kept is measured against what the trials name beside it, else against the reference. Rules with an error budget are
    left out: what they are worth depends on data that the table does not hold.
    """
    lossless = [key for key in table.rules if key.backend == backend.name and key.max_error is None]
    keys = sorted(lossless, key=lambda key: key.n_ranks)
    return [
        _claim(key, rule, _trials(rule, key, store), backend)
        for key in keys
        for rule in table.rules[key]
        if rule.evidence is Evidence.MEASURED
    ]


def _claim(key: RuleKey, rule: Rule, trials: list[Trial], backend: Backend) -> Claim:
    size = trials[0].problem.message_bytes if trials else _middle(key, rule)
    problem = Problem(key=key, message_bytes=size)
    default, reference = backend.default(problem), backend.reference(problem)
    opponent: Config | None = default
    if rule.is_default:
        others = [trial.config for trial in trials if trial.config not in (default, reference)]
        opponent = next(iter(others), reference if reference != default else None)
    return Claim(problem=problem, rule=rule, default=default, opponent=opponent)


def _trials(rule: Rule, key: RuleKey, store: TrialStore) -> list[Trial]:
    """Those that the rule names; none where the store does not have all of them, for this key and range."""
    found: list[Trial] = []
    for trial_id in rule.trial_ids:
        try:
            found.append(store.trial(trial_id))
        except StoreError:
            return []
    sizes = {trial.problem.message_bytes for trial in found}
    own = all(trial.problem.key == key and rule.from_bytes <= size < rule.to_bytes for trial in found for size in sizes)
    return found if own and len(sizes) == 1 else []


def _middle(key: RuleKey, rule: Rule) -> int:
    last = rule.to_bytes - 1
    size = max(rule.from_bytes, math.isqrt(max(1, rule.from_bytes) * last))
    rounded = round_up_message(key.collective, size, key.n_ranks, key.dtype.itemsize if key.dtype else 1)
    return rounded if rounded <= last else rule.from_bytes
