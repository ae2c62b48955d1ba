"""An interruption at any point loses at most the round in flight, and changes no decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tune.rig import FINGERPRINT, Run, begin

from autotune.backends.simulated import DEFAULT, REFERENCE, Machine, SimulatedBackend
from autotune.db import RoundResult, SessionState, TrialStore, open_store
from autotune.errors import AutotuneError, StoreError
from autotune.measure import AGAIN_FROM, QUICK, Failure, Outcome
from autotune.plan import quick_plan
from autotune.tune import Interrupted
from autotune.types import Collective, Config, Problem, SampleKind, TrialState

PROBLEMS = (
    quick_plan(2).override(collectives=[Collective.BROADCAST], sizes=[4096, 1 << 20], ranks=[4]).problems("simulated")
)
EFFORT = replace(QUICK, confirm_rounds=9, steady_rounds=1)
TREE, CHAIN, FLAKY = (Config(algorithm=name, segment_bytes=256 << 10) for name in ("tree", "chain", "flat"))
TRUE_US = {DEFAULT: 100.0, REFERENCE: 104.0, TREE: 90.0, CHAIN: 97.0, FLAKY: 95.0}


class Few(SimulatedBackend):
    """Five candidates, one of which crashes in its third round; can be told to stop before a call."""

    def __init__(self, *, stop_at: int | None = None, error: type[BaseException] = KeyboardInterrupt) -> None:
        crash = Failure(state=TrialState.CRASHED, message="planted")
        super().__init__(
            Machine(noise=0.03, slow_phase_rate=0.2),
            time_us=lambda problem, config: TRUE_US[config],
            fault=lambda problem, config, batch: crash if config == FLAKY and batch == 8 else None,
        )
        self.calls = 0
        self._stop_at = stop_at
        self._error = error

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return tuple(TRUE_US)

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        if self.calls == self._stop_at:
            raise self._error
        self.calls += 1
        return super().measure_round(problem, configs, kind=kind, batch=batch)


class Tripwire:
    """A store that breaks at its k-th round: before it is written, or just after."""

    def __init__(self, store: TrialStore, *, stop_at: int, after: bool) -> None:
        self._store = store
        self._left = stop_at
        self._after = after

    def add_round(self, session_id: int, results: Sequence[RoundResult]) -> None:
        if self._left == 0 and not self._after:
            raise StoreError("planted", remedy="none")
        self._store.add_round(session_id, results)
        if self._left == 0:
            raise StoreError("planted", remedy="none")
        self._left -= 1

    def __getattr__(self, verb: str) -> object:
        return getattr(self._store, verb)


def undisturbed(store: TrialStore) -> tuple[Run, int]:
    run, backend = begin(store), Few()
    report = run.tune(PROBLEMS, effort=EFFORT, backend=backend)
    assert report.measured == PROBLEMS
    assert len(report.failures) == 2
    return run, backend.calls


def test_a_run_stopped_before_any_round_ends_with_the_same_samples_and_decisions(store: TrialStore) -> None:
    expected, n_rounds = undisturbed(store)
    again = sum(seen.round >= AGAIN_FROM for seen in expected.seen)
    assert n_rounds - again >= 25
    assert again > 0
    for stop_at in range(n_rounds):
        run = begin(store)
        with pytest.raises(KeyboardInterrupt) as caught:
            run.tune(PROBLEMS, effort=EFFORT, backend=Few(stop_at=stop_at))
        assert isinstance(caught.value, Interrupted)
        assert bool(caught.value.report.not_measured) == (stop_at < n_rounds - again)
        rest = Few()
        assert run.tune(PROBLEMS, effort=EFFORT, backend=rest).measured == PROBLEMS
        assert rest.calls == n_rounds - stop_at
        assert run.stored() == expected.stored()
        assert run.table().digest == expected.table().digest


@pytest.mark.parametrize("after", [False, True])
def test_a_store_that_breaks_at_any_round_loses_at_most_that_round(store: TrialStore, after: bool) -> None:
    expected, n_rounds = undisturbed(store)
    for stop_at in range(0, n_rounds, 3):
        run = begin(store)
        with pytest.raises(AutotuneError, match="planted"):
            run.tune(PROBLEMS, effort=EFFORT, backend=Few(), store=Tripwire(store, stop_at=stop_at, after=after))  # type: ignore[arg-type]
        rest = Few()
        run.tune(PROBLEMS, effort=EFFORT, backend=rest)
        assert rest.calls == n_rounds - stop_at - after
        assert run.stored() == expected.stored()
        assert run.table().digest == expected.table().digest


def test_an_interrupted_session_can_be_resumed_from_another_process(tmp_path: Path) -> None:
    """The store is closed and opened again in between, as after kill -9."""
    path = str(tmp_path / "trials.sqlite")
    first = open_store(path)
    first.add_topology(FINGERPRINT, "{}")
    expected, _ = undisturbed(first)
    decisions = expected.table().digest
    run = begin(first)
    with pytest.raises(Interrupted):
        run.tune(PROBLEMS, effort=EFFORT, backend=Few(stop_at=11))
    assert first.sessions()[-1].state is SessionState.INTERRUPTED
    first.close()
    second = open_store(path)
    again = Run(store=second, session=run.session)
    assert again.tune(PROBLEMS, effort=EFFORT, backend=Few()).complete
    assert again.table().digest == decisions
    assert second.sessions()[-1].state is SessionState.FINISHED
    second.close()


def test_the_partial_report_lists_what_is_done(run: Run) -> None:
    run.tune(PROBLEMS, effort=EFFORT, backend=Few())
    n_rounds_of_first_cell = sum(seen.problem == PROBLEMS[0] and seen.round < AGAIN_FROM for seen in run.seen)
    stopped = begin(run.store)
    with pytest.raises(Interrupted) as caught:
        stopped.tune(PROBLEMS, effort=EFFORT, backend=Few(stop_at=n_rounds_of_first_cell))
    report = caught.value.report
    assert (report.measured, report.not_measured) == (PROBLEMS[:1], PROBLEMS[1:])
    assert [trial.config for trial in report.failures] == [FLAKY]


def test_another_error_of_the_backend_passes_through(run: Run) -> None:
    with pytest.raises(ZeroDivisionError):
        run.tune(PROBLEMS, effort=EFFORT, backend=Few(stop_at=3, error=ZeroDivisionError))
    assert run.tune(PROBLEMS, effort=EFFORT, backend=Few()).complete
