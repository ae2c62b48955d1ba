"""All cells of a plan, in order, until they are done or the time is out.

In:  problems, a backend, a store with an open session, an effort, a budget.
Out: a `TuneReport`; everything measured is in the store, from which distil makes the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..db import CellState, Session, TrialStore
from ..measure import NORMAL, Backend, Effort
from ..types import Phase, Problem, Trial, TrialState
from .budget import Budget
from .cell import Bench, Cell, OutOfTime
from .proposer import GridProposer, ProposerFor


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is about to be measured.

    Args:
        n_configs: that take part in the round.
        cells_done: of cells_total, those of an earlier, interrupted run included.
        left_s: expected seconds to the end; None until it can be said.
    """

    problem: Problem
    phase: Phase
    round: int
    n_configs: int
    cells_done: int
    cells_total: int
    elapsed_s: float
    left_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """What came of a run. Every problem of the plan stands in exactly one of the first three lists.

    Args:
        measured: decided, in this run or before an interruption.
        failed: no decision possible: the default, or every config, gave no right answer.
        not_measured: the time was out; the same command goes on with them.
        failures: trials that ended in another state than OK; not those of lossy configs that were off by too much.
    """

    measured: tuple[Problem, ...]
    failed: tuple[Problem, ...]
    not_measured: tuple[Problem, ...]
    failures: tuple[Trial, ...]
    elapsed_s: float

    @property
    def complete(self) -> bool:
        return not self.not_measured


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with the report of what was done by then. The session can be resumed."""

    def __init__(self, report: TuneReport) -> None:
        super().__init__("interrupted; the same command continues")
        self.report = report


def tune(
    problems: Sequence[Problem],
    *,
    backend: Backend,
    store: TrialStore,
    session: Session,
    effort: Effort = NORMAL,
    budget_s: float | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    proposer_for: ProposerFor = GridProposer,
    seed: int = 0,
) -> TuneReport:
    """Measure every problem that the session is not through with, and finish the session once there is none left.

    Each round is stored before the next begins: an interruption, kill -9 included, loses at most the round in flight,
    and the same call on the same session goes on after the last one that was stored.

    A budget cuts races first (fewer candidates stay), then steady rounds and the confirm rounds above nine. A cell that
    would not get nine is left for the next run, and the report says so. The budget is passed by one round at most.

    Args:
        seed: of the order inside rounds.

    Raises:
        Interrupted: a KeyboardInterrupt with the partial report.
        AutotuneError: from the backend or the store, when they cannot go on.
    """
    states = store.done_cells(session.session_id)
    cells = tuple(dict.fromkeys(problems))
    waiting = [cell for cell in cells if cell not in states]
    budget = Budget(budget_s, clock, waiting)

    def observe(problem: Problem, phase: Phase, number: int, n_configs: int) -> None:
        progress(
            Progress(
                problem=problem,
                phase=phase,
                round=number,
                n_configs=n_configs,
                cells_done=sum(cell in states for cell in cells),
                cells_total=len(cells),
                elapsed_s=budget.elapsed_s,
                left_s=budget.expected_left_s(),
            )
        )

    bench = Bench(
        backend=backend,
        store=store,
        session_id=session.session_id,
        effort=effort,
        seed=seed,
        budget=budget,
        proposer_for=proposer_for,
        observe=observe,
    )
    try:
        for problem in waiting:
            budget.begin_cell()
            stored = store.trials(session_id=session.session_id, problem=problem)
            try:
                states[problem] = Cell(problem, bench, stored).run()
            except OutOfTime:
                continue
    except KeyboardInterrupt as stop:
        store.interrupt_session(session.session_id)
        raise Interrupted(_report(cells, states, store, session, budget)) from stop
    report = _report(cells, states, store, session, budget)
    if report.complete:
        store.finish_session(session.session_id)
    else:
        store.interrupt_session(session.session_id)
    return report


def _report(
    cells: Sequence[Problem],
    states: dict[Problem, CellState],
    store: TrialStore,
    session: Session,
    budget: Budget,
) -> TuneReport:
    trials = store.trials(session_id=session.session_id)
    return TuneReport(
        measured=tuple(cell for cell in cells if states.get(cell) is CellState.DONE),
        failed=tuple(cell for cell in cells if states.get(cell) is CellState.FAILED),
        not_measured=tuple(cell for cell in cells if cell not in states),
        failures=tuple(trial for trial in trials if trial.state is not TrialState.OK and not _over_budget(trial)),
        elapsed_s=budget.elapsed_s,
    )


def _over_budget(trial: Trial) -> bool:
    return (
        trial.state is TrialState.INVALID and trial.problem.key.max_error is not None and trial.config.codec != "none"
    )
