"""NativeBackend: what it proposes, what it measures, and what it finds out about kernels that are wrong."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from autotune.backends.launch import start_here
from autotune.backends.native import NativeBackend, pair_figures
from autotune.kernels import host_numbers, shared_core_names, sharing, single_copy_fault, slices, zero_copy_names
from autotune.kernels.programs import layout_of
from autotune.kernels.schedules.registry import build, names
from autotune.measure import Failure, Timing
from autotune.types import (
    SHARED_CORES,
    Collective,
    Config,
    DType,
    Memory,
    OpClass,
    Problem,
    RuleKey,
    SampleKind,
    TrialState,
    WrongElement,
    round_up_message,
)

CORES = tuple(sorted(os.sched_getaffinity(0)))
STAGING_BYTES = 8 << 20
ZERO_COPY = (("exchange", "zero_copy"),)
SINGLE_COPY = (("exchange", "single_copy"),)


def problem(
    collective: Collective = Collective.ALL_REDUCE,
    message_bytes: int = 4096,
    n_ranks: int = 2,
    dtype: DType = DType.FLOAT32,
    op_class: OpClass = OpClass.SUM,
    memory: Memory = Memory.PRIVATE,
    placement: tuple[int, ...] = (),
) -> Problem:
    key = RuleKey(
        backend="native",
        collective=collective,
        dtype=dtype if collective.computes else None,
        op_class=op_class if collective.computes else None,
        n_ranks=n_ranks,
        placement=placement or (n_ranks,),
        memory=memory,
    )
    itemsize = dtype.itemsize if collective.computes else 1
    return Problem(key=key, message_bytes=round_up_message(collective, message_bytes, n_ranks, itemsize))


@pytest.fixture
def backend() -> Iterator[NativeBackend]:
    made = NativeBackend(CORES, staging_bytes=STAGING_BYTES, timeout_s=5.0)
    yield made
    made.close()
    made.close()  # allowed twice


@pytest.fixture
def with_fault(faults: None) -> Iterator[Callable[..., NativeBackend]]:
    """Makes backends whose ranks run a module of tests/backends/faults."""
    with ExitStack() as stack:

        def made(name: str, timeout_s: float = 5.0) -> NativeBackend:
            start = functools.partial(start_here, module=f"backends.faults.{name}")
            backend = NativeBackend(CORES, staging_bytes=STAGING_BYTES, timeout_s=timeout_s, start_ranks=start)
            stack.callback(backend.close)
            return backend

        yield made


@pytest.mark.parametrize("memory", Memory)
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("collective", Collective)
def test_candidates_do_different_things_and_hold_the_default_and_the_reference(
    collective: Collective, n_ranks: int, memory: Memory, backend: NativeBackend
) -> None:
    cores = sharing([CORES[rank % len(CORES)] for rank in range(n_ranks)])

    def does(config: Config, asked: Problem) -> tuple[object, object, int]:
        knobs, algorithm = dict(config.knobs), config.tuned_algorithm
        own = cores if SHARED_CORES in knobs else ()
        layout = layout_of(n_ranks, 0, own or None)
        steps = tuple(frozenset(step) for step in build(collective, algorithm, n_ranks, layout).expand())
        dtype, size = asked.timed_dtype, asked.message_bytes
        assert config.segment_bytes is not None
        staging_bytes = 1 << 50 if "exchange" in knobs else STAGING_BYTES
        cut = slices(collective, algorithm, n_ranks, size, dtype, config.segment_bytes, staging_bytes, cores=own)
        return steps, config.knobs, cut

    for message_bytes in (0, 8, 1000, 64 << 10, 1 << 20, 8 << 20, 64 << 20):
        asked = problem(collective, message_bytes, n_ranks, memory=memory)
        candidates = backend.candidates(asked)
        plans = [does(config, asked) for config in candidates]
        assert len(set(plans)) == len(plans), [str(config) for config in candidates]
        assert {config.algorithm for config in candidates} <= set(names(collective, n_ranks))
        shared = memory is Memory.SYMMETRIC and zero_copy_names(collective, n_ranks) != ()
        assert any(config.knobs == ZERO_COPY for config in candidates) == shared
        read = memory is Memory.PRIVATE and message_bytes >= 32 << 10 and n_ranks > 1 and single_copy_fault() is None
        assert any(config.knobs == SINGLE_COPY for config in candidates) == read
        crowds = memory is Memory.PRIVATE and message_bytes < 16 << 20 <= 2 * message_bytes * n_ranks
        assert any(config.knobs == (("stores", "streamed"),) for config in candidates) == crowds
        for_shared = shared_core_names(collective, cores, zero_copy=memory is Memory.SYMMETRIC)
        assert {c.tuned_algorithm for c in candidates if SHARED_CORES in dict(c.knobs)} == set(for_shared)
        assert backend.default(asked) in candidates
        reference = backend.reference(asked)
        assert (reference is not None) == ("ring" in names(collective, n_ranks))
        if reference is not None:
            assert does(reference, asked) in plans


@pytest.mark.parametrize("placement", [(1, 1, 1, 1), (2, 2), (2, 3), (2, 2, 2, 2)])
def test_candidates_on_several_hosts_have_the_hierarchical_ones_that_differ(
    placement: tuple[int, ...], backend: NativeBackend
) -> None:
    n, hosts = sum(placement), host_numbers(placement)
    layout = layout_of(n, 0, hosts)
    asked = problem(Collective.ALL_REDUCE, 1 << 20, n, placement=placement)
    found = {config.algorithm for config in backend.candidates(asked)}
    assert found <= set(names(Collective.ALL_REDUCE, n, layout))
    steps = {
        name: tuple(frozenset(step) for step in build(Collective.ALL_REDUCE, name, n, layout).expand())
        for name in names(Collective.ALL_REDUCE, n, layout)
    }
    tried = {steps[name] for name in found}
    assert len(tried) == len(found)
    # Of equal ones the default's name stands for all.
    assert (steps.get("hierarchical") in tried) == (steps.get("leaders") in tried) == (max(placement) > 1)
    ring = steps.get("hierarchical_ring")
    assert (ring in tried and ring != steps["hierarchical"]) == (len(placement) > 2 and max(placement) > 1)


@pytest.mark.parametrize("collective", Collective)
def test_a_round_times_every_config_in_the_order_given(collective: Collective, backend: NativeBackend) -> None:
    asked = problem(collective, 3000, n_ranks=3)
    configs = [Config(algorithm=name, segment_bytes=1024) for name in names(collective, 3)]
    for kind in SampleKind:
        outcomes = backend.measure_round(asked, configs, kind=kind, batch=3)
        assert len(outcomes) == len(configs)
        assert all(isinstance(outcome, Timing) for outcome in outcomes), outcomes


@pytest.mark.parametrize("collective", Collective)
def test_candidates_of_symmetric_memory_run_in_it(collective: Collective, backend: NativeBackend) -> None:
    """Sizes that grow, so that buffers are freed and allocated anew between rounds; private memory in between."""
    for batch, message_bytes in enumerate((64, 3000, 300_000)):
        for memory in (Memory.SYMMETRIC, Memory.PRIVATE):
            asked = problem(collective, message_bytes, n_ranks=3, memory=memory)
            for kind in SampleKind:
                candidates = backend.candidates(asked)
                outcomes = backend.measure_round(asked, candidates, kind=kind, batch=batch)
                assert all(isinstance(outcome, Timing) for outcome in outcomes), outcomes


def test_a_config_that_is_for_symmetric_memory_only_is_invalid_in_private_memory(backend: NativeBackend) -> None:
    default = backend.default(problem(message_bytes=1 << 20, memory=Memory.SYMMETRIC))
    assert default.knobs == ZERO_COPY
    outcomes = backend.measure_round(problem(), [default, backend.default(problem())], kind=SampleKind.FRESH, batch=0)
    assert isinstance(outcomes[0], Failure)
    assert outcomes[0].state is TrialState.INVALID
    assert isinstance(outcomes[1], Timing)


@pytest.mark.parametrize("dtype", DType)
def test_every_type_is_measured(dtype: DType, backend: NativeBackend) -> None:
    asked = problem(dtype=dtype, n_ranks=3)
    (outcome,) = backend.measure_round(asked, [backend.default(asked)], kind=SampleKind.FRESH, batch=0)
    assert isinstance(outcome, Timing)


@pytest.mark.parametrize("op_class", OpClass)
def test_every_class_of_operations_is_measured(op_class: OpClass, backend: NativeBackend) -> None:
    asked = problem(op_class=op_class)
    (outcome,) = backend.measure_round(asked, [backend.default(asked)], kind=SampleKind.FRESH, batch=0)
    assert isinstance(outcome, Timing), outcome


def test_large_calls_are_timed_alone(backend: NativeBackend) -> None:
    asked = problem(message_bytes=8 << 20)
    (outcome,) = backend.measure_round(asked, [backend.default(asked)], kind=SampleKind.FRESH, batch=1)
    assert isinstance(outcome, Timing)
    assert outcome.batch_calls == 1


def test_the_number_of_ranks_may_change_between_rounds(backend: NativeBackend) -> None:
    for n_ranks in (2, 3, 1, 2):
        asked = problem(n_ranks=n_ranks)
        (outcome,) = backend.measure_round(asked, [backend.default(asked)], kind=SampleKind.FRESH, batch=n_ranks)
        assert isinstance(outcome, Timing)


@pytest.mark.parametrize("memory", Memory)
@pytest.mark.parametrize("kind", SampleKind)
def test_a_wrong_element_in_a_timed_buffer_is_found(
    kind: SampleKind, memory: Memory, with_fault: Callable[..., NativeBackend]
) -> None:
    backend = with_fault("wrong_output")
    asked = problem(dtype=DType.INT32, memory=memory)
    (outcome,) = backend.measure_round(asked, [backend.default(asked)], kind=kind, batch=0)
    assert isinstance(outcome, Failure)
    assert outcome.state is TrialState.WRONG_RESULT
    wrong = outcome.wrong
    assert isinstance(wrong, WrongElement)
    assert (wrong.rank, wrong.index) == (1, 5)
    assert abs(int(wrong.got) - int(wrong.expected)) == 1
    assert outcome.message == f"rank 1 has {wrong.got} at element 5, expected {wrong.expected}"


@pytest.mark.parametrize("memory", Memory)
def test_a_rounding_that_differs_between_ranks_is_found(
    memory: Memory, with_fault: Callable[..., NativeBackend]
) -> None:
    backend = with_fault("wrong_rounding")
    asked = problem(memory=memory)
    (outcome,) = backend.measure_round(asked, [backend.default(asked)], kind=SampleKind.FRESH, batch=0)
    assert isinstance(outcome, Failure)
    assert outcome.state is TrialState.WRONG_RESULT
    assert outcome.message == "ranks 0 and 1 hold different bytes after the same all_reduce of random values"


@pytest.mark.parametrize(("fault", "state"), [("ring_dies", TrialState.CRASHED), ("ring_hangs", TrialState.TIMEOUT)])
def test_a_config_that_dies_or_hangs_costs_the_others_nothing(
    fault: str, state: TrialState, with_fault: Callable[..., NativeBackend]
) -> None:
    backend = with_fault(fault, timeout_s=1.0)
    configs = [Config(algorithm=name, segment_bytes=4096) for name in ("direct", "ring", "flat")]
    direct, ring, flat = backend.measure_round(problem(), configs, kind=SampleKind.FRESH, batch=0)
    assert isinstance(direct, Timing)
    assert isinstance(flat, Timing)
    assert isinstance(ring, Failure)
    assert ring.state is state, ring.message
    assert "rank 1" in ring.message


def test_figures_of_a_pair_of_cores() -> None:
    latency_us, bandwidth = pair_figures(CORES[0], CORES[-1], staging_bytes=STAGING_BYTES, timeout_s=10.0)
    assert 0.0 < latency_us < 10_000.0
    assert 0.01 < bandwidth < 10_000.0


def test_all_configs_of_a_cell_are_timed_as_its_default_is(backend: NativeBackend) -> None:
    """A call timed alone and one of a batch do not compare, and near 20 us some configs would be either."""
    for size in (1024, 4096, 16384, 65536):
        cell = problem(message_bytes=size, n_ranks=4)
        configs = [c for c in backend.candidates(cell) if c.codec == "none"]
        outcomes = backend.measure_round(cell, configs, kind=SampleKind.FRESH, batch=0)
        timings = [outcome for outcome in outcomes if isinstance(outcome, Timing)]
        assert len(timings) == len(configs)
        assert len({timing.batch_calls == 1 for timing in timings}) == 1
