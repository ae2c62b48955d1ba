"""Who races on and who is confirmed, where a search has an opinion."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tune.rig import Run, begin

from autotune.backends.simulated import DEFAULT, REFERENCE, Machine, SimulatedBackend
from autotune.measure import MIN_ROUNDS, Failure, Outcome, Timing
from autotune.plan import quick_plan
from autotune.tune import Interrupted, Knowledge, Scope
from autotune.tune.cell import REFERENCE_ROUNDS
from autotune.tune.pricing import unpriced
from autotune.tune.proposer import ListProposer, ModelProposer
from autotune.types import Collective, Config, Phase, Problem, SampleKind, TrialState

(CELL,) = quick_plan(2).override(collectives=[Collective.ALL_GATHER], sizes=[1 << 20], ranks=[4]).problems("simulated")
NEAR, FAR, FAST = (Config(algorithm="bruck", segment_bytes=size) for size in (64 << 10, 256 << 10, 1 << 20))


class Three(SimulatedBackend):
    """The default, a config that is nearly as fast, one that is much slower."""

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return (DEFAULT, NEAR, FAR)


def times(problem: Problem, config: Config) -> float:
    return {DEFAULT: 100.0, NEAR: 101.0, REFERENCE: 150.0}.get(config, 300.0)


def rounds(run: Run, config: Config, phase: Phase) -> int:
    trial = run.stored().get((CELL, config))
    samples = () if trial is None else trial.samples
    return sum(s.phase is phase and s.kind is SampleKind.FRESH for s in samples)


class Opinionated(ListProposer):
    """Enters three, and chooses the slow one whatever the race says."""

    def __init__(self, scope: Scope) -> None:
        super().__init__((DEFAULT, NEAR, FAR))

    def hopes(self, running: Sequence[Config]) -> tuple[Config, ...] | None:  # type: ignore[override] # it has one
        return (FAR,) if FAR in running else None


def test_who_the_search_chooses_is_confirmed_though_another_led_the_race(run: Run) -> None:
    run.tune(
        [CELL], Three(Machine(noise=0.01), time_us=lambda p, c: 110.0 if c == FAR else 100.0), proposer_for=Opinionated
    )
    assert rounds(run, FAR, Phase.CONFIRM) == MIN_ROUNDS
    assert rounds(run, NEAR, Phase.CONFIRM) == 0
    assert rounds(run, FAR, Phase.RACE) == 2  # the first of all three, and the one that it ran alone, as the winner


def test_a_reference_that_did_not_race_is_measured_beside_the_others_all_the_same(run: Run) -> None:
    run.tune([CELL], Three(time_us=times))
    assert rounds(run, REFERENCE, Phase.RACE) == 0
    assert rounds(run, REFERENCE, Phase.CONFIRM) == REFERENCE_ROUNDS


def proposer(*, failed: bool = False) -> ModelProposer:
    """After three rounds of `times`, nearly without noise."""
    own = Scope(
        problem=CELL,
        candidates=(DEFAULT, NEAR, FAR),
        own=(DEFAULT,),
        entrants=None,
        few_entrants=None,
        knowledge=Knowledge(unpriced, lambda problem: DEFAULT),
        seed=0,
    )
    found = ModelProposer(own)
    for number in range(3):
        for config in own.candidates:
            outcome: Outcome = Timing(time_us=times(CELL, config) * (1 + 0.01 * number), batch_calls=1)
            found.tell(number, config, outcome)
    if failed:
        found.tell(-1, DEFAULT, Failure(state=TrialState.CRASHED, message="planted"))
    return found


def test_the_hopeless_leave_and_those_that_may_be_as_good_stay() -> None:
    hopes = proposer().hopes((DEFAULT, NEAR, FAR))
    assert hopes is not None
    assert hopes[0] == DEFAULT
    assert FAR not in hopes


def test_a_default_that_failed_is_not_chosen() -> None:
    hopes = proposer(failed=True).hopes((NEAR, FAR))
    assert hopes is not None
    assert hopes[0] == NEAR


def test_without_a_measured_default_there_is_no_opinion() -> None:
    found = proposer()
    assert found.hopes(()) is None
    assert found.hopes((FAST,)) is None


@pytest.mark.parametrize("stop_at", range(1, 6))
def test_a_race_that_was_interrupted_ends_as_the_others(run: Run, stop_at: int) -> None:
    """Wherever it is cut, the search chooses as if it had not been."""

    def search(own: Run) -> Config:
        own.tune([CELL], Three(Machine(noise=0.01), time_us=times), proposer_for=ModelProposer)
        return max((NEAR, DEFAULT, FAR), key=lambda config: rounds(own, config, Phase.CONFIRM))

    whole = search(begin(run.store))
    cut = begin(run.store)

    class Cut(Three):
        left = stop_at

        def measure_round(self, problem: Problem, configs: Sequence[Config], **how: object) -> list[Outcome]:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().measure_round(problem, configs, **how)  # type: ignore[arg-type] # passed on as it came

    with pytest.raises(Interrupted):
        cut.tune([CELL], Cut(Machine(noise=0.01), time_us=times), proposer_for=ModelProposer)
    assert search(cut) == whole
