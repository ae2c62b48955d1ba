"""Why a call gets its config: the rule, the trials behind it, and why the default was or was not kept. Pure.

In:  the rule that decides, and the trials of the session and problem that prove it. Out: an `Explanation`. Every figure
comes from the stored samples again, by the same functions that made the table.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from ..distil import Verdict, judge
from ..kernels.error_bound import ErrorBound, error_bound
from ..measure import Comparison, Interval, median_interval, paired_ratio
from ..table import Rule, TuningTable
from ..topology.host_rates import ENVIRONMENT as SLOW_HOSTS
from ..types import Config, Fidelity, Phase, Problem, Sample, SampleKind, Trial, TrialState
from .figures import comparison_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One config that was tried.

    Args:
        roles: of ``chosen``, ``winner``, ``default``, ``ring``.
        time_us: of the confirm rounds, or of the race where it did not get so far; None without a sample.
        slower: its time over the chosen config's, in the confirm rounds that both ran, or else in the race; None for
            the chosen one, and where they ran in no round together.
        steady_us: median on unchanged buffers.
    """

    trial: Trial
    roles: tuple[str, ...]
    n_race: int
    n_confirm: int
    n_steady: int
    time_us: Interval | None
    slower: Comparison | None
    steady_us: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The trials behind a rule: every config of one problem and session.

    Args:
        note: where they are, or why they are not at hand.
    """

    trials: tuple[Trial, ...] = ()
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer to ``autotune explain``.

    Args:
        problem: the call that was asked about.
        config: what it gets.
        reason: in a sentence.
        rule: that decides; None where the default does.
        why_default: why the default was or was not kept; empty without trials.
        error_bound: of a lossy config; None where it is lossless.
        candidates: chosen first, then by how long they stayed in the race and how fast they were; failed ones last.
        note: about the trials; empty without a rule.
        last_hosts: hosts that stand last in every schedule since their links were slow, in words; None for none, and
            for ranks of one host or two, of which neither is the slow one.
    """

    problem: Problem
    config: Config
    reason: str
    rule: Rule | None
    why_default: str
    error_bound: ErrorBound | None
    candidates: tuple[Candidate, ...]
    note: str
    last_hosts: str | None = None

    @property
    def fidelity(self) -> Fidelity | None:
        """What the chosen config was off by on the data of its trial; None where that is not at hand."""
        return next((c.trial.fidelity for c in self.candidates if "chosen" in c.roles), None)

    @property
    def measured_bytes(self) -> int | None:
        """The size that was measured for the rule; None where the trials are not at hand."""
        return self.candidates[0].trial.problem.message_bytes if self.candidates else None


def rule_for(table: TuningTable, problem: Problem, config: Config | None = None) -> Rule | None:
    """The rule that holds the size (and gives the config): of those within the error budget, the largest one's."""
    budget = problem.key.max_error or 0.0
    keys = [key for key in table.rules if replace(key, max_error=problem.key.max_error) == problem.key]
    for key in sorted(keys, key=lambda key: -(key.max_error or 0.0)):
        for rule in table.rules[key]:
            fits = rule.from_bytes <= problem.message_bytes < rule.to_bytes and (key.max_error or 0.0) <= budget
            if fits and config in (None, rule.config):
                return rule
    return None


def explain_choice(
    problem: Problem,
    *,
    config: Config,
    reason: str,
    rule: Rule | None,
    proof: Proof | None,
    table: TuningTable,
    reference: Config,
) -> Explanation:
    """Judge the rule's trials again.

    Args:
        proof: None where there is no rule.
        reference: what gains are also reported against.
    """
    trials = () if proof is None else proof.trials
    candidates: list[Candidate] = []
    why_default = ""
    if trials:
        measured = trials[0].problem
        default = table.defaults.lookup(measured.key, measured.message_bytes)
        verdict = judge(trials, default=default, reference=reference)
        roles = {"chosen": config, "default": default, "ring": reference}
        if verdict is not None:
            roles["winner"] = verdict.winner
            why_default = _why(verdict, table.test)
        chosen = next((trial for trial in trials if trial.config == config and trial.state is TrialState.OK), None)
        for trial in trials:
            candidates.append(_candidate(trial, chosen, {role for role, own in roles.items() if own == trial.config}))
    return Explanation(
        problem=problem,
        config=config,
        reason=reason,
        rule=rule,
        why_default=why_default,
        error_bound=error_bound(problem.key.collective, config, problem.key.placement, problem.timed_dtype),
        candidates=tuple(sorted(candidates, key=_place)),
        note="" if proof is None else proof.note,
        last_hosts=table.environment.get(SLOW_HOSTS) if len(problem.key.placement) > 2 else None,
    )


def _candidate(trial: Trial, chosen: Trial | None, roles: set[str]) -> Candidate:
    race, confirm = _samples(trial, Phase.RACE), _samples(trial, Phase.CONFIRM)
    steady = _samples(trial, Phase.CONFIRM, SampleKind.STEADY)
    fresh = confirm or race
    return Candidate(
        trial=trial,
        roles=tuple(name for name in ("chosen", "winner", "default", "ring") if name in roles),
        n_race=len(race),
        n_confirm=len(confirm),
        n_steady=len(steady),
        time_us=median_interval([sample.time_us for sample in fresh]) if fresh else None,
        slower=None if chosen is None or trial is chosen else _slower(trial, chosen),
        steady_us=statistics.median(sample.time_us for sample in steady) if steady else None,
    )


def _slower(trial: Trial, chosen: Trial) -> Comparison | None:
    for phase in (Phase.CONFIRM, Phase.RACE):
        theirs, ours = _samples(trial, phase), _samples(chosen, phase)
        if {sample.round for sample in theirs} & {sample.round for sample in ours}:
            return paired_ratio(theirs, ours)
    return None


def _samples(trial: Trial, phase: Phase, kind: SampleKind = SampleKind.FRESH) -> list[Sample]:
    return [sample for sample in trial.samples if sample.phase is phase and sample.kind is kind]


def _place(candidate: Candidate) -> tuple[object, ...]:
    """Who stayed in the race longer stands higher: a single sample says little against many."""
    failed = candidate.trial.state is not TrialState.OK
    slower = math.inf if candidate.slower is None else candidate.slower.median
    stayed = (candidate.n_confirm == 0, -candidate.n_race)
    return (failed, "chosen" not in candidate.roles, *stayed, slower, str(candidate.trial.config))


def _why(verdict: Verdict, test: str) -> str:
    if verdict.gain is None:
        return f"{verdict.default} won the race itself"
    gain = f"{comparison_text(verdict.gain)} as fast in {verdict.gain.n_rounds} paired rounds"
    gain += f", p = {verdict.gain.p_value:.2g}"
    if verdict.lost_again:
        gain += ", and no faster once the ranks had been started anew"
    if verdict.is_default:
        return f"{verdict.default} stays: {verdict.winner} won the race, but then was {gain}. The test: {test}"
    return f"{verdict.default} was replaced by {verdict.winner}, which was {gain}. The test: {test}"
