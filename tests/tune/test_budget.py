"""The budget, on the simulated machine's own clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tune.rig import Run, begin

from autotune.backends.simulated import Machine, SimulatedBackend
from autotune.db import SessionState
from autotune.measure import MIN_ROUNDS, NORMAL, QUICK, Outcome
from autotune.plan import quick_plan
from autotune.tune.budget import Budget
from autotune.tune.passes import AGAIN_SHARE
from autotune.types import Collective, Config, Phase, Problem, SampleKind, Trial

PLAN = quick_plan(2)
PROBLEMS = PLAN.override(collectives=[Collective.ALL_REDUCE]).problems("simulated")
# 4 MiB over 4 ranks then takes 20 ms by the best config, and about 50 ms with writing and checking.
SLOW = Machine(latency_us=5.0, bandwidth_gb_per_s=0.4)


def confirm_rounds(trial: Trial) -> int:
    return sum(s.phase is Phase.CONFIRM and s.kind is SampleKind.FRESH for s in trial.samples)


def longest_round_s(machine: Machine) -> float:
    backend = SimulatedBackend(machine)
    backend.measure_round(PROBLEMS[-1], backend.candidates(PROBLEMS[-1]), kind=SampleKind.FRESH, batch=0)
    return backend.clock()


def test_the_quick_plan_measures_every_cell_within_its_budget(run: Run) -> None:
    backend = SimulatedBackend(SLOW)
    problems = PLAN.problems("simulated")
    report = run.tune(problems, backend, effort=QUICK, budget_s=PLAN.budget_s, clock=backend.clock)
    assert report.measured == problems
    assert PLAN.budget_s is not None
    assert 10.0 < backend.clock() <= PLAN.budget_s
    rules = [rule for rules in run.table().rules.values() for rule in rules]
    assert len(rules) == len(problems)
    assert all(rule.n_rounds >= MIN_ROUNDS for rule in rules)


def test_a_short_budget_cuts_races_and_extra_rounds_but_not_the_nine(run: Run) -> None:
    free, hurried = SimulatedBackend(SLOW), SimulatedBackend(SLOW)
    relaxed = begin(run.store)
    relaxed.tune(PROBLEMS, free, effort=NORMAL)
    budget_s = 0.75 * free.clock()
    report = run.tune(PROBLEMS, hurried, effort=NORMAL, budget_s=budget_s, clock=hurried.clock)
    assert report.measured == PROBLEMS
    assert hurried.clock() <= budget_s
    assert hurried.n_samples < free.n_samples
    assert all(rule.n_rounds >= MIN_ROUNDS for rules in run.table().rules.values() for rule in rules)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_what_the_time_does_not_reach_is_reported_and_measured_next_time(run: Run, share: float) -> None:
    whole = SimulatedBackend(SLOW)
    begin(run.store).tune(PROBLEMS, whole)
    budget_s = share * whole.clock() + 1e-9
    backend = SimulatedBackend(SLOW)
    report = run.tune(PROBLEMS, backend, budget_s=budget_s, clock=backend.clock)
    assert report.not_measured
    assert {*report.measured, *report.not_measured} == set(PROBLEMS)
    assert not report.complete
    assert backend.clock() <= budget_s + longest_round_s(SLOW)
    assert len(run.table().rules.get(PROBLEMS[0].key, ())) == sum(p.key == PROBLEMS[0].key for p in report.measured)
    current = {session.session_id: session.state for session in run.store.sessions()}
    assert current[run.session.session_id] is SessionState.INTERRUPTED

    rest = SimulatedBackend(SLOW)
    assert run.tune(PROBLEMS, rest).measured == PROBLEMS
    assert rest.n_samples < whole.n_samples


def test_a_cell_without_time_for_nine_rounds_does_not_waste_the_time_of_others(run: Run) -> None:
    """The large cell comes first and cannot be afforded; the small ones after it are still measured."""
    large, small = PROBLEMS[-1], PROBLEMS[:3]
    backend = SimulatedBackend(SLOW)
    budget_s = 1.2 * longest_round_s(SLOW)
    report = run.tune([large, *small], backend, budget_s=budget_s, clock=backend.clock)
    assert report.not_measured == (large,)
    assert report.measured == small
    trials = [trial for trial in run.store.trials() if trial.problem == large]
    assert len(trials) == len(backend.candidates(large))
    assert not any(confirm_rounds(trial) for trial in trials)


HURRIED, RELAXED = PROBLEMS[0], PROBLEMS[-1]
EVEN_BUDGET_S = 20.0
"""For two cells whose samples take 50 ms each: the small one's share, 1.1 s, does not reach to the end of its nine."""


PATIENT = replace(QUICK, confirm_rounds=QUICK.most_rounds)


class Even(SimulatedBackend):
    """Every config takes 20 ms; can be told to stop before a call."""

    def __init__(self, *, stop_at: int | None = None) -> None:
        super().__init__(time_us=lambda problem, config: 20_000.0)
        self._left = stop_at

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        if self._left is not None:
            if self._left == 0:
                raise KeyboardInterrupt
            self._left -= 1
        return super().measure_round(problem, configs, kind=kind, batch=batch)


