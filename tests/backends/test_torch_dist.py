"""TorchBackend over gloo: what it proposes, what it measures and finds wrong, and a run that ends in a table."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.backends import torch_dist
from autotune.backends.choice import make_backend
from autotune.backends.torch_dist import TorchBackend
from autotune.db import open_store
from autotune.errors import BackendUnavailable, UsageError
from autotune.kernels.schedules.registry import names
from autotune.measure import QUICK, Failure, Timing
from autotune.plan import Plan
from autotune.run import run_plan
from autotune.runtime import Selector, find_table
from autotune.settings import read
from autotune.space import CODECS
from autotune.table import LIBRARY
from autotune.types import (
    Collective,
    Config,
    DType,
    Memory,
    OpClass,
    Problem,
    RuleKey,
    SampleKind,
    TrialState,
    round_up_message,
)

CORES = tuple(sorted(os.sched_getaffinity(0)))
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: not installed")


def problem(
    collective: Collective = Collective.ALL_REDUCE,
    message_bytes: int = 4096,
    n_ranks: int = 2,
    dtype: DType = DType.FLOAT32,
    memory: Memory = Memory.PRIVATE,
) -> Problem:
    key = RuleKey(
        backend="torch",
        collective=collective,
        dtype=dtype if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
        memory=memory,
    )
    itemsize = dtype.itemsize if collective.computes else 1
    return Problem(key=key, message_bytes=round_up_message(collective, message_bytes, n_ranks, itemsize))


@pytest.fixture(scope="module")
def backend() -> Iterator[TorchBackend]:
    """One for the module: its ranks take seconds to start."""
    made = TorchBackend(CORES, timeout_s=20.0)
    made.measure_round(problem(), [LIBRARY], kind=SampleKind.FRESH, batch=0)
    yield made
    made.close()


@needs_torch
@pytest.mark.parametrize("collective", Collective)
@pytest.mark.parametrize("message_bytes", [8, 64 << 10, 64 << 20])
def test_candidates_are_the_librarys_collective_and_every_schedule(
    collective: Collective, message_bytes: int, backend: TorchBackend
) -> None:
    asked = problem(collective, message_bytes, n_ranks=4)
    candidates = backend.candidates(asked)
    assert candidates[0] == backend.default(asked) == LIBRARY
    assert len(set(candidates)) == len(candidates)
    whole = {config.algorithm for config in candidates[1:] if config.segment_bytes is None}
    assert whole == {config.algorithm for config in candidates[1:]} <= set(names(collective, 4))
    assert any(config.segment_bytes for config in candidates) == (message_bytes == 64 << 20)
    reference = backend.reference(asked)
    assert reference in candidates if "ring" in names(collective, 4) else reference is None


@needs_torch
def test_symmetric_memory_is_refused(backend: TorchBackend) -> None:
    with pytest.raises(UsageError, match="the backend torch has no symmetric memory"):
        backend.candidates(problem(memory=Memory.SYMMETRIC))


@needs_torch
@pytest.mark.parametrize("collective", Collective)
def test_a_round_times_the_library_and_schedules_in_the_order_given(
    collective: Collective, backend: TorchBackend
) -> None:
    asked = problem(collective, 3000, n_ranks=2)
    configs = [LIBRARY, *(Config(algorithm=name) for name in names(collective, 2)[:2])]
    configs.append(replace(configs[-1], segment_bytes=512))
    for kind in SampleKind:
        outcomes = backend.measure_round(asked, configs, kind=kind, batch=3)
        assert len(outcomes) == len(configs)
        assert all(isinstance(outcome, Timing) for outcome in outcomes), outcomes


@needs_torch
def test_types_and_configs_that_cannot_run(backend: TorchBackend) -> None:
    configs = [LIBRARY, replace(LIBRARY, segment_bytes=64), Config(algorithm="ring", codec="int9")]
    for dtype in DType:
        good, *bad = backend.measure_round(problem(dtype=dtype), configs, kind=SampleKind.FRESH, batch=1)
        assert isinstance(good, Timing), (dtype, good)
        for outcome in bad:
            assert isinstance(outcome, Failure)
            assert outcome.state is TrialState.INVALID


@needs_torch
def test_with_an_error_budget_codecs_are_tried_and_judged_on_the_data() -> None:
    key = replace(problem(message_bytes=48 << 10, n_ranks=3).key, max_error=0.05)
    asked = Problem(key=key, message_bytes=48 << 10)
    with closing(TorchBackend(CORES, timeout_s=20.0, data="normal")) as backend:
        lossy = [config for config in backend.candidates(asked) if config.codec != "none"]
        assert {config.codec for config in lossy} == set(CODECS)
        assert "recursive_doubling" not in {config.algorithm for config in lossy}
        for none in (
            replace(key, max_error=None),
            replace(key, dtype=DType.INT32),
            replace(key, op_class=OpClass.PROD),
            replace(key, collective=Collective.ALL_GATHER, dtype=None, op_class=None),
        ):
            assert not any(c.codec != "none" for c in backend.candidates(replace(asked, key=none)))
        configs = [LIBRARY, *(Config(algorithm="ring", codec=codec) for codec in ("int8", "threshold(0.5)", "int4"))]
        for batch in range(2):
            library, int8, kept, int4 = backend.measure_round(asked, configs, kind=SampleKind.FRESH, batch=batch)
            assert isinstance(library, Timing), library
            assert library.fidelity is None
            assert isinstance(int8, Timing), int8
            assert int8.fidelity is not None
            assert 0.0005 < int8.fidelity.error < 0.03
            for too_far in (kept, int4):
                assert isinstance(too_far, Failure)
                assert too_far.state is TrialState.INVALID
                assert too_far.message.endswith("of its norm on the data, above 0.05")


@needs_torch
def test_hierarchical_schedules_are_candidates_over_several_hosts(backend: TorchBackend) -> None:
    asked = problem(message_bytes=1 << 20, n_ranks=4)
    over_hosts = replace(asked, key=replace(asked.key, placement=(2, 2)))
    found = {config.algorithm for config in backend.candidates(over_hosts)}
    assert "hierarchical" in found
    assert {config.algorithm for config in backend.candidates(asked)} < found


@needs_torch
def test_one_rank_alone() -> None:
    configs = [LIBRARY, Config(algorithm="ring")]
    with closing(TorchBackend(CORES, timeout_s=20.0)) as alone:
        outcomes = alone.measure_round(problem(n_ranks=1), configs, kind=SampleKind.FRESH, batch=0)
    assert all(isinstance(outcome, Timing) for outcome in outcomes), outcomes


@needs_torch
def test_a_wrong_element_in_a_timed_buffer_is_found(faults: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_dist, "_WORKER", "backends.faults.torch_wrong_output")
    with closing(TorchBackend(CORES, timeout_s=20.0)) as backend:
        asked = problem(dtype=DType.INT32)
        for config in (LIBRARY, Config(algorithm="ring")):
            (outcome,) = backend.measure_round(asked, [config], kind=SampleKind.FRESH, batch=0)
            assert isinstance(outcome, Failure)
            assert outcome.state is TrialState.WRONG_RESULT
            assert "rank 1" in outcome.message
            assert "at element 5, expected" in outcome.message


@needs_torch
def test_a_config_that_hangs_costs_the_others_nothing(faults: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_dist, "_WORKER", "backends.faults.torch_ring_stops")
    with closing(TorchBackend(CORES, timeout_s=2.0)) as backend:
        configs = [Config(algorithm="ring"), LIBRARY]
        ring, library = backend.measure_round(problem(), configs, kind=SampleKind.FRESH, batch=0)
    assert isinstance(library, Timing)
    assert isinstance(ring, Failure)
    assert ring.state is TrialState.TIMEOUT
    assert "rank 1 hung" in ring.message


@needs_torch
def test_a_device_that_is_not_there_ends_the_run() -> None:
    with (
        closing(TorchBackend(CORES, timeout_s=20.0, device="npu")) as backend,
        pytest.raises(BackendUnavailable, match=r"torch knows no device 'npu'|there are 0") as caught,
    ):
        backend.measure_round(problem(n_ranks=1), [LIBRARY], kind=SampleKind.FRESH, batch=0)
    assert "--ranks against the devices" in caught.value.remedy


def test_without_torch_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as the import system sees a module that is not there
    with pytest.raises(BackendUnavailable, match="needs PyTorch, which is not installed") as caught:
        make_backend("torch", CORES, read({}))
    assert caught.value.remedy == "pip install torch, or use --backend native"


@pytest.mark.parametrize(
    ("name", "device", "words"),
    [("ucc", "cpu", "unknown backend 'ucc'"), ("native", "npu", "the backend native runs on cpu, not on npu")],
)
def test_words_that_name_no_backend(name: str, device: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_backend(name, CORES, read({}), device=device)


@needs_torch
def test_a_run_ends_in_a_table_of_its_own(tmp_path: Path) -> None:
    settings = read(
        {"AUTOTUNE_DATA_DIR": str(tmp_path / "data"), "AUTOTUNE_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    )
    plan = Plan(collectives=(Collective.ALL_REDUCE,), sizes=(4096,), ranks=(2,), dtypes=(DType.FLOAT32,), effort=QUICK)
    result = run_plan(plan, settings, command="autotune run --backend torch", backend="torch")
    assert result.path is not None
    assert result.path.name == "torch-v000001.json"
    assert result.session.environment["device"] == "cpu"
    with closing(open_store(settings.db)) as store:
        trials = store.trials(session_id=result.session.session_id)
    assert {trial.problem.key.backend for trial in trials} == {"torch"}
    assert {"library", "ring"} <= {trial.config.algorithm for trial in trials}
    assert {trial.state for trial in trials} == {TrialState.OK}

    asked = {"message_bytes": 4096, "n_ranks": 2}
    found = Selector(find_table(settings, "torch")).select("all_reduce", backend="torch", **asked)  # type: ignore[arg-type] # whole numbers
    assert found.tuned
    assert found.config == next(iter(result.decided.values())).config
    native = find_table(settings)
    assert native.why_shipped == "this host has no table yet: run `autotune run`"
