"""A run on the simulated machine with the real store, for the tests of the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotune.backends.simulated import REFERENCE, SimulatedBackend, simulated_defaults
from autotune.db import NewSession, Session, TrialStore
from autotune.distil import distil
from autotune.measure import QUICK, Backend, Effort
from autotune.table import DefaultRules, TuningTable
from autotune.tune import Knowledge, Progress, ProposerFor, TuneReport, tune
from autotune.tune.proposer import grid
from autotune.tune.whole_job import SettingsOf
from autotune.types import Config, Problem, Trial

FINGERPRINT = "0123456789abcdef"


@dataclass(slots=True)
class Run:
    """A session in a store, and what tuning it needs besides."""

    store: TrialStore
    session: Session
    seen: list[Progress] = field(default_factory=list)

    def tune(
        self,
        problems: Sequence[Problem],
        backend: Backend,
        *,
        effort: Effort = QUICK,
        budget_s: float | None = None,
        clock: Callable[[], float] = lambda: 0.0,
        proposer_for: ProposerFor = grid,
        store: TrialStore | None = None,
        knowledge: Knowledge | None = None,
        refine: bool = False,
        converge: bool = False,
        calls: Mapping[Problem, float] | None = None,
        whole_job: SettingsOf | None = None,
    ) -> TuneReport:
        return tune(
            problems,
            backend=backend,
            store=store or self.store,
            session=self.session,
            effort=effort,
            budget_s=budget_s,
            clock=clock,
            proposer_for=proposer_for,
            progress=self.seen.append,
            knowledge=knowledge,
            refine=refine,
            converge=converge,
            calls=calls,
            whole_job=whole_job,
        )

    def table(self, defaults: DefaultRules | None = None) -> TuningTable:
        return distil(
            self.store.trials(session_id=self.session.session_id),
            defaults=defaults or simulated_defaults(),
            reference=lambda problem: REFERENCE,
            fingerprint=FINGERPRINT,
            environment={},
            created_at="2026-01-31T12:00:00Z",
        )

    def stored(self) -> dict[tuple[Problem, Config], Trial]:
        """This session's trials without their row numbers, which differ between sessions."""
        trials = self.store.trials(session_id=self.session.session_id)
        return {(t.problem, t.config): replace(t, trial_id=None, session_id=0) for t in trials}


def begin(store: TrialStore) -> Run:
    """Open another session in the store."""
    new = NewSession(
        plan_digest="d",
        plan_text="",
        fingerprint=FINGERPRINT,
        environment={},
        backend=SimulatedBackend.name,
        command="autotune run",
    )
    return Run(store=store, session=store.open_session(new))
