"""One cell: race, then confirm, with every round handed to the store before the next begins.

In:  a problem, the trials that an interrupted run left of it, what won next door, the means to measure and to store.
Out: rounds in the store, and whether the cell is through.
May not touch: decisions about the table (distil), the order of cells (loop).

The trials are all the state there is: who still runs, who leads and what is missing is computed from them before every
round, so a run that was killed between two rounds goes on as if it had not been.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from ..db import CellState
from ..distil import Verdict, judge
from ..measure import AGAIN_FROM, MIN_ROUNDS, Race, last_look, leader, look_with, race_of, rounds_at, survivors
from ..types import Config, Phase, Problem, SampleKind, Trial
from .proposer import Proposer, Scope
from .rounds import Bench, Rounds

REFERENCE_ROUNDS = 3
"""Confirm rounds that the fixed reference runs in as well: for a figure in reports, which decides nothing."""


class Cell:
    """The measuring of one problem.

    Args:
        stored: the session's trials of this problem so far.
        beside: what the sizes next to it chose. Where one of these holds out in the race, it is confirmed as well, so
            that ranges whose configs are equals can become one.
    """

    def __init__(
        self, problem: Problem, bench: Bench, stored: Sequence[Trial], *, beside: Sequence[Config] = ()
    ) -> None:
        self._problem = problem
        self._bench = bench
        self._rounds = Rounds(problem, bench, stored)
        self._default = bench.backend.default(problem)
        self._reference = bench.backend.reference(problem)
        # What a rule has to beat under the job's settings: an export asks for it.
        self._own = replace(self._default, knobs=bench.settings) if bench.settings else None
        self._beside = tuple(beside)
        self._raced = False

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Everything measured so far."""
        return tuple(self._rounds.trials.values())

    @property
    def verdict(self) -> Verdict | None:
        """What the trials decide so far."""
        return judge(self.trials, default=self._default, reference=self._reference)

    def worth(self, *, raced: bool) -> float | None:
        """The share of the default's time that leaving it is expected to save; None where the search has no opinion.

        Args:
            raced: whether the race is over, so that the one that won is all there is to choose.
        """
        proposer, race = self._proposer(self._scope()), race_of(self.trials)
        if not raced or not any(race.values()):
            return proposer.worth(None)
        first = leader(race)
        return proposer.worth((first,) if first != self._default else ())

    def run(self) -> CellState:
        """Measure what is missing. FAILED if no decision is possible, because the default or everything else failed.

        Raises:
            OutOfTime: before the cell was through.
        """
        self.race()
        self._confirm()
        state = CellState.FAILED if self.verdict is None else CellState.DONE
        self._bench.store.mark_cell(self._bench.session_id, self._problem, state)
        return state

    def race(self) -> None:
        """Measure what is missing of the race; nothing where it is over.

        Raises:
            OutOfTime: before it was.
        """
        if not self._raced and self._rounds.next_number(Phase.CONFIRM, SampleKind.FRESH) == 0:
            self._race()
        self._raced = True

    def extend(self) -> None:
        """Confirm rounds up to the next look for what is still open, and the default.

        Raises:
            OutOfTime: before the look was reached; the rounds so far are stored, and count once it is.
        """
        verdict = self.verdict
        if verdict is not None and verdict.challenger is not None:
            self._to_next_look((self._default, verdict.challenger))

    @property
    def wants_again(self) -> bool:
        """Whether it leaves the default by rounds of one start of the ranks alone."""
        verdict = self.verdict
        if verdict is None or verdict.is_default:
            return False
        samples = self._rounds.confirm_samples(verdict.config)
        look = last_look(len(samples))
        whole = look is not None and len(samples) == rounds_at(look)  # else it was interrupted
        return not (whole and any(sample.round >= AGAIN_FROM for sample in samples))

    def again(self) -> None:
        """Confirm rounds up to the next look for the default and what beats it, once ranks have been started anew.

        Raises:
            OutOfTime: before the look was reached; the rounds so far are stored.
        """
        verdict = self.verdict
        if verdict is not None and not verdict.is_default:
            self._to_next_look((self._default, verdict.config, *(equal.config for equal in verdict.equals)))

    def _to_next_look(self, finalists: tuple[Config, ...]) -> None:
        rounds = self._rounds
        look = last_look(min(map(rounds.confirmed, finalists)))
        target = rounds_at(0 if look is None else look + 1)
        while len(finalists) > 1 and (done := min(map(rounds.confirmed, finalists))) < target:
            rounds.must_fit((target - done) * len(finalists))
            rounds.measure(finalists, SampleKind.FRESH, Phase.CONFIRM)
            finalists = tuple(config for config in finalists if not rounds.failed(config))

    def _race(self) -> None:
        effort, rounds = self._bench.effort, self._rounds
        scope = self._scope()
        legal = frozenset(scope.candidates)
        proposer = self._proposer(scope)
        while True:
            race = race_of(self.trials)
            held = survivors(race, effort)
            running = tuple(config for config in held if config in legal)
            left_out = bool(running) and len(running) < len(held)  # by another round, so that they do not lead
            hopes = proposer.hopes(running)
            running = running if hopes is None else hopes
            missing = effort.race_rounds - min((len(race[config]) for config in running), default=0)
            affordable = self._affordable(missing)
            running = running[:affordable]
            entering = tuple(config for config in proposer.ask() if config not in rounds.trials)
            entering = entering[: max(0, affordable - len(running))]
            if not entering and not left_out and (len(running) < 2 or missing < 1):
                if hopes is not None and leader(race) != hopes[0]:  # who runs last has won
                    rounds.measure(hopes[:1], SampleKind.FRESH, Phase.RACE)
                return
            number = rounds.next_number(Phase.RACE, SampleKind.FRESH)
            for config, outcome in rounds.measure((*running, *entering), SampleKind.FRESH, Phase.RACE):
                proposer.tell(number, config, outcome)

    def _proposer(self, scope: Scope) -> Proposer:
        """The search of this cell, as it stands after the rounds so far."""
        proposer = self._bench.proposer_for(scope)
        for number, config, outcome in self._rounds.race_outcomes():
            proposer.tell(number, config, outcome)
        return proposer

    def _scope(self) -> Scope:
        bench = self._bench
        near = (*self._beside, *bench.knowledge.winners_near(self._problem))
        legal = dict.fromkeys((self._default, *bench.backend.candidates(self._problem)))
        own = dict.fromkeys((self._default, *(config for config in near if config in legal)))
        return Scope(
            problem=self._problem,
            candidates=tuple(legal),
            own=tuple(own),
            entrants=bench.effort.entrants,
            few_entrants=bench.effort.few_entrants,
            knowledge=bench.knowledge,
            seed=bench.seed,
        )

    def _confirm(self) -> None:
        """Fresh rounds of the winner and the default. If one of them fails, the next best goes on."""
        effort, left, rounds = self._bench.effort, self._bench.budget, self._rounds
        target = rounds_at(look_with(effort.confirm_rounds))
        while any((race := race_of(self.trials)).values()):
            finalists = self._finalists(race)
            fresh = min(map(rounds.confirmed, finalists))
            steady = min(rounds.confirmed(config, SampleKind.STEADY) for config in finalists)
            hurried = left.cell_left_s is not None and left.cell_left_s <= 0.0
            missing = (MIN_ROUNDS if hurried else target) - fresh
            rounds.must_fit((MIN_ROUNDS - fresh) * len(finalists))
            if missing > 0:
                kind = SampleKind.FRESH
            elif steady < effort.steady_rounds and not hurried:
                kind = SampleKind.STEADY
            else:
                return
            beside = (None if hurried else self._reference, self._own)
            shown = [c for c in beside if c is not None and c not in finalists]
            shown = [c for c in shown if rounds.confirmed(c, kind) < REFERENCE_ROUNDS and not rounds.failed(c)]
            rounds.measure((*finalists, *shown), kind, Phase.CONFIRM)

    def _finalists(self, race: Race) -> list[Config]:
        """The winner of the race, the default, and a neighbour's choice that held out in the race."""
        held = survivors(race, self._bench.effort)
        beside = [config for config in self._beside if config in held][:1]
        wanted = dict.fromkeys((leader(race), self._default, *beside))
        return [config for config in wanted if not self._rounds.failed(config)]

    def _affordable(self, rounds_left: int) -> int:
        """How many configs the cell's share carries through the race; at least the leader."""
        left_s, sample_s = self._bench.budget.cell_left_s, self._rounds.sample_s
        if left_s is None or sample_s == 0.0 or rounds_left < 1:
            return sys.maxsize
        after_race = 2 * (MIN_ROUNDS + self._bench.effort.steady_rounds)
        return max(1, int((left_s / sample_s - after_race) / rounds_left))
