"""Settings that a job has only once: one choice for all cells, made before them, the same after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tune.rig import Run, begin

from autotune.backends.simulated import DEFAULT, Machine, SimulatedBackend
from autotune.db import TrialStore
from autotune.measure import QUICK, Failure, Outcome
from autotune.plan import quick_plan
from autotune.tune import Interrupted
from autotune.tune.whole_job import ROUNDS, Settings, SettingsOf
from autotune.types import Collective, Config, Phase, Problem, SampleKind, TrialState

SMALL, LARGE = (
    quick_plan(2).override(collectives=[Collective.BROADCAST], sizes=[4096, 1 << 20], ranks=[4]).problems("simulated")
)
EFFORT = replace(QUICK, confirm_rounds=9, steady_rounds=1)
OTHER = Config(algorithm="chain", segment_bytes=256 << 10)
NONE: Settings = ()
FIRST: Settings = (("start", 1),)
SECOND: Settings = (("start", 2),)
EVERY = (NONE, FIRST, SECOND)


def settings_of(config: Config) -> Settings:
    return tuple(knob for knob in config.knobs if knob[0] == "start")


class Started(SimulatedBackend):
    """Two algorithms under three settings of a job.

    Args:
        share: what the settings take of the default's time, for a small and a large message.
        other_share: what the other algorithm takes of that under some settings; 0.9 under the others.
    """

    def __init__(
        self,
        share: dict[Settings, tuple[float, float]],
        *,
        other_share: dict[Settings, float] | None = None,
        fails: Settings | None = None,
        stop_at: int | None = None,
    ) -> None:
        self._share = {NONE: (1.0, 1.0)} | share
        self._other_share = dict.fromkeys(EVERY, 0.9) | (other_share or {})
        crash = Failure(state=TrialState.INVALID, message="planted")
        super().__init__(
            Machine(noise=0.01),
            time_us=lambda problem, config: 100.0 * self._of(problem, config),
            fault=lambda problem, config, batch: crash if settings_of(config) == fails and problem == LARGE else None,
        )
        self.calls = 0
        self._stop_at = stop_at

    def _of(self, problem: Problem, config: Config) -> float:
        settings = settings_of(config)
        of_other = self._other_share[settings] if config.algorithm == OTHER.algorithm else 1.0
        return self._share[settings][problem == LARGE] * of_other

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return tuple(replace(config, knobs=settings) for settings in EVERY for config in (DEFAULT, OTHER))

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        if self.calls == self._stop_at:
            raise KeyboardInterrupt
        self.calls += 1
        return super().measure_round(problem, configs, kind=kind, batch=batch)


def clock(backend: Started, round_s: float) -> Callable[[], float]:
    """Every round takes so many seconds."""
    return lambda: backend.calls * round_s


def tuned(run: Run, backend: Started, whole_job: SettingsOf | None = settings_of) -> set[Settings]:
    """What the configs ran under that were confirmed, beside the library's own choice."""
    run.tune((SMALL, LARGE), backend, effort=EFFORT, whole_job=whole_job)
    return confirmed(run)


def confirmed(run: Run) -> set[Settings]:
    return {
        settings_of(config)
        for (_, config), trial in run.stored().items()
        if config.algorithm == OTHER.algorithm and any(sample.phase is Phase.CONFIRM for sample in trial.samples)
    }


def test_all_cells_are_tuned_under_what_is_fastest_over_all_of_them(run: Run) -> None:
    assert tuned(run, Started({FIRST: (0.95, 0.6), SECOND: (0.9, 1.1)})) == {FIRST}
    chosen = [rule.config for rules in run.table().rules.values() for rule in rules]
    assert set(chosen) == {replace(OTHER, knobs=FIRST)}
    raced = [t for (_, config), t in run.stored().items() if settings_of(config) == SECOND for t in t.samples]
    assert {sample.phase for sample in raced} == {Phase.RACE}
    assert max(sample.round for sample in raced) < ROUNDS


def test_without_a_word_of_it_every_cell_chooses_for_itself(run: Run) -> None:
    assert tuned(run, Started({FIRST: (0.95, 0.6), SECOND: (0.9, 1.1)}), whole_job=None) == {FIRST, SECOND}


def test_none_is_taken_where_none_is_worth_a_change(run: Run) -> None:
    assert tuned(run, Started({FIRST: (0.99, 0.99), SECOND: (1.0, 1.2)})) == {NONE}


def test_what_counts_is_the_fastest_candidate_and_not_the_librarys_own_choice(run: Run) -> None:
    """The first settings are the best ones for the default, the second for what the rules will name."""
    backend = Started({FIRST: (0.8, 0.8), SECOND: (0.9, 0.9)}, other_share={SECOND: 0.7})
    assert tuned(run, backend) == {SECOND}


def test_settings_that_fail_anywhere_are_out(run: Run) -> None:
    assert tuned(run, Started({FIRST: (0.5, 0.5), SECOND: (0.9, 0.9)}, fails=FIRST)) == {SECOND}


def test_what_a_short_run_had_no_time_to_compare_is_not_taken(run: Run) -> None:
    backend = Started({FIRST: (0.5, 0.5), SECOND: (0.9, 0.9)})
    run.tune((SMALL, LARGE), backend, effort=EFFORT, whole_job=settings_of, budget_s=100.0, clock=clock(backend, 31.0))
    assert confirmed(run) <= {NONE}
    assert not any(settings_of(config) for (problem, config) in run.stored() if problem == LARGE)


def test_a_run_stopped_before_any_round_chooses_the_same(store: TrialStore) -> None:
    share = {FIRST: (0.95, 0.6), SECOND: (0.9, 1.1)}
    expected, whole = begin(store), Started(share)
    tuned(expected, whole)
    for stop_at in range(whole.calls):
        run = begin(store)
        with pytest.raises(Interrupted):
            tuned(run, Started(share, stop_at=stop_at))
        tuned(run, Started(share))
        assert run.stored() == expected.stored()
        assert run.table().digest == expected.table().digest
