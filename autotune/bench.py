"""`autotune bench`: time given configs against each other, in interleaved rounds of fresh buffers.

In:  a collective, sizes, rank counts, and contenders that each name a config for a problem.
Out: `BenchResult` values, problem by problem.
May not touch: the terminal; the store but for the links that an earlier run measured.

Contenders of one problem run once in every round, in an order that is shuffled, and are compared in pairs: the host's
speed drifts by more than the differences that matter. A config that fails is given up for that problem.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .db import TrialStore
from .errors import AutotuneError
from .kernels.programs import host_numbers, layout_of
from .kernels.schedules.registry import build
from .measure import Backend, Failure, Timing, median_interval, paired_ratio
from .report.bench_table import BenchResult
from .runtime import Selector, Source
from .table import LIBRARY
from .topology.devices import Cpu
from .topology.document import from_json
from .topology.fingerprint import fingerprint
from .topology.graph import Topology
from .topology.host import collect, parse
from .topology.routes import Routes
from .types import (
    Collective,
    Config,
    DType,
    Memory,
    Phase,
    Problem,
    ReduceOp,
    RuleKey,
    Sample,
    SampleKind,
    round_up_message,
)

_SEED = 0  # of the order inside rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be measured.

    Args:
        sizes: in bytes, ascending.
        ranks: rank counts, ascending.
        dtype: counts only where elements are combined, like op.
    """

    collective: Collective
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]
    dtype: DType
    op: ReduceOp
    memory: Memory = Memory.PRIVATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one contender runs on one problem.

    Args:
        has_rule: whether a table's rule chose the config; None where no table was asked.
    """

    contender: str
    config: Config
    has_rule: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A problem and who competes on it.

    Args:
        size_bytes: as asked for; the problem's message_bytes is that, rounded up to whole elements.
    """

    size_bytes: int
    problem: Problem
    entries: tuple[Entry, ...]


Contender = Callable[[Problem], Entry]


def fixed(config: Config) -> Contender:
    """One config for everything."""
    return lambda problem: Entry(contender=str(config), config=config)


def default(backend: Backend) -> Contender:
    """What runs without a table."""
    return lambda problem: Entry(contender="default", config=backend.default(problem))


def tuned(selector: Selector, op: ReduceOp) -> Contender:
    """What a job gets from a table; where that has no rule, its default.

    Raises:
        AutotuneError: this host has no table.
    """
    if selector.source.why_shipped is not None:
        backend = selector.table.defaults.backend
        how = "autotune run --quick" + ("" if backend == "native" else f" --backend {backend}")
        raise AutotuneError(f"nothing is tuned here: {selector.source.why_shipped}", remedy=how)

    def entry(problem: Problem) -> Entry:
        key = problem.key
        selection = selector.select(
            key.collective,
            message_bytes=problem.message_bytes,
            n_ranks=key.n_ranks,
            dtype=problem.timed_dtype,
            op=op,
            placement=key.placement if len(key.placement) > 1 else None,
            memory=key.memory,
            backend=key.backend,
        )
        return Entry(contender="tuned", config=selection.config, has_rule=selection.tuned)

    return entry


def contenders(
    backend: Backend, *, fixed_configs: Sequence[Config], with_default: bool, source: Source | None, op: ReduceOp
) -> list[Contender]:
    """Those of the command line, in the order in which they are compared; the default if nothing else is named.

    Args:
        source: the table of the tuned contender; None for none.

    Raises:
        AutotuneError: this host has no table.
    """
    found = [fixed(config) for config in fixed_configs]
    if with_default or not (found or source):
        found.append(default(backend))
    return found if source is None else [*found, tuned(Selector(source), op)]


def on_one_host(n_ranks: int) -> tuple[tuple[int, ...], ...]:
    """The placements of so many ranks without a launcher."""
    return ((n_ranks,),)


def cells_of(
    request: Request,
    contenders: Sequence[Contender],
    backend: str,
    placements: Callable[[int], Sequence[tuple[int, ...]]] = on_one_host,
) -> tuple[Cell, ...]:
    """Every size on every rank count; rank counts outermost, so that ranks are started once for each.

    Args:
        placements: of so many ranks on hosts, each ascending.

    Raises:
        UsageError: an algorithm that is unknown, or not legal for the collective and a rank count.
    """
    collective = request.collective
    cells = []
    for placement in (placement for n_ranks in request.ranks for placement in placements(n_ranks)):
        n_ranks = sum(placement)
        layout = layout_of(n_ranks, 0, host_numbers(placement))
        key = RuleKey(
            backend=backend,
            collective=collective,
            dtype=request.dtype if collective.computes else None,
            op_class=request.op.op_class if collective.computes else None,
            n_ranks=n_ranks,
            placement=placement,
            memory=request.memory,
        )
        itemsize = key.dtype.itemsize if key.dtype else 1
        for size in request.sizes:
            problem = Problem(key=key, message_bytes=round_up_message(collective, size, n_ranks, itemsize))
            entries = tuple(contender(problem) for contender in contenders)
            for entry in entries:
                if entry.config != LIBRARY:
                    build(collective, entry.config.algorithm, n_ranks, layout)
            cells.append(Cell(size_bytes=size, problem=problem, entries=entries))
    return tuple(cells)


