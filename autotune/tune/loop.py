"""All cells of a plan, then the sizes between them, then what is still open, until all is done or the time is out.

In:  problems, a backend, a store with an open session, an effort, a budget.
Out: a `TuneReport`; everything measured is in the store, from which distil makes the table.

Passes, each a function of what the store holds, so that a run that was killed goes on where it was:

    choose    settings that a job has only once, where the library has such (whole_job)
    planned   every problem, in order: race and confirm (cell)
    between   sizes that halve a crossover between neighbouring winners (sizes), until all are narrow
    again     what leaves the default, by ranks that are started anew: not all states of a machine change between rounds
    open      more confirm rounds where the decision may cost most, look by look (measure.sequential)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..db import CellState, Session, TrialStore
from ..distil import Verdict
from ..measure import AGAIN_FROM, NORMAL, Backend, Effort
from ..types import Phase, Problem, Trial, TrialState
from .budget import Budget
from .cell import Cell
from .knowledge import Knowledge, by_cell
from .outcome import Interrupted, Progress, TuneReport
from .pricing import unpriced
from .proposer import ModelProposer, ProposerFor
from .rounds import Bench, OutOfTime, Rounds
from .sizes import neighbours, next_sizes
from .whole_job import SettingsOf, narrowed

CONVERGED_ROUNDS = 116
"""Paired rounds after which a decision that is still open stays so: the difference is too small to matter."""
AGAIN_SHARE = 0.08
"""Of the budget, kept for the second start of the ranks."""
_RESERVE = 0.25  # of the budget, for the sizes between the planned ones
_OTHER_RANKS = 0.5  # starting other ranks costs; a cell that needs them has to be worth it


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
    proposer_for: ProposerFor = ModelProposer,
    knowledge: Knowledge | None = None,
    refine: bool = False,
    converge: bool = False,
    calls: Mapping[Problem, float] | None = None,
    whole_job: SettingsOf | None = None,
    seed: int = 0,
) -> TuneReport:
    """Measure every problem that the session is not through with, and finish the session once there is none left.

    Each round is handed to the store before the next begins: an interruption loses at most the round in flight, kill -9
    also what the store holds by then (``hold_s`` of ``open_store``), and the same call on the same session goes on
    after the last one that was stored.

    A budget cuts races first (fewer candidates stay), then steady rounds and the confirm rounds above nine. A cell that
    would not get nine is left for the next run, and the report says so. The budget is passed by one round at most. What
    the cells leave over goes to sizes between them and to open decisions.

    Args:
        knowledge: what is known before; None for nothing, not even prices.
        refine: whether to measure sizes between the planned ones, where winners change.
        converge: measure on until no decision is open, or its rounds have reached `CONVERGED_ROUNDS`.
        calls: how often a step of the job makes the call of each problem; None where all count alike.
        whole_job: what of a config a job can have only once; one such choice is made for all cells. None: nothing is.
        seed: of the order inside rounds, and of searches that draw lots.

    Raises:
        Interrupted: a KeyboardInterrupt with the partial report.
        AutotuneError: from the backend or the store, when they cannot go on.
    """
    run = _Run(
        problems,
        backend=backend,
        store=store,
        session=session,
        effort=effort,
        budget_s=budget_s,
        progress=progress,
        clock=clock,
        proposer_for=proposer_for,
        knowledge=knowledge or Knowledge(unpriced, backend.default),
        refine=refine,
        calls=calls,
        seed=seed,
    )
    try:
        if whole_job is not None:
            run.choose(whole_job)
        run.planned()
        if refine:
            run.between()
        run.again()
        run.open(CONVERGED_ROUNDS if converge else effort.most_rounds)
    except KeyboardInterrupt as stop:
        store.interrupt_session(session.session_id)
        raise Interrupted(run.report()) from stop
    report = run.report()
    if report.complete:
        store.finish_session(session.session_id)
    else:
        store.interrupt_session(session.session_id)
    return report


class _Run:
    """The state of `tune`, all of it a copy of what the store holds."""

    def __init__(
        self,
        problems: Sequence[Problem],
        *,
        backend: Backend,
        store: TrialStore,
        session: Session,
        effort: Effort,
        budget_s: float | None,
        progress: Callable[[Progress], None],
        clock: Callable[[], float],
        proposer_for: ProposerFor,
        knowledge: Knowledge,
        refine: bool,
        calls: Mapping[Problem, float] | None,
        seed: int,
    ) -> None:
        self._store, self._session = store, session
        self._calls, self._progress = calls, progress
        self._states = store.done_cells(session.session_id)
        # Asked for once: storing a cell takes less time than asking for it would.
        tried = by_cell(store.trials(session_id=session.session_id))
        self._tried: dict[Problem, Sequence[Trial]] = {problem: trials for (_, problem), trials in tried.items()}
        self._cells = tuple(dict.fromkeys(problems))
        self._waiting = [cell for cell in self._cells if cell not in self._states]
        reserve = _RESERVE if refine else 0.0
        self._budget = Budget(budget_s, clock, self._waiting, calls=calls, reserve=reserve, last=AGAIN_SHARE)
        self._knowledge = knowledge
        self._verdicts: dict[Problem, Verdict] = {}
        self._bench = Bench(
            backend=backend,
            store=store,
            session_id=session.session_id,
            effort=effort,
            seed=seed,
            budget=self._budget,
            proposer_for=proposer_for,
            knowledge=knowledge,
            observe=self._observe,
        )
        for problem in self._states:
            self._learn(problem, self._cell(problem))

    def choose(self, whole_job: SettingsOf) -> None:
        """What the whole job runs under."""
        cells = [(cell, Rounds(cell, self._bench, self._tried.get(cell, ()))) for cell in self._cells]
        self._bench = narrowed(self._bench, cells, whole_job)
        self._tried |= {cell: tuple(rounds.trials.values()) for cell, rounds in cells}

    def planned(self) -> None:
        """Every problem of the plan."""
        for problem in self._waiting:
            self._budget.begin_cell()
            self._measure(problem)
        self._budget.begin_rest()

    def between(self) -> None:
        """The sizes between, one after the other, since each decides whether the next is needed."""
        left_out: set[Problem] = set()
        ranks = 0
        while True:
            failed = {problem for problem, state in self._states.items() if state is CellState.FAILED}
            wanted = [p for p in next_sizes(self._verdicts, failed) if p not in left_out and p not in self._states]
            if not wanted:
                return
            problem = next((p for p in wanted if p.key.n_ranks == ranks), wanted[0])
            ranks = problem.key.n_ranks
            if not self._measure(problem):
                left_out.add(problem)

    def again(self) -> None:
        """Rounds in new ranks for every rule that leaves the default; what the time does not reach stands as it is."""
        self._budget.begin_last()
        chosen = [problem for problem in self._verdicts if self._cell(problem).wants_again]
        if not chosen:
            return
        self._bench.backend.restart()
        self._bench = replace(self._bench, confirm_from=AGAIN_FROM)
        for problem in sorted(chosen, key=lambda problem: problem.key.placement):  # other ranks have to be started
            cell = self._cell(problem)
            with contextlib.suppress(OutOfTime):
                cell.again()
            self._learn(problem, cell)

    def open(self, most_rounds: int) -> None:
        """More rounds for what is still open, the most that may be lost first."""
        left_out: set[Problem] = set()
        ranks = 0
        while True:
            stakes = {p: self._stake(p) for p in self._verdicts if p not in left_out and self._is_open(p, most_rounds)}
            if not stakes:
                return
            worth = {p: stake * (1.0 if p.key.n_ranks == ranks else _OTHER_RANKS) for p, stake in stakes.items()}
            problem = max(worth, key=lambda p: worth[p])
            ranks = problem.key.n_ranks
            cell = self._cell(problem)
            before = self._verdicts[problem]
            try:
                cell.extend()
            except OutOfTime:
                left_out.add(problem)
            self._learn(problem, cell)
            if self._verdicts.get(problem) == before:
                left_out.add(problem)

    def report(self) -> TuneReport:
        trials = self._store.trials(session_id=self._session.session_id)
        states, planned = self._states, set(self._cells)
        return TuneReport(
            measured=tuple(cell for cell in self._cells if states.get(cell) is CellState.DONE),
            failed=tuple(cell for cell in self._cells if states.get(cell) is CellState.FAILED),
            not_measured=tuple(cell for cell in self._cells if cell not in states),
            failures=tuple(trial for trial in trials if trial.state is not TrialState.OK and not _over_budget(trial)),
            elapsed_s=self._budget.elapsed_s,
            between=tuple(p for p, state in states.items() if p not in planned and state is CellState.DONE),
            undecided=tuple(problem for problem, verdict in self._verdicts.items() if verdict.at_stake > 0.0),
        )

    def _measure(self, problem: Problem) -> bool:
        """Race and confirm one cell; False if the time does not reach to its end."""
        cell = self._cell(problem)
        try:
            self._states[problem] = cell.run()
        except OutOfTime:
            self._tried[problem] = cell.trials
            return False
        self._learn(problem, cell)
        return True

    def _cell(self, problem: Problem) -> Cell:
        beside = [verdict.config for verdict in neighbours(problem, self._verdicts.values())]
        return Cell(problem, self._bench, self._tried.get(problem, ()), beside=beside)

    def _learn(self, problem: Problem, cell: Cell) -> None:
        self._tried[problem] = cell.trials
        self._knowledge.learn(cell.trials)
        verdict = cell.verdict
        if verdict is not None:
            self._verdicts[problem] = verdict
            self._knowledge.won(problem, verdict.config)

    def _is_open(self, problem: Problem, most_rounds: int) -> bool:
        gain = self._verdicts[problem].challenger_gain
        return gain is not None and self._verdicts[problem].at_stake > 0.0 and gain.n_rounds < most_rounds

    def _stake(self, problem: Problem) -> float:
        """What keeping the default may cost: a share of its time, in a step of the job where that is known."""
        verdict = self._verdicts[problem]
        if self._calls is None:
            return verdict.at_stake
        return verdict.at_stake * self._calls.get(problem, 0.0) * verdict.time_us.median

    def _observe(self, problem: Problem, phase: Phase, number: int, n_configs: int) -> None:
        self._progress(
            Progress(
                problem=problem,
                phase=phase,
                round=number,
                n_configs=n_configs,
                cells_done=sum(cell in self._states for cell in self._cells),
                cells_total=len(self._cells),
                elapsed_s=self._budget.elapsed_s,
                left_s=self._budget.expected_left_s(),
            )
        )


def _over_budget(trial: Trial) -> bool:
    return (
        trial.state is TrialState.INVALID and trial.problem.key.max_error is not None and trial.config.codec != "none"
    )
