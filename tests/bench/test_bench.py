"""The rounds of ``autotune bench`` on the simulated machine: what is paired with what, and what a failure costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from table_strategies import ALL_REDUCE_4, defaults, sample_table

from autotune.backends.simulated import DEFAULT, Machine, SimulatedBackend
from autotune.bench import (
    Cell,
    Request,
    bench,
    cells_of,
    contenders,
    host_with_links,
    slowest_neighbour_link,
)
from autotune.db import open_store
from autotune.errors import AutotuneError, UsageError
from autotune.measure import Failure, Outcome
from autotune.runtime import Selector, Source
from autotune.topology.devices import Core, Cpu, Host
from autotune.topology.document import to_json
from autotune.topology.fingerprint import fingerprint
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, Provenance
from autotune.topology.probes.linux import collect, parse
from autotune.types import Collective, Config, DType, Memory, Problem, ReduceOp, SampleKind, TrialState

RING = Config(algorithm="ring", segment_bytes=65536)
TREE = Config(algorithm="tree", segment_bytes=65536)
REQUEST = Request(
    collective=Collective.ALL_REDUCE, sizes=(1024, 65536), ranks=(2, 4), dtype=DType.FLOAT32, op=ReduceOp.SUM
)


class Watched(SimulatedBackend):
    """Remembers every round."""

    def __init__(self, fault: Callable[[Problem, Config, int], Failure | None] | None = None) -> None:
        super().__init__(fault=fault)
        self.rounds: list[tuple[Problem, list[Config], SampleKind, int]] = []

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        self.rounds.append((problem, list(configs), kind, batch))
        return super().measure_round(problem, configs, kind=kind, batch=batch)


def cells(*configs: Config, request: Request = REQUEST) -> tuple[Cell, ...]:
    backend = SimulatedBackend()
    competing = contenders(backend, fixed_configs=configs, with_default=False, source=None, op=request.op)
    return cells_of(request, competing, backend.name)


def test_every_contender_runs_once_in_every_round_on_fresh_buffers_in_changing_order() -> None:
    backend = Watched()
    found = list(bench(cells(RING, TREE), backend=backend, n_rounds=20))
    assert len(found) == 4
    assert len(backend.rounds) == 4 * 20
    assert {kind for _, _, kind, _ in backend.rounds} == {SampleKind.FRESH}
    assert all(sorted(map(str, configs)) == ["ring/64KiB", "tree/64KiB"] for _, configs, _, _ in backend.rounds)
    first = [configs[0] for problem, configs, _, _ in backend.rounds if problem == backend.rounds[0][0]]
    assert 3 < first.count(RING) < 17
    assert [batch for problem, _, _, batch in backend.rounds if problem == backend.rounds[0][0]] == list(range(20))


def test_rank_counts_are_outermost_so_that_ranks_are_started_once() -> None:
    found = [(cell.problem.key.n_ranks, cell.problem.message_bytes) for cell in cells(RING)]
    assert found == [(2, 1024), (2, 65536), (4, 1024), (4, 65536)]


def test_the_gain_is_the_ratio_of_paired_times_however_the_host_drifts() -> None:
    machine = Machine(noise=0.01, slow_phase_rate=0.5)
    backend = SimulatedBackend(machine, time_us=lambda problem, config: 30.0 if config == RING else 20.0)
    for first, second in bench(cells(RING, TREE), backend=backend, n_rounds=15):
        assert first.gain is None
        assert second.gain is not None
        assert second.gain.median == pytest.approx(1.5, rel=0.03)
        assert second.gain.low is not None
        assert second.gain.low > 1.4
        assert second.gain.n_rounds == 15


def test_a_config_that_fails_is_given_up_and_costs_the_others_nothing() -> None:
    failure = Failure(state=TrialState.TIMEOUT, message="no answer from rank(s) 1 within 60 s")
    backend = Watched(fault=lambda problem, config, batch: failure if config == TREE and batch == 2 else None)
    first, second = next(bench(cells(RING, TREE), backend=backend, n_rounds=9))
    assert (first.time_us is not None, first.failure) == (True, None)
    assert first.time_us is not None
    assert first.time_us.n_values == 9
    assert (second.failure, second.time_us, second.gain) == (failure, None, None)
    assert [len(configs) for _, configs, _, _ in backend.rounds[:9]] == [2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_without_a_baseline_there_is_no_gain() -> None:
    failure = Failure(state=TrialState.CRASHED, message="rank 1 ended")
    backend = SimulatedBackend(fault=lambda problem, config, batch: failure if config == RING else None)
    first, second = next(bench(cells(RING, TREE), backend=backend, n_rounds=9))
    assert first.failure == failure
    assert (second.failure, second.gain) == (None, None)
    assert second.time_us is not None


def test_nothing_is_measured_once_everybody_has_failed() -> None:
    failure = Failure(state=TrialState.CRASHED, message="rank 1 ended")
    backend = Watched(fault=lambda problem, config, batch: failure)
    found = next(bench(cells(RING, TREE), backend=backend, n_rounds=9))
    assert all(result.failure == failure for result in found)
    assert len(backend.rounds) == 1


def test_one_config_under_two_names_is_measured_once() -> None:
    backend = Watched()
    competing = contenders(backend, fixed_configs=[DEFAULT], with_default=True, source=None, op=ReduceOp.SUM)
    first, second = next(bench(cells_of(REQUEST, competing, "native"), backend=backend, n_rounds=9))
    assert [configs for _, configs, _, _ in backend.rounds[:9]] == [[DEFAULT]] * 9
    assert (first.same_as_first, second.same_as_first) == (False, True)
    assert second.time_us == first.time_us
    assert second.gain is None


def test_the_default_runs_where_nothing_else_is_named() -> None:
    backend = SimulatedBackend()
    competing = contenders(backend, fixed_configs=[], with_default=False, source=None, op=ReduceOp.SUM)
    assert [entry.contender for entry in cells_of(REQUEST, competing, "native")[0].entries] == ["default"]


def test_the_tuned_config_is_what_a_job_would_get() -> None:
    source = Source(table=sample_table(), origin="the given table")
    request = replace(REQUEST, sizes=(4, 4096), ranks=(4,))
    competing = contenders(SimulatedBackend(), fixed_configs=[RING], with_default=True, source=source, op=ReduceOp.SUM)
    outside, inside = cells_of(request, competing, "native")
    assert [entry.contender for entry in inside.entries] == ["ring/64KiB", "default", "tuned"]
    for cell, has_rule in ((outside, False), (inside, True)):
        choice = Selector(source).select("all_reduce", message_bytes=cell.problem.message_bytes, n_ranks=4)
        assert (cell.entries[2].config, cell.entries[2].has_rule) == (choice.config, has_rule)
    assert outside.entries[2].config == defaults().lookup(ALL_REDUCE_4, 4)


def test_symmetric_memory_has_its_own_rules_and_defaults() -> None:
    zero_copy = Config(algorithm="direct", segment_bytes=1 << 30, knobs=(("exchange", "zero_copy"),))
    table = sample_table()
    row = replace(table.defaults.rows[0], collective=Collective.ALL_REDUCE, from_bytes=0, config=zero_copy)
    rows = (*table.defaults.rows, replace(row, memory=Memory.SYMMETRIC))
    source = Source(table=replace(table, defaults=replace(table.defaults, rows=rows)), origin="the given table")
    request = replace(REQUEST, sizes=(4096,), ranks=(4,), memory=Memory.SYMMETRIC)
    competing = contenders(SimulatedBackend(), fixed_configs=[], with_default=False, source=source, op=ReduceOp.SUM)
    (cell,) = cells_of(request, competing, "native")
    assert cell.problem.key.memory is Memory.SYMMETRIC
    assert [(entry.config, entry.has_rule) for entry in cell.entries] == [(zero_copy, False)]
    (private,) = cells_of(replace(request, memory=Memory.PRIVATE), competing, "native")
    assert [entry.has_rule for entry in private.entries] == [True]


def test_a_host_without_a_table_has_no_tuned_config() -> None:
    source = Source(table=sample_table(), origin="the shipped rules", why_shipped="this host has no table yet")
    with pytest.raises(AutotuneError, match="this host has no table yet") as caught:
        contenders(SimulatedBackend(), fixed_configs=[], with_default=False, source=source, op=ReduceOp.SUM)
    assert caught.value.remedy == "autotune run --quick"


def test_an_algorithm_that_cannot_run_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="pairwise"):
        cells(Config(algorithm="pairwise", segment_bytes=65536))
    with pytest.raises(UsageError, match="rnig"):
        cells(RING, Config(algorithm="rnig", segment_bytes=65536))


def test_sizes_are_rounded_up_to_whole_elements_of_every_rank() -> None:
    request = replace(REQUEST, collective=Collective.REDUCE_SCATTER, sizes=(1000,), ranks=(3,))
    (cell,) = cells(RING, request=request)
    assert (cell.size_bytes, cell.problem.message_bytes) == (1000, 1008)


def a_link(src: str, dst: str, bandwidth_gb_per_s: float) -> Link:
    return Link(
        src=src,
        dst=dst,
        kind=LinkKind.SHM,
        latency_us=0.2,
        bandwidth_gb_per_s=bandwidth_gb_per_s,
        source=Provenance.PROBE,
    )


def a_host(figures: dict[tuple[int, int], float], n_cpus: int = 3) -> Topology:
    """CPUs that share nothing but the host; links with the given bandwidths."""
    devices: list[Host | Core | Cpu] = [Host(id="host0", parent=None)]
    for number in range(n_cpus):
        devices.append(Core(id=f"core{number}", parent="host0"))
        devices.append(Cpu(id=f"cpu{number}", parent=f"core{number}", number=number, allowed=True))
    links = [a_link(f"cpu{a}", f"cpu{b}", figure) for (a, b), figure in figures.items()]
    return Topology(devices=tuple(devices)).with_links(links)


def test_the_link_that_counts_is_the_slowest_between_neighbours() -> None:
    host = a_host({(0, 1): 10.0, (1, 2): 6.0, (0, 2): 1.0})
    assert slowest_neighbour_link(host, (0, 1, 2), 2) == 10.0
    assert slowest_neighbour_link(host, (0, 1, 2), 3) == 6.0


def test_a_link_that_is_not_known_makes_all_of_it_unknown() -> None:
    host = a_host({(0, 1): 10.0})
    assert slowest_neighbour_link(host, (0, 1), 1) is None
    assert slowest_neighbour_link(host, (0,), 2) is None  # both ranks on one CPU
    assert slowest_neighbour_link(a_host({}), (0, 1), 2) is None


def test_links_of_an_earlier_run_are_laid_over_the_host_as_it_is(tmp_path: Path) -> None:
    here = parse(collect())
    cpu = here.allowed_cpus[0]
    ghost = Cpu(id="gone", parent=cpu.parent, number=9999, allowed=False)
    other = next((one for one in here.of(Cpu) if one.id != cpu.id), None)
    ends = [(cpu.id, "gone")] + ([] if other is None else [(cpu.id, other.id)])
    stored = replace(here, devices=(*here.devices, ghost)).with_links(a_link(src, dst, 7.0) for src, dst in ends)
    store = open_store(str(tmp_path / "trials.sqlite"))
    try:
        assert not host_with_links(store).links
        store.add_topology(fingerprint(here), to_json(stored))
        found = host_with_links(store)
    finally:
        store.close()
    assert [device.id for device in found.devices] == [device.id for device in here.devices]
    assert set(found.links) == set(ends[1:])
    assert not host_with_links(None).links
