"""End to end with gloo: a backend whose knobs belong to groups is measured, a portfolio chosen, its groups made, and
every call routed and right. On NPUs only the device differs.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.backends import hccl
from autotune.backends.choice import make_backend
from autotune.backends.hccl import HcclBackend, check_installed
from autotune.backends.launch import RankPool
from autotune.backends.torch_groups import GlooBackend
from autotune.errors import BackendUnavailable, UsageError
from autotune.hccl import Soc
from autotune.measure import Failure, Timing
from autotune.portfolio import Group, Limits, Measured, Portfolio, Route, choose, dump_portfolio
from autotune.portfolio.family import GLOO, KnobFamily, Settings
from autotune.settings import read
from autotune.table import LIBRARY
from autotune.types import Collective, Config, DType, OpClass, Problem, RuleKey, SampleKind

TESTS = Path(__file__).resolve().parents[1]
CORES = tuple(sorted(os.sched_getaffinity(0)))
N = 2
pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: not installed")

THREADS = replace(LIBRARY, knobs=(("gloo_threads", 4),))
PIECES = replace(LIBRARY, knobs=(("pieces", 3),))
RING = Config(algorithm="ring")


def key(collective: Collective = Collective.ALL_REDUCE) -> RuleKey:
    return RuleKey(
        backend="gloo",
        collective=collective,
        dtype=DType.FLOAT32 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=N,
        placement=(N,),
    )


def routes(collective: Collective) -> list[Route]:
    """Three ranges: the library on a group with threads, in pieces, and our ring."""
    configs = [THREADS, PIECES, RING] if collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER) else [THREADS]
    groups = {THREADS: 1, PIECES: 0, RING: 0}
    edges = [0, 1024, 8192, 1 << 20]
    return [
        Route(key=key(collective), from_bytes=low, to_bytes=high, group=groups[config], config=config, loss=0.0)
        for low, high, config in zip(edges, edges[1:], configs, strict=False)
    ]


def portfolio(threads: int = 4) -> Portfolio:
    return Portfolio(
        backend="gloo",
        process=(),
        groups=(
            Group(name="plain", options=(), memory_bytes=0),
            Group(name="threads", options=(("gloo_threads", threads),), memory_bytes=0),
        ),
        routes=tuple(route for collective in Collective for route in routes(collective)),
        max_groups=2,
        loss=0.0,
        bound=0.0,
        proved=True,
    )


@pytest.fixture(scope="module")
def ranks() -> Iterator[RankPool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))
        with RankPool(
            N, CORES, staging_bytes=1 << 20, timeout_s=20.0, watchdog_s=60.0, module="portfolio.portfolio_rank"
        ) as pool:
            pool.ask({"do": "device", "device": "cpu"})
            yield pool


def test_every_call_is_right_and_goes_where_the_portfolio_says(ranks: RankPool) -> None:
    answers = ranks.ask({"do": "calls", "portfolio": dump_portfolio(portfolio()), "counts": [3, 700, 5000, 400000]})
    for answer in answers:
        assert answer["wrong"] == []
        assert answer["threads"] == [2, 4]
        assert answer["went"] == [
            [3, "threads", "library/gloo_threads=4"],
            [700, "plain", "library/pieces=3"],
            [5000, "plain", "ring"],
            [400000, None, "library"],
        ]


def test_ranks_with_different_portfolios_are_all_told(ranks: RankPool) -> None:
    texts = [dump_portfolio(portfolio()), dump_portfolio(portfolio(threads=3))]
    for answer in ranks.ask({"do": "open", "portfolios": [*texts], "environment": {}}):
        assert "rank(s) 1 have another portfolio than rank 0" in str(answer["said"])


def test_processes_without_the_variables_are_told(ranks: RankPool) -> None:
    needs = dump_portfolio(replace(portfolio(), process=(("HCCL_RDMA_TC", "132"),)))
    for answer in ranks.ask({"do": "open", "portfolios": [needs] * N, "environment": {}}):
        assert "export HCCL_RDMA_TC=132" in str(answer["said"])
    for answer in ranks.ask({"do": "open", "portfolios": [needs] * N, "environment": {"HCCL_RDMA_TC": "132"}}):
        assert answer["said"] == ""


def test_options_that_gloo_does_not_have_are_refused_on_every_rank(ranks: RankPool) -> None:
    none = Group(name="none", options=(("gloo_threads", 0),), memory_bytes=0)
    wrong = replace(portfolio(), groups=(none,), routes=())
    for answer in ranks.ask({"do": "open", "portfolios": [dump_portfolio(wrong)] * N, "environment": {}}):
        assert "gloo_threads is 0, not from 1 to 64" in str(answer["said"])


class WithVariables(KnobFamily):
    """Gloo's groups, and a variable of the process, of which gloo has none."""

    def process_settings(self, config: Config) -> Settings:
        return tuple(knob for knob in config.knobs if knob[0] == "TP_MADE_UP")


