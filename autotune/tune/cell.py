"""One cell: race, then confirm, with every round stored before the next begins.

In:  a problem, the trials that an interrupted run left of it, the means to measure and to store.
Out: rounds in the store, and whether the cell is through.
May not touch: decisions about the table (distil), the order of cells (loop).

The trials are all the state there is: who still runs, who leads and what is missing is computed from them before every
round, so a run that was killed between two rounds goes on as if it had not been.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..db import CellState, RoundResult, TrialStore
from ..distil import judge
from ..measure import MIN_ROUNDS, Backend, Effort, Failure, Outcome, Timing, leader, race_of, survivors
from ..types import Config, Phase, Problem, Sample, SampleKind, Trial, TrialState
from .budget import Budget
from .proposer import ProposerFor


class OutOfTime(Exception):
    """The budget does not reach to the end of this cell; its rounds are stored. Never leaves `tune`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all cells of a run share.

    Args:
        observe: called before each round with (problem, phase, round, number of configs).
    """

    backend: Backend
    store: TrialStore
    session_id: int
    effort: Effort
    seed: int
    budget: Budget
    proposer_for: ProposerFor
    observe: Callable[[Problem, Phase, int, int], None]


class Cell:
    """The measuring of one problem.

    Args:
        stored: the session's trials of this problem so far.
    """

    def __init__(self, problem: Problem, bench: Bench, stored: Sequence[Trial]) -> None:
        self._problem = problem
        self._bench = bench
        self._trials = {trial.config: trial for trial in stored}
        self._default = bench.backend.default(problem)
        self._reference = bench.backend.reference(problem)
        self._sample_s = 0.0  # what one sample of the last round took, handling included

    def run(self) -> CellState:
        """Measure what is missing. FAILED if no decision is possible, because the default or everything else failed.

        Raises:
            OutOfTime: before the cell was through.
        """
        if self._next_round(Phase.CONFIRM, SampleKind.FRESH) == 0:
            self._race()
        self._confirm()
        decided = judge(self._trials.values(), default=self._default, reference=self._reference)
        state = CellState.FAILED if decided is None else CellState.DONE
        self._bench.store.mark_cell(self._bench.session_id, self._problem, state)
        return state

    def _race(self) -> None:
        own = [config for config in (self._default, self._reference) if config is not None]
        candidates = tuple(dict.fromkeys((*own, *self._bench.backend.candidates(self._problem))))
        proposer = self._bench.proposer_for(self._problem, candidates)
        for config, outcome in self._told():
            proposer.tell(config, outcome)
        while True:
            number = self._next_round(Phase.RACE, SampleKind.FRESH)
            running = survivors(race_of(self._trials.values()), self._bench.effort)
            running = running[: self._affordable(self._bench.effort.race_rounds - number)]
            entering = tuple(config for config in proposer.ask() if config not in self._trials)
            if not entering and (len(running) < 2 or number >= self._bench.effort.race_rounds):
                return
            for config, outcome in self._round((*running, *entering), SampleKind.FRESH, Phase.RACE, number):
                proposer.tell(config, outcome)

    def _confirm(self) -> None:
        """Fresh rounds of the winner, the default and the reference. If one of them fails, the next best goes on."""
        effort, left = self._bench.effort, self._bench.budget
        while any(race := race_of(self._trials.values())):
            finalists = [c for c in dict.fromkeys((leader(race), self._default, self._reference)) if c in race]
            fresh = min(self._count(config, SampleKind.FRESH) for config in finalists)
            steady = min(self._count(config, SampleKind.STEADY) for config in finalists)
            hurried = left.cell_left_s is not None and left.cell_left_s <= 0.0
            missing = (MIN_ROUNDS if hurried else effort.confirm_rounds) - fresh
            self._must_fit((MIN_ROUNDS - fresh) * len(finalists))
            if missing > 0:
                kind = SampleKind.FRESH
            elif steady < effort.steady_rounds and not hurried:
                kind = SampleKind.STEADY
            else:
                return
            self._round(finalists, kind, Phase.CONFIRM, self._next_round(Phase.CONFIRM, kind))

    def _affordable(self, rounds_left: int) -> int:
        """How many configs the cell's share carries through the race; at least the leader."""
        left_s = self._bench.budget.cell_left_s
        if left_s is None or self._sample_s == 0.0 or rounds_left < 1:
            return len(self._trials)
        after_race = 3 * (MIN_ROUNDS + self._bench.effort.steady_rounds)
        return max(1, int((left_s / self._sample_s - after_race) / rounds_left))

    def _must_fit(self, n_samples: int) -> None:
        left_s = self._bench.budget.left_s
        if left_s is not None and n_samples * self._sample_s > left_s:
            raise OutOfTime

    def _round(
        self, configs: Sequence[Config], kind: SampleKind, phase: Phase, number: int
    ) -> list[tuple[Config, Outcome]]:
        bench, problem = self._bench, self._problem
        if bench.budget.left_s is not None and bench.budget.left_s <= 0.0:
            raise OutOfTime
        bench.observe(problem, phase, number, len(configs))
        order = sorted(configs, key=str)
        random.Random(f"{bench.seed} {problem} {phase} {kind} {number}").shuffle(order)
        began_s = bench.budget.elapsed_s
        outcomes = bench.backend.measure_round(problem, order, kind=kind, batch=_batch(kind, phase, number))
        self._sample_s = (bench.budget.elapsed_s - began_s) / len(order)
        results = [
            self._result(config, outcome, kind=kind, phase=phase, number=number, position=position)
            for position, (config, outcome) in enumerate(zip(order, outcomes, strict=True))
        ]
        bench.store.add_round(bench.session_id, results)
        for result in results:
            self._remember(result)
        return list(zip(order, outcomes, strict=True))

    def _result(
        self, config: Config, outcome: Outcome, *, kind: SampleKind, phase: Phase, number: int, position: int
    ) -> RoundResult:
        if isinstance(outcome, Failure):
            return RoundResult(
                problem=self._problem, config=config, state=outcome.state, message=outcome.message, wrong=outcome.wrong
            )
        sample = Sample(
            kind=kind,
            phase=phase,
            round=number,
            position=position,
            batch_calls=outcome.batch_calls,
            time_us=outcome.time_us,
        )
        return RoundResult(problem=self._problem, config=config, sample=sample, fidelity=outcome.fidelity)

    def _remember(self, result: RoundResult) -> None:
        known = self._trials.get(result.config) or Trial(
            trial_id=None,
            session_id=self._bench.session_id,
            problem=self._problem,
            config=result.config,
            state=TrialState.OK,
        )
        samples = known.samples if result.sample is None else (*known.samples, result.sample)
        self._trials[result.config] = replace(
            known,
            state=result.state,
            message=result.message,
            wrong=result.wrong,
            samples=samples,
            fidelity=result.fidelity or known.fidelity,
        )

    def _told(self) -> list[tuple[Config, Outcome]]:
        """Stored race outcomes in the order of rounds; failures, whose round is not stored, last."""
        timed = [(s, t.config) for t in self._trials.values() for s in t.samples if s.phase is Phase.RACE]
        timed.sort(key=lambda pair: (pair[0].round, pair[0].position))
        told: list[tuple[Config, Outcome]] = [
            (config, Timing(time_us=sample.time_us, batch_calls=sample.batch_calls)) for sample, config in timed
        ]
        for trial in self._trials.values():
            if trial.state is not TrialState.OK:
                told.append((trial.config, Failure(state=trial.state, message=trial.message, wrong=trial.wrong)))
        return told

    def _next_round(self, phase: Phase, kind: SampleKind) -> int:
        done = (s.round for t in self._trials.values() for s in t.samples if s.phase is phase and s.kind is kind)
        return 1 + max(done, default=-1)

    def _count(self, config: Config, kind: SampleKind) -> int:
        return sum(s.phase is Phase.CONFIRM and s.kind is kind for s in self._trials[config].samples)


def _batch(kind: SampleKind, phase: Phase, number: int) -> int:
    """A seed for the inputs that no two rounds of a cell share."""
    return 4 * number + 2 * (phase is Phase.CONFIRM) + (kind is SampleKind.STEADY)
