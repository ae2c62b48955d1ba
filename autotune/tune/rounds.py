"""Rounds of one problem: measured, stored, remembered, in this order. All that is known of a cell stands in its trials.

In:  configs, a kind and a phase. Out: outcomes, which the store was given before. May not touch: decisions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..db import RoundResult, TrialStore
from ..measure import Backend, Effort, Failure, Outcome, Timing
from ..types import Config, KnobValue, Phase, Problem, Sample, SampleKind, Trial, TrialState
from .budget import Budget
from .knowledge import Knowledge
from .proposer import ProposerFor


class OutOfTime(Exception):
    """The budget does not reach to the end of this cell; its rounds are stored. Never leaves the room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all cells of a run share.

    Args:
        observe: called before each round with (problem, phase, round, number of configs).
        confirm_from: the number of the first confirm round to come; `AGAIN_FROM` once ranks have been started anew.
        settings: of the whole job, under which cells are tuned; () where there are none.
    """

    backend: Backend
    store: TrialStore
    session_id: int
    effort: Effort
    seed: int
    budget: Budget
    proposer_for: ProposerFor
    knowledge: Knowledge
    observe: Callable[[Problem, Phase, int, int], None]
    confirm_from: int = 0
    settings: tuple[tuple[str, KnobValue], ...] = ()


class Rounds:
    """The rounds of one problem.

    Args:
        stored: the session's trials of this problem so far.
    """

    def __init__(self, problem: Problem, bench: Bench, stored: Sequence[Trial]) -> None:
        self._problem = problem
        self._bench = bench
        self.trials = {trial.config: trial for trial in stored}
        self.sample_s = 0.0  # what one sample of the last round took, handling included
        # The same of the last round without newcomers, whose first checks take several samples' time.
        self._again_s = 0.0
        self._known: set[Config] = set()

    def measure(self, configs: Sequence[Config], kind: SampleKind, phase: Phase) -> list[tuple[Config, Outcome]]:
        """The next round of this phase and kind, in an order of its own.

        Raises:
            OutOfTime: the budget is used up; nothing was measured.
        """
        bench, problem = self._bench, self._problem
        if bench.budget.left_s is not None and bench.budget.left_s <= 0.0:
            raise OutOfTime
        number = self.next_number(phase, kind)
        bench.observe(problem, phase, number, len(configs))
        order = sorted(configs, key=str)
        random.Random(f"{bench.seed} {problem} {phase} {kind} {number}").shuffle(order)
        began_s = bench.budget.elapsed_s
        outcomes = bench.backend.measure_round(problem, order, kind=kind, batch=_batch(kind, phase, number))
        self.sample_s = (bench.budget.elapsed_s - began_s) / len(order)
        if self._known.issuperset(order):
            self._again_s = self.sample_s
        elif self._again_s == 0.0:
            self._again_s = self.sample_s / 2
        self._known.update(order)
        results = [
            self._result(config, outcome, kind=kind, phase=phase, number=number, position=position)
            for position, (config, outcome) in enumerate(zip(order, outcomes, strict=True))
        ]
        bench.store.add_round(bench.session_id, results)
        for result in results:
            self._remember(result)
        return list(zip(order, outcomes, strict=True))

    def must_fit(self, n_samples: int) -> None:
        """Raises OutOfTime where the budget does not reach for so many more samples of configs that are known."""
        left_s = self._bench.budget.left_s
        if left_s is not None and n_samples * self._again_s > left_s:
            raise OutOfTime

    def next_number(self, phase: Phase, kind: SampleKind) -> int:
        """The number of the next round."""
        done = (s.round for t in self.trials.values() for s in t.samples if s.phase is phase and s.kind is kind)
        return max(1 + max(done, default=-1), self._bench.confirm_from if phase is Phase.CONFIRM else 0)

    def confirmed(self, config: Config, kind: SampleKind = SampleKind.FRESH) -> int:
        """How many confirm rounds of this kind a config has."""
        return len(self.confirm_samples(config, kind))

    def confirm_samples(self, config: Config, kind: SampleKind = SampleKind.FRESH) -> list[Sample]:
        """A config's confirm samples of this kind."""
        trial = self.trials.get(config)
        samples = () if trial is None else trial.samples
        return [sample for sample in samples if sample.phase is Phase.CONFIRM and sample.kind is kind]

    def failed(self, config: Config) -> bool:
        """Whether a config has ended in another state than OK."""
        return config in self.trials and self.trials[config].state is not TrialState.OK

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
        known = self.trials.get(result.config) or Trial(
            trial_id=None,
            session_id=self._bench.session_id,
            problem=self._problem,
            config=result.config,
            state=TrialState.OK,
        )
        samples = known.samples if result.sample is None else (*known.samples, result.sample)
        self.trials[result.config] = replace(
            known,
            state=result.state,
            message=result.message,
            wrong=result.wrong,
            samples=samples,
            fidelity=result.fidelity or known.fidelity,
        )

    def race_outcomes(self) -> list[tuple[int, Config, Outcome]]:
        """Stored race outcomes in the order of rounds; failures, whose round is not stored, last, as of round -1."""
        timed = [(s, t.config) for t in self.trials.values() for s in t.samples if s.phase is Phase.RACE]
        timed.sort(key=lambda pair: (pair[0].round, pair[0].position))
        told: list[tuple[int, Config, Outcome]] = [
            (s.round, config, Timing(time_us=s.time_us, batch_calls=s.batch_calls)) for s, config in timed
        ]
        for trial in self.trials.values():
            if trial.state is not TrialState.OK:
                failure = Failure(state=trial.state, message=trial.message, wrong=trial.wrong)
                told.append((-1, trial.config, failure))
        return told


def _batch(kind: SampleKind, phase: Phase, number: int) -> int:
    """A seed for the inputs that no two rounds of a cell share."""
    return 4 * number + 2 * (phase is Phase.CONFIRM) + (kind is SampleKind.STEADY)