def test_a_cell_that_overdraws_its_share_gets_no_steady_rounds_and_further_ones_from_what_is_left_over(
    run: Run,
) -> None:
    backend = Even()
    report = run.tune([HURRIED, RELAXED], backend, effort=PATIENT, budget_s=EVEN_BUDGET_S, clock=backend.clock)
    assert report.complete
    trials = run.store.trials()
    counts = {p: max(confirm_rounds(t) for t in trials if t.problem == p) for p in (HURRIED, RELAXED)}
    assert counts == {HURRIED: QUICK.most_rounds, RELAXED: QUICK.most_rounds}
    after = [seen.problem for seen in run.seen if seen.phase is Phase.CONFIRM and seen.round == MIN_ROUNDS]
    assert after == [RELAXED, HURRIED]
    steady = {t.problem for t in trials for s in t.samples if s.kind is SampleKind.STEADY}
    assert steady == {RELAXED}


def test_a_race_that_was_cut_is_not_taken_up_again_once_confirming_has_begun(run: Run) -> None:
    backend = Even(stop_at=4)
    with pytest.raises(KeyboardInterrupt):
        run.tune([HURRIED, RELAXED], backend, budget_s=EVEN_BUDGET_S, clock=backend.clock)
    run.tune([HURRIED], Even())
    trials = run.store.trials(problem=HURRIED)
    assert {s.round for t in trials for s in t.samples if s.phase is Phase.RACE} == {0}
    assert max(map(confirm_rounds, trials)) == QUICK.most_rounds


class Checked(SimulatedBackend):
    """Every config takes 20 ms, and what is new ten times as long: it is checked."""

    def __init__(self) -> None:
        super().__init__(time_us=lambda problem, config: 20_000.0)
        self._checked: set[Config] = set()

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        before_s = self.elapsed_s
        outcomes = super().measure_round(problem, configs, kind=kind, batch=batch)
        each_s = (self.elapsed_s - before_s) / len(configs)
        self.elapsed_s += 9 * each_s * len(set(configs) - self._checked)
        self._checked.update(configs)
        return outcomes


def test_what_the_first_checks_of_configs_take_is_not_expected_of_all_rounds(run: Run) -> None:
    """After the race's first round nine of two configs would not fit, were all samples as long as those."""
    free = Checked()
    n_configs = len(free.candidates(RELAXED))
    free.measure_round(RELAXED, free.candidates(RELAXED), kind=SampleKind.FRESH, batch=0)
    first_round_s, backend = free.clock(), Checked()
    budget_s = first_round_s * (1 + 1.3 * MIN_ROUNDS / n_configs) / (1 - AGAIN_SHARE)
    report = run.tune([RELAXED], backend, effort=QUICK, budget_s=budget_s, clock=backend.clock)
    assert report.complete
    assert max(map(confirm_rounds, run.store.trials())) >= MIN_ROUNDS


def test_without_a_budget_nothing_is_cut(run: Run) -> None:
    backend = SimulatedBackend(SLOW, time_us=lambda p, c: 1e6)
    effort = replace(QUICK, confirm_rounds=20, most_rounds=25)
    report = run.tune(PROBLEMS[:1], backend, effort=effort, clock=backend.clock)
    assert report.measured == PROBLEMS[:1]
    assert max(confirm_rounds(trial) for trial in run.store.trials()) == 25  # up to the next look


def test_what_is_kept_for_the_last_is_given_out_then() -> None:
    now_s = 100.0
    budget = Budget(10.0, lambda: now_s, PROBLEMS, last=0.2)
    budget.begin_cell(PROBLEMS[0], PROBLEMS[1:])
    assert budget.left_s == pytest.approx(8.0)
    now_s = 107.0
    budget.begin_rest()
    assert (budget.left_s, budget.cell_left_s) == (pytest.approx(1.0), pytest.approx(1.0))
    budget.begin_last()
    assert (budget.left_s, budget.cell_left_s) == (pytest.approx(3.0), pytest.approx(3.0))
    budget.begin_last()
    assert budget.left_s == pytest.approx(3.0)


def test_shares_follow_bytes_and_what_is_left_over_goes_on() -> None:
    now_s = 100.0
    budget = Budget(10.0, lambda: now_s, PROBLEMS)
    assert (budget.left_s, budget.elapsed_s, budget.expected_left_s()) == (10.0, 0.0, 10.0)
    shares = []
    for at, problem in enumerate(PROBLEMS):
        budget.begin_cell(problem, PROBLEMS[at + 1 :])
        assert budget.cell_left_s is not None
        shares.append(budget.cell_left_s)
        now_s += budget.cell_left_s / 2
        budget.end_cell(problem)
    assert shares[7] > 3 * shares[0]
    assert shares[-1] > shares[7]
    assert sum(shares) > 10.0
    assert now_s < 110.0
    assert budget.cell_left_s is not None
    now_s += 20.0
    assert budget.cell_left_s < 0
    assert budget.expected_left_s() == 0.0


def test_a_budget_of_none_has_no_ends() -> None:
    now_s = 0.0
    budget = Budget(None, lambda: now_s, PROBLEMS[:2])
    budget.begin_cell(PROBLEMS[0], PROBLEMS[1:2])
    assert (budget.left_s, budget.cell_left_s, budget.expected_left_s()) == (None, None, None)
    now_s = 4.0
    budget.end_cell(PROBLEMS[0])
    assert budget.expected_left_s() == pytest.approx(4.0, rel=0.01)
