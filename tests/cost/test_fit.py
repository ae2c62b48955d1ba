"""Parameters are found again from the times that they make, and stay where the times say nothing of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cost.cases import fat_tree, model_of, problem_of

from autotune.cost import HostModel, HostParameters, NetworkParameters, Timed, fit_host, fit_network, timed
from autotune.types import Collective, Config, Phase, Sample, SampleKind, Trial, TrialState

HOST = HostModel(n_ranks=2, n_cores=2, l2_bytes=1 << 20, l3_bytes=32 << 20, staging_bytes=8 << 20)
SIZES = [1 << k for k in range(3, 25, 3)]
SEGMENTS = (16 << 10, 256 << 10)


def times_of(model: HostModel, noise: float = 0.0) -> list[Timed]:
    luck = np.random.default_rng(5)
    found = []
    for n_ranks in (2, 4):
        own = replace(model, n_ranks=n_ranks)
        for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.BROADCAST):
            for algorithm in own.algorithms(collective):
                for size in SIZES:
                    for segment in SEGMENTS:
                        problem = problem_of(collective, n_ranks, size)
                        config = Config(algorithm=algorithm, segment_bytes=segment)
                        time_us = own.price(problem, config).time_us * float(np.exp(luck.normal(0.0, noise)))
                        found.append(Timed(problem=problem, config=config, time_us=time_us))
    return found


def worst(model: HostModel, measured: list[Timed]) -> float:
    prices = [
        replace(model, n_ranks=one.problem.key.n_ranks).price(one.problem, one.config).time_us for one in measured
    ]
    return max(abs(price / one.time_us - 1) for price, one in zip(prices, measured, strict=True))


def test_a_host_of_another_speed_is_found() -> None:
    luck = np.random.default_rng(1)
    usual = HostParameters().vector()
    other = replace(HOST, parameters=HostParameters.of(usual * luck.uniform(0.5, 3.0, len(usual))))
    measured = times_of(other)
    assert worst(HOST, measured) > 0.5
    assert worst(fit_host(HOST, measured), measured) < 0.03


def test_a_few_times_that_are_far_off_do_not_decide() -> None:
    measured = times_of(HOST, noise=0.02)
    spoiled = [replace(one, time_us=one.time_us * (20.0 if i % 25 == 0 else 1.0)) for i, one in enumerate(measured)]
    sound = [one for i, one in enumerate(measured) if i % 25]
    assert worst(fit_host(HOST, spoiled), sound) < 0.15


def test_without_times_nothing_changes() -> None:
    assert fit_host(HOST, []) == HOST


def test_no_cost_vanishes() -> None:
    """Two times of a broadcast that would be explained by its bytes alone leave calls and messages something."""
    few = [
        Timed(
            problem=problem_of(Collective.BROADCAST, 2, size),
            config=Config(algorithm="flat", segment_bytes=256 << 10),
            time_us=1e-4 * size / 1024,
        )
        for size in (1 << 10, 64 << 10)
    ]
    fitted = fit_host(HOST, few)
    assert (fitted.parameters.vector() >= 0.01 * HOST.parameters.vector() - 1e-12).all()
    for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER):
        for algorithm in fitted.algorithms(collective):
            config = Config(algorithm=algorithm, segment_bytes=64 << 10)
            assert fitted.price(problem_of(collective, 2, 8), config).time_us > 0.0


def test_what_the_times_say_nothing_of_stays() -> None:
    """Two ranks on two cores never switch, and have nobody near."""
    own = [one for one in times_of(HOST) if one.problem.key.n_ranks == 2]
    doubled = [replace(one, time_us=2 * one.time_us) for one in own]
    found = fit_host(HOST, doubled).parameters
    assert found.message_us == pytest.approx(2 * HOST.parameters.message_us, rel=0.05)
    for name in ("switch_us", "crowd_us", "near_shared"):
        assert getattr(found, name) == pytest.approx(getattr(HOST.parameters, name), rel=1e-3)


def test_a_network_of_another_speed_is_found() -> None:
    true = NetworkParameters(
        call_us=3.0, message_us=0.4, turn_us=2.0, latency_share=1.5, wire_share=1.3, reduce_us_per_kb=0.02
    )
    model = model_of(fat_tree(2), true)
    measured = []
    for algorithm in ("ring", "tree", "bruck", "direct", "recursive_doubling"):
        for size in SIZES:
            problem, config = problem_of(Collective.ALL_REDUCE, 16, size), Config(algorithm=algorithm)
            measured.append(Timed(problem=problem, config=config, time_us=model.price(problem, config).time_us))
    found = fit_network(replace(model, parameters=NetworkParameters()), measured).parameters
    assert found.vector() == pytest.approx(true.vector(), rel=0.05)


def test_trials_become_times() -> None:
    def trial(state: TrialState, *times_us: float, kind: SampleKind = SampleKind.FRESH) -> Trial:
        samples = tuple(
            Sample(kind=kind, phase=Phase.RACE, round=i, position=0, batch_calls=1, time_us=time_us)
            for i, time_us in enumerate(times_us)
        )
        return Trial(
            trial_id=None,
            session_id=1,
            problem=problem_of(Collective.ALL_REDUCE, 2, 8),
            config=Config(algorithm="ring"),
            state=state,
            samples=samples,
        )

    found = timed(
        [
            trial(TrialState.OK, 3.0, 1.0, 2.0),
            trial(TrialState.CRASHED, 1.0),
            trial(TrialState.OK),
            trial(TrialState.OK, 5.0, kind=SampleKind.STEADY),
        ]
    )
    assert [one.time_us for one in found] == [2.0]


def test_a_parameter_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="call_us is -1"):
        NetworkParameters(call_us=-1.0)
