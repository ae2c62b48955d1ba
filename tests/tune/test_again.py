"""Rules that leave the default are confirmed by ranks that were started anew: a state of one start decides none."""

from __future__ import annotations

import pytest
from tune.rig import Run, begin

from autotune.backends.simulated import DEFAULT, Machine, SimulatedBackend, simulated_defaults
from autotune.distil import judge
from autotune.measure import AGAIN_FROM, MIN_ROUNDS, Failure, rounds_at
from autotune.plan import quick_plan
from autotune.tune.passes import AGAIN_SHARE
from autotune.types import Collective, Config, Phase, Problem, TrialState

FAST = Config(algorithm="chain", segment_bytes=64 << 10)
SMALL, LARGE = (
    quick_plan(2)
    .override(collectives=[Collective.BROADCAST], sizes=[1 << 12, 1 << 20], ranks=[2])
    .problems("simulated")
)


class Starts(SimulatedBackend):
    """Two configs; `FAST` takes 70 us for the large message in the ranks' first start, and what is given in others."""

    def __init__(self, later_us: float, *, fails: bool = False) -> None:
        crash = Failure(state=TrialState.CRASHED, message="planted")

        def time_us(problem: Problem, config: Config) -> float:
            if config == DEFAULT or problem == SMALL:
                return 100.0 if config == DEFAULT else 110.0
            return later_us if self.n_restarts else 70.0

        super().__init__(
            Machine(noise=0.02),
            time_us=time_us,
            fault=lambda problem, config, batch: crash if fails and self.n_restarts and config == FAST else None,
        )

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return (DEFAULT, FAST)

    def reference(self, problem: Problem) -> Config | None:
        return None


def chosen(run: Run) -> Config:
    return run.table(simulated_defaults()).rules[LARGE.key][-1].config


def again(run: Run, problem: Problem) -> dict[Config, int]:
    """Rounds of a second start."""
    return {
        trial.config: sum(s.round >= AGAIN_FROM for s in trial.samples if s.phase is Phase.CONFIRM)
        for trial in run.store.trials(session_id=run.session.session_id, problem=problem)
    }


@pytest.mark.parametrize(("later_us", "expected"), [(70.0, FAST), (95.0, FAST), (103.0, DEFAULT), (150.0, DEFAULT)])
def test_a_state_of_the_first_start_decides_no_rule(run: Run, later_us: float, expected: Config) -> None:
    backend = Starts(later_us)
    report = run.tune([SMALL, LARGE], backend)
    assert report.complete
    assert chosen(run) == expected
    verdict = judge(run.store.trials(problem=LARGE), default=DEFAULT, reference=None)
    assert verdict is not None
    assert (verdict.winner, verdict.lost_again) == (FAST, expected == DEFAULT)
    assert backend.n_restarts == 1
    assert again(run, LARGE) == dict.fromkeys((DEFAULT, FAST), rounds_at(1) - MIN_ROUNDS)
    assert set(again(run, SMALL).values()) == {0}


def test_where_all_keeps_the_default_no_ranks_are_started(run: Run) -> None:
    backend = Starts(70.0)
    run.tune([SMALL], backend)
    assert backend.n_restarts == 0


def test_a_config_that_fails_in_the_second_start_is_not_chosen(run: Run) -> None:
    report = run.tune([SMALL, LARGE], Starts(70.0, fails=True))
    assert chosen(run) == DEFAULT
    assert [trial.config for trial in report.failures] == [FAST]


def test_what_the_time_does_not_reach_stands_as_the_first_start_proved_it(run: Run) -> None:
    """The share that is kept for the second start is less than its rounds take here."""
    whole = Starts(103.0)
    run.tune([LARGE], whole, clock=whole.clock)
    first_s = next(seen.elapsed_s for seen in run.seen if seen.round >= AGAIN_FROM)
    tight, backend = begin(run.store), Starts(103.0)
    tight.tune([LARGE], backend, budget_s=1.001 * first_s / (1 - AGAIN_SHARE), clock=backend.clock)
    assert max(again(tight, LARGE).values()) < rounds_at(1) - MIN_ROUNDS
    assert (chosen(run), chosen(tight)) == (DEFAULT, FAST)
