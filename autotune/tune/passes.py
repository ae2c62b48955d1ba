"""The passes of a run over its cells: what `loop.tune` calls, one after the other.

In:  as `loop.tune`. Out: rounds in the store, what they decide so far, a `TuneReport`.
May not touch: sessions, which the loop finishes or interrupts.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..db import CellState, Session, TrialStore
from ..distil import Verdict
from ..measure import AGAIN_FROM, Backend, Effort
from ..types import Phase, Problem, Trial, TrialState
from .budget import Budget, cost
from .cell import Cell
from .forecasts import next_look_saves
from .knowledge import Knowledge, by_cell
from .order import MOST_CELLS, Queue, Step
from .outcome import Progress, TuneReport
from .proposer import ProposerFor
from .rounds import Bench, OutOfTime, Rounds
from .sizes import neighbours, next_sizes
from .whole_job import SettingsOf, narrowed

AGAIN_SHARE = 0.08
"""Of the budget, kept for the second start of the ranks."""
WORTH_ROUNDS = 0.007
"""Share of the default's time that the next look at an open decision has to be expected to save."""
_RESERVE = 0.25  # of the budget, for the sizes between the planned ones


class Passes:
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
        self._raced: dict[Problem, Cell] = {}
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
        """Every problem of the plan: in its order, or with a budget and few cells, where the search can say, what saves
        most first. More rounds of a decision that is still open may then come before the next cell.
        """
        short = self._budget.left_s is not None and 0 < len(self._waiting) <= MOST_CELLS
        sorts = short and self._cell(self._waiting[0]).worth(raced=False) is not None
        queue = Queue(self._waiting, Step.RACE, self._worth if sorts else None)
        begun: Problem | None = None
        for problem, step in queue:
            if step is not Step.OPEN and problem != begun:  # a cell that goes on at once has had its share
                self._budget.begin_cell(problem, queue.waiting)
            begun = problem
            following = self._take(problem, step)
            if following is not None and (sorts or following is not Step.OPEN):
                queue.add(problem, following)
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
            if not self._measure(problem, self._cell(problem)):
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

    def open(self, most_rounds: int, *, least: float) -> None:
        """More rounds for what is still open, the most that may be lost first.

        Args:
            least: share of the default's time that has to be expected of them.
        """
        worth = functools.partial(self._worth, most_rounds=most_rounds, least=least)
        queue = Queue(tuple(self._verdicts), Step.OPEN, worth)
        for problem, step in queue:
            if self._take(problem, step) is not None:
                queue.add(problem, step)

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

    def _take(self, problem: Problem, step: Step) -> Step | None:
        """Take a step, and say which one follows; None where none does, or the time did not reach to its end."""
        if step is Step.RACE:
            return Step.CONFIRM if self._race(problem) else None
        if step is Step.CONFIRM:
            done = self._measure(problem, self._raced.pop(problem))
            self._budget.end_cell(problem)
            return Step.OPEN if done else None
        cell, before = self._cell(problem), self._verdicts[problem]
        try:
            cell.extend()
        except OutOfTime:
            return None
        finally:
            self._learn(problem, cell)
        return None if self._verdicts.get(problem) == before else Step.OPEN

    def _worth(
        self, problem: Problem, step: Step, *, most_rounds: int | None = None, least: float = WORTH_ROUNDS
    ) -> float | None:
        """What a step is expected to save for what it costs; None where a decision is settled, or as good as that."""
        if step is Step.OPEN:
            verdict = self._verdicts.get(problem)
            share = None if verdict is None else _open_share(verdict, most_rounds or self._bench.effort.most_rounds)
            if share is None or share < least:
                return None
        else:
            share = self._cell(problem).worth(raced=step is Step.CONFIRM) or 0.0
        each = share / step.samples
        return each / cost(problem) if self._calls is None else each * self._calls.get(problem, 0.0)

    def _race(self, problem: Problem) -> bool:
        """Race one cell; False if the time does not reach to its end."""
        cell = self._cell(problem)
        try:
            cell.race()
        except OutOfTime:
            return False
        finally:
            self._tried[problem] = cell.trials
            self._knowledge.learn(cell.trials)
        self._raced[problem] = cell
        return True

    def _measure(self, problem: Problem, cell: Cell) -> bool:
        """Race and confirm one cell; False if the time does not reach to its end."""
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


def _open_share(verdict: Verdict, most_rounds: int) -> float | None:
    """The share of the default's time that more rounds may save; None where the decision is settled."""
    gain = verdict.challenger_gain
    if gain is None or verdict.at_stake <= 0.0 or gain.n_rounds >= most_rounds:
        return None
    return next_look_saves(gain, most_rounds)


def _over_budget(trial: Trial) -> bool:
    return (
        trial.state is TrialState.INVALID and trial.problem.key.max_error is not None and trial.config.codec != "none"
    )