def host_with_links(store: TrialStore | None, topology: Topology | None = None) -> Topology:
    """This host as it is now, with the links that an earlier run on it measured.

    Args:
        topology: of the hosts of a job, in place of this host.

    Raises:
        ProbeError: the host cannot be read, or the stored topology is damaged.
        StoreError: the store cannot be read.
    """
    topology = topology or parse(collect())
    text = None if store is None else store.topology(fingerprint(topology))
    if text is None:
        return topology
    here = {device.id for device in topology.devices}
    links = from_json(text).links.values()
    return topology.with_links(link for link in links if {link.src, link.dst} <= here)


def slowest_neighbour_link(topology: Topology, cores: Sequence[int], n_ranks: int) -> float | None:
    """Bandwidth in GB/s between the cores of neighbouring ranks, the slowest; None unless all are known.

    Ranks that share a core have no link between them.
    """
    cpus = {cpu.number: cpu for cpu in topology.of(Cpu)}
    return slowest_link(topology, [cpus[cores[rank % len(cores)]] for rank in range(n_ranks)])


def slowest_link(topology: Topology, pinned: Sequence[Cpu]) -> float | None:
    """Bandwidth in GB/s between neighbouring ranks, by the CPUs that they are pinned to; see above."""
    routes = Routes(topology)
    found = [_bandwidth(topology, routes, a, b) for a, b in itertools.pairwise(pinned)]
    known = [figure for figure in found if figure is not None]
    return min(known) if known and len(known) == len(found) else None


def _bandwidth(topology: Topology, routes: Routes, a: Cpu, b: Cpu) -> float | None:
    """Between hosts, of what the way goes over: interfaces and what joins them, where that is known."""
    if topology.host_of(a.id) != topology.host_of(b.id):
        route = routes.between(a.id, b.id)
        if route is not None and route.bandwidth_gb_per_s is not None:
            return route.bandwidth_gb_per_s
    return topology.bandwidth_between(a, b)


def bench(
    cells: Sequence[Cell],
    *,
    backend: Backend,
    n_rounds: int,
    link_gb_per_s: Callable[[tuple[int, ...]], float | None] = lambda placement: None,
) -> Iterator[list[BenchResult]]:
    """Measure; yields the results of each cell, in the order of its entries, when it is through.

    Args:
        n_rounds: from 1; below six there are no intervals.
        link_gb_per_s: the bandwidth of links, by placement.

    Raises:
        AutotuneError: the backend cannot go on.
    """
    for cell in cells:
        samples, failures = _rounds(cell, backend, n_rounds)
        first = cell.entries[0].config
        results = []
        for at, entry in enumerate(cell.entries):
            result = BenchResult(
                contender=entry.contender,
                size_bytes=cell.size_bytes,
                problem=cell.problem,
                config=entry.config,
                has_rule=entry.has_rule,
                same_as_first=at > 0 and entry.config == first,
                link_gb_per_s=link_gb_per_s(cell.problem.key.placement),
            )
            own = samples[entry.config]
            if entry.config in failures:
                result = replace(result, failure=failures[entry.config])
            else:
                gain = None if entry.config == first or first in failures else paired_ratio(samples[first], own)
                result = replace(result, time_us=median_interval([sample.time_us for sample in own]), gain=gain)
            results.append(result)
        yield results


def _rounds(cell: Cell, backend: Backend, n_rounds: int) -> tuple[dict[Config, list[Sample]], dict[Config, Failure]]:
    samples: dict[Config, list[Sample]] = {entry.config: [] for entry in cell.entries}
    failures: dict[Config, Failure] = {}
    for number in range(n_rounds):
        order = sorted(samples.keys() - failures.keys(), key=str)
        random.Random(f"{_SEED} {cell.problem} {number}").shuffle(order)
        outcomes = backend.measure_round(cell.problem, order, kind=SampleKind.FRESH, batch=number) if order else []
        for position, (config, outcome) in enumerate(zip(order, outcomes, strict=True)):
            if isinstance(outcome, Failure):
                failures[config] = outcome
            else:
                samples[config].append(_sample(outcome, number, position))
    return samples, failures


def _sample(timing: Timing, number: int, position: int) -> Sample:
    return Sample(
        kind=SampleKind.FRESH,
        phase=Phase.CONFIRM,
        round=number,
        position=position,
        batch_calls=timing.batch_calls,
        time_us=timing.time_us,
    )
