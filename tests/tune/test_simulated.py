"""The simulated machine keeps the backend's contract."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.backends.simulated import DEFAULT, REFERENCE, Machine, SimulatedBackend, model_us, simulated_defaults
from autotune.cost import HostModel
from autotune.measure import Backend, Failure, Timing
from autotune.plan import quick_plan
from autotune.types import Problem, SampleKind, TrialState

PROBLEMS = quick_plan(2).problems("simulated")
QUIET = Machine(noise=0.0)


def times(backend: Backend, problem: Problem, batch: int, kind: SampleKind = SampleKind.FRESH) -> list[float]:
    found = []
    for outcome in backend.measure_round(problem, backend.candidates(problem), kind=kind, batch=batch):
        assert isinstance(outcome, Timing)
        found.append(outcome.time_us)
    return found


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[-1]], ids=str)
def test_default_and_reference_are_candidates(problem: Problem) -> None:
    backend: Backend = SimulatedBackend()
    assert backend.default(problem) == DEFAULT == simulated_defaults().lookup(problem.key, 8)
    assert {DEFAULT, REFERENCE} <= set(backend.candidates(problem))
    assert 6 <= len(backend.candidates(problem)) <= 40


def test_samples_depend_on_the_seed_and_the_batch_alone() -> None:
    problem = PROBLEMS[5]
    first, again, other = SimulatedBackend(seed=1), SimulatedBackend(seed=1), SimulatedBackend(seed=2)
    expected = times(first, problem, batch=3)
    times(again, problem, batch=2)
    assert times(again, problem, batch=3) == expected
    assert times(again, problem, batch=4) != expected
    assert times(again, problem, batch=3, kind=SampleKind.STEADY) != expected
    assert times(other, problem, batch=3) != expected


def test_without_noise_a_sample_is_the_model() -> None:
    problem = PROBLEMS[-1]
    backend = SimulatedBackend(QUIET)
    expected = [model_us(QUIET, problem, config) for config in backend.candidates(problem)]
    assert times(backend, problem, batch=0) == pytest.approx(expected)


def test_the_model_has_something_to_tune() -> None:
    """Latency decides for small messages and bandwidth for large ones, and segments help long schedules."""
    small, large = PROBLEMS[32], PROBLEMS[39]
    assert (small.message_bytes, large.message_bytes, small.key.n_ranks) == (8, 4 << 20, 4)
    chain = replace(REFERENCE, algorithm="chain")
    assert model_us(QUIET, small, replace(DEFAULT, algorithm="flat")) < model_us(QUIET, small, REFERENCE) / 2
    assert model_us(QUIET, large, REFERENCE) < model_us(QUIET, large, replace(DEFAULT, algorithm="flat")) / 1.9
    assert model_us(QUIET, large, chain) < model_us(QUIET, large, replace(chain, segment_bytes=4 << 20)) / 2


def test_a_slow_phase_falls_on_the_whole_round() -> None:
    problem = PROBLEMS[3]
    quiet = times(SimulatedBackend(QUIET), problem, batch=0)
    backend = SimulatedBackend(replace(QUIET, slow_phase_rate=0.5))
    factors = set()
    for batch in range(20):
        slowed = times(backend, problem, batch)
        (factor,) = {round(t / q, 6) for t, q in zip(slowed, quiet, strict=True)}
        factors.add(factor)
    assert factors == {1.0, 3.0}
    spiked = times(SimulatedBackend(replace(QUIET, spike_rate=0.5)), problem, batch=0)
    assert {round(t / q, 6) for t, q in zip(spiked, quiet, strict=True)} == {1.0, 10.0}


def test_faults_are_outcomes_and_spare_the_others() -> None:
    planted = Failure(state=TrialState.TIMEOUT, message="no answer from rank 1 in 30 s")
    problem = PROBLEMS[0]
    backend = SimulatedBackend(fault=lambda p, config, batch: planted if config == REFERENCE and batch == 1 else None)
    configs = backend.candidates(problem)
    assert all(isinstance(o, Timing) for o in backend.measure_round(problem, configs, kind=SampleKind.FRESH, batch=0))
    outcomes = backend.measure_round(problem, configs, kind=SampleKind.FRESH, batch=1)
    assert [c for c, o in zip(configs, outcomes, strict=True) if o is planted] == [REFERENCE]


def test_short_calls_are_batched_and_time_passes() -> None:
    backend = SimulatedBackend(QUIET)
    small, large = (backend.measure_round(p, [DEFAULT], kind=SampleKind.FRESH, batch=0)[0] for p in PROBLEMS[::39][:2])
    assert isinstance(small, Timing)
    assert isinstance(large, Timing)
    assert small.batch_calls * small.time_us >= 200.0
    assert large.batch_calls == 1
    assert backend.clock() > large.time_us * 1e-6
    backend.close()
    backend.close()


def test_any_cost_model_may_give_the_times() -> None:
    def on_cpus(n_ranks: int) -> HostModel:
        return HostModel(n_ranks=n_ranks, n_cores=2, l2_bytes=1 << 20, l3_bytes=32 << 20, staging_bytes=8 << 20)

    machine = Machine(noise=0.0, models=on_cpus)
    problem = PROBLEMS[39]
    backend = SimulatedBackend(machine)
    expected = [on_cpus(problem.key.n_ranks).price(problem, c).time_us for c in backend.candidates(problem)]
    assert times(backend, problem, batch=0) == pytest.approx(expected)
    assert expected != pytest.approx([model_us(QUIET, problem, config) for config in backend.candidates(problem)])
