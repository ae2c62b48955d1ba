"""Whether the rules of a table still hold: each against the default again, in a few rounds.

In:  rules with the problems that they were measured on, a backend, a store with an open session, a budget.
Out: a `Recheck` for each rule; everything measured is in the store. May not touch: the table, which stays as it is.

A rule that left the default has to beat it again, by the test that made it. A rule that kept the default is measured
against what came nearest to it, which must not beat it now. What the session measures decides no table: it has no race.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..db import Session, TrialStore
from ..measure import NORMAL, Backend, Comparison, Standing, rounds_at, sequential_ratio, standing
from ..table import Rule
from ..types import Config, Phase, Problem, SampleKind
from .budget import Budget
from .knowledge import Knowledge
from .outcome import Progress
from .pricing import unpriced
from .proposer import ModelProposer
from .rounds import Bench, OutOfTime, Rounds

LAST_LOOK = 2
"""A rule that is open after nine rounds gets 15, and then 25."""


class Drift(enum.Enum):
    """What became of a rule.

    HOLDS: by the same test, and the old gain is within the new interval, or the other way round. DRIFTED: it holds, but
    its gain has changed. UNCLEAR: the rounds show neither that it holds nor that it does not. LOST: its config is no
    longer worth leaving the default for, or the default that it kept is beaten. FAILED: its config gives no right
    answer any more. NOT_MEASURED: the time was out, or there is nothing to compare with.
    """

    HOLDS = "holds"
    DRIFTED = "drifted"
    UNCLEAR = "unclear"
    LOST = "lost"
    FAILED = "failed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A rule as it can be measured.

    Args:
        problem: that the rule was measured on.
        opponent: what the rule is measured against: the default, or what came nearest to it where that was kept; None
            where that is not known.
    """

    problem: Problem
    rule: Rule
    default: Config
    opponent: Config | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """What came of a claim.

    Args:
        gain: of the rule's config over the default; where the rule keeps the default, of the opponent over it. None
            where nothing was measured.
        message: why it failed.
    """

    claim: Claim
    drift: Drift
    gain: Comparison | None
    message: str = ""


def recheck(
    claims: Sequence[Claim],
    *,
    backend: Backend,
    store: TrialStore,
    session: Session,
    budget_s: float | None,
    calls: Mapping[Problem, float] | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Recheck]:
    """Measure the claims, those that the job calls most first, else in order; the session is finished afterwards.

    Rounds of an interrupted run of the same session count. The budget is passed by one round at most.

    Raises:
        AutotuneError: from the backend or the store, when they cannot go on.
    """
    ordered = sorted(claims, key=lambda claim: -(calls or {}).get(claim.problem, 0.0))
    budget = Budget(budget_s, clock, [claim.problem for claim in ordered])
    found: dict[Claim, Recheck] = {}

    def observe(problem: Problem, phase: Phase, number: int, n_configs: int) -> None:
        progress(
            Progress(
                problem=problem,
                phase=phase,
                round=number,
                n_configs=n_configs,
                cells_done=len(found),
                cells_total=len(ordered),
                elapsed_s=budget.elapsed_s,
                left_s=budget.expected_left_s(),
            )
        )

    bench = Bench(
        backend=backend,
        store=store,
        session_id=session.session_id,
        effort=NORMAL,
        seed=0,
        budget=budget,
        proposer_for=ModelProposer,
        knowledge=Knowledge(unpriced, backend.default),
        observe=observe,
    )
    try:
        for at, claim in enumerate(ordered):
            budget.begin_cell(claim.problem, (other.problem for other in ordered[at + 1 :]))
            stored = store.trials(session_id=session.session_id, problem=claim.problem)
            found[claim] = _measured(claim, Rounds(claim.problem, bench, stored))
            budget.end_cell(claim.problem)
    except KeyboardInterrupt:
        store.interrupt_session(session.session_id)
        raise
    store.finish_session(session.session_id)
    return [found[claim] for claim in claims]


def _measured(claim: Claim, rounds: Rounds) -> Recheck:
    challenger = claim.opponent if claim.rule.is_default else claim.rule.config
    if challenger is None or challenger == claim.default:
        return Recheck(claim=claim, drift=Drift.NOT_MEASURED, gain=None)
    pair = (claim.default, challenger)
    gain = None
    for look in range(LAST_LOOK + 1):
        try:
            while (done := min(map(rounds.confirmed, pair))) < rounds_at(look):
                rounds.must_fit((rounds_at(look) - done) * len(pair))
                rounds.measure(pair, SampleKind.FRESH, Phase.CONFIRM)
                if any(map(rounds.failed, pair)):
                    return _failed(claim, rounds, pair)
        except OutOfTime:
            break
        gain = sequential_ratio(*map(rounds.confirm_samples, pair))
        if gain is not None and standing(gain) is not Standing.OPEN:
            break
    return Recheck(claim=claim, drift=Drift.NOT_MEASURED if gain is None else _drift(claim.rule, gain), gain=gain)


def _failed(claim: Claim, rounds: Rounds, pair: tuple[Config, Config]) -> Recheck:
    broken = next(config for config in pair if rounds.failed(config))
    own = broken == claim.rule.config
    message = f"{broken}: {rounds.trials[broken].message}"
    # A challenger that fails beats nobody: the default that the rule kept still stands.
    return Recheck(claim=claim, drift=Drift.FAILED if own else Drift.HOLDS, gain=None, message=message)


def _drift(rule: Rule, gain: Comparison) -> Drift:
    now = standing(gain)
    if rule.is_default:
        return Drift.LOST if now is Standing.FASTER else Drift.HOLDS
    if now is not Standing.FASTER:
        return Drift.LOST if now is Standing.NOT_FASTER else Drift.UNCLEAR
    known = None not in (rule.gain_low, rule.gain_high, gain.low, gain.high)
    if known and (gain.low or 0.0) <= (rule.gain_high or 0.0) and (rule.gain_low or 0.0) <= (gain.high or 0.0):
        return Drift.HOLDS
    return Drift.DRIFTED