@pytest.fixture(scope="module")
def backend() -> Iterator[GlooBackend]:
    """One for the module: its ranks take seconds to start."""
    with closing(GlooBackend(CORES, timeout_s=20.0, family=WithVariables(backend="gloo", knobs=GLOO.knobs))) as made:
        yield made


def test_a_measured_backend_gives_a_portfolio(backend: GlooBackend) -> None:
    problems = [Problem(key=key(), message_bytes=size) for size in (4096, 2 << 20)]
    measured = []
    for number, problem in enumerate(problems):
        configs = [c for c in backend.candidates(problem) if c.algorithm == LIBRARY.algorithm]
        assert configs[0] == LIBRARY == backend.default(problem)
        outcomes = backend.measure_round(problem, configs, kind=SampleKind.FRESH, batch=number)
        assert all(isinstance(outcome, Timing) for outcome in outcomes), outcomes
        times = {c: o.time_us for c, o in zip(configs, outcomes, strict=True) if isinstance(o, Timing)}
        free = min(times, key=lambda config: times[config])
        measured.append(
            Measured(
                key=problem.key,
                from_bytes=problem.message_bytes,
                to_bytes=problem.message_bytes + 1,
                weight=1.0,
                free=free,
                free_us=times[free],
                times_us=times,
            )
        )
    assert any("pieces" in dict(config.knobs) for config in measured[1].times_us)
    bad = [replace(LIBRARY, segment_bytes=64), replace(LIBRARY, knobs=(("nonsense", 1),))]
    cut, unknown = backend.measure_round(problems[0], bad, kind=SampleKind.FRESH, batch=9)
    assert isinstance(cut, Failure)
    assert isinstance(unknown, Failure)
    assert "is not cut" in cut.message
    assert "unknown knob 'nonsense'" in unknown.message
    found = choose(measured, GLOO, Limits(max_groups=4))
    assert (found.loss, found.proved) == (0.0, True)


def test_the_hccl_backend_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="needs torch_npu, which is not installed"):
        check_installed({}, lambda name: name == "torch")
    with pytest.raises(BackendUnavailable, match="needs CANN"):
        check_installed({}, lambda name: True)
    (tmp_path / "libhccl.so").touch()
    check_installed({"LD_LIBRARY_PATH": str(tmp_path)}, lambda name: True)
    if importlib.util.find_spec("torch_npu") is None:
        with pytest.raises(BackendUnavailable, match="the backend hccl needs torch_npu"):
            make_backend("hccl", CORES, read({"HOME": str(tmp_path)}))


def test_the_hccl_backend_tries_nothing_illegal() -> None:
    of = replace(key(), backend="hccl", n_ranks=16, placement=(8, 8))
    problem = Problem(key=of, message_bytes=1 << 20)
    backend = HcclBackend(CORES, soc=Soc.A2, timeout_s=20.0)
    found = backend.candidates(problem)
    assert found[0] == backend.default(problem) == Config(algorithm="auto")
    assert backend.reference(problem) == hccl.REFERENCE
    assert {"NHR", "ring", "portable:ring"} <= {config.algorithm for config in found}
    aiv = Config(algorithm="auto", knobs=(("HCCL_OP_EXPANSION_MODE", "AIV"),))
    (outcome,) = backend.measure_round(problem, [aiv], kind=SampleKind.FRESH, batch=0)
    assert isinstance(outcome, Failure)
    assert "every communicator" in outcome.message


def test_the_gloo_backend_is_for_cpus(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the backend gloo runs on cpu"):
        make_backend("gloo", CORES, read({"HOME": str(tmp_path)}), device="npu")


def test_variables_of_a_process_get_ranks_of_their_own(backend: GlooBackend) -> None:
    other = replace(LIBRARY, knobs=(("TP_MADE_UP", "1"),))
    problem = Problem(key=key(), message_bytes=4096)
    theirs, mine = backend.measure_round(problem, [other, LIBRARY], kind=SampleKind.FRESH, batch=0)
    assert isinstance(mine, Timing)
    assert isinstance(theirs, Failure)  # the ranks' own family has no such variable, and they say so
    assert "TP_MADE_UP" in theirs.message


def test_the_document_is_json() -> None:
    assert json.loads(dump_portfolio(portfolio()))["format"] == "autotune-portfolio"
