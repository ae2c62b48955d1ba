"""Measured times: bench."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .launched import on_every_rank
from .options import (
    AsJson,
    BackendName,
    BufferMemory,
    DeviceName,
    ElementType,
    Operation,
    TableFile,
    existing_store,
    settings_with,
    table_source,
)
from .output import say, show, show_json, show_text

if TYPE_CHECKING:
    from ..bench import Cell, Request
    from ..launch import Job
    from ..report.bench_table import BenchResult
    from ..settings import Settings
    from ..topology.graph import Topology
    from ..types import Config


@on_every_rank
def bench(
    collective: Annotated[str, typer.Argument(metavar="COLLECTIVE", help="Such as all_reduce.")],
    sizes: Annotated[str, typer.Option("--sizes", metavar="SIZES", help="Such as 8-64MiB or 4K,1M.")] = "8-64MiB",
    ranks: Annotated[
        str | None, typer.Option("--ranks", metavar="N,N", help="Rank counts; else one a core, and at least 2.")
    ] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option("--algorithm", metavar="NAME", help="Time this algorithm; may be repeated.")
    ] = None,
    segment: Annotated[
        str | None,
        typer.Option(
            "--segment", metavar="SIZE", help="Segment size of every --algorithm; else 64KiB, or none for torch."
        ),
    ] = None,
    backend: BackendName = "native",
    device: DeviceName = "cpu",
    tuned: Annotated[bool, typer.Option("--tuned", help="Time what the tuning table chooses.")] = False,
    default: Annotated[
        bool, typer.Option("--default", help="Time the shipped default rule; also where nothing else is named.")
    ] = False,
    table: TableFile = None,
    dtype: ElementType = "float32",
    op: Operation = "sum",
    memory: BufferMemory = "private",
    rounds: Annotated[str, typer.Option("--rounds", metavar="N", help="Rounds, 9 to 1000.")] = "15",
    scaling: Annotated[bool, typer.Option("--scaling", help="Print a table over rank counts.")] = False,
    as_json: AsJson = False,
    *,
    job: Job | None,
) -> None:
    """Time a collective, as nccl-tests does.

    Buffers are fresh, calls are out of place, every answer is checked. Several contenders run in interleaved rounds.
    Gains are over the first of them: the algorithms as given, then the default, then the tuned config.
    """
    from ..backends.choice import make_backend
    from ..backends.launch import start_here
    from ..bench import bench as measure
    from ..bench import cells_of, contenders, on_one_host
    from ..plan.plan import parse_rounds
    from ..topology.pairs import pinning_order

    settings, n_rounds = settings_with(None), parse_rounds(rounds)
    fixed = _configs(algorithm or [], segment, backend)
    source = table_source(table, settings, backend) if tuned else None
    topology = _host(settings, backend, job, measure=scaling)
    counts = [max(2, topology.n_cores)] if job is None else job.rank_counts
    asked = ",".join(map(str, counts)) if ranks is None else ranks
    request = _request(collective, sizes, asked, dtype, op, memory)
    cores = pinning_order(topology)
    link = cache(partial(_link, topology, cores, job))
    start = start_here if job is None else job.start
    with closing(make_backend(backend, cores, settings, device=device, start_ranks=start)) as ranks_of:
        competing = contenders(ranks_of, fixed_configs=fixed, with_default=default, source=source, op=request.op)
        cells = cells_of(request, competing, backend, on_one_host if job is None else job.placements)
        results = measure(cells, backend=ranks_of, n_rounds=n_rounds, link_gb_per_s=link)
        shown = _shown(
            cells,
            results,
            n_rounds=n_rounds,
            scaling=scaling,
            as_json=as_json,
            links=any(link(cell.problem.key.placement) for cell in cells),
        )
    if any(result.failure for result in shown):
        raise typer.Exit(1)


def _configs(algorithms: Sequence[str], segment: str | None, backend: str) -> list[Config]:
    from ..kernels.schedules.registry import ALGORITHMS
    from ..plan.plan import named
    from ..table import LIBRARY
    from ..types import Config
    from ..units import parse_bytes

    library = {} if backend == "native" else {LIBRARY.algorithm: LIBRARY}
    words = segment or ("64KiB" if backend == "native" else None)
    segment_bytes = None if words is None else parse_bytes(words)
    if segment_bytes is not None and segment_bytes < 1:
        raise UsageError(f"segment {segment!r} holds nothing", remedy="give a size above 0, such as --segment 64KiB")
    known = {a.name: Config(algorithm=a.name, segment_bytes=segment_bytes) for a in ALGORITHMS}
    return [named("algorithm", name, library | known) for name in algorithms]


def _host(settings: Settings, backend: str, job: Job | None, *, measure: bool) -> Topology:
    """This host, or those of the job, with the links that an earlier run measured.

    Args:
        measure: the links now, where none did.
    """
    from ..bench import host_with_links
    from ..probing import BACKENDS, probe

    hosts = None if job is None else probe(settings, measure=False, job=job).topology
    store = existing_store(settings)
    with nullcontext() if store is None else closing(store):
        found = host_with_links(store, hosts)
    if not measure or any(link.bandwidth_gb_per_s for link in found.links.values()):
        return found
    prober = backend if job is not None and job.several_hosts and backend in BACKENDS else "native"
    return probe(settings, backend=prober, progress=say, job=job).topology


def _link(topology: Topology, cores: Sequence[int], job: Job | None, placement: tuple[int, ...]) -> float | None:
    from ..bench import slowest_link, slowest_neighbour_link
    from ..probing import cpus_of

    if job is None:
        return slowest_neighbour_link(topology, cores, sum(placement))
    return slowest_link(topology, cpus_of(job, topology, placement))


def _request(collective: str, sizes: str, ranks: str, dtype: str, op: str, memory: str) -> Request:
    from ..bench import Request
    from ..plan.plan import parse_collective, parse_dtype, parse_memory, parse_op
    from ..units import parse_ranks, parse_sizes

    return Request(
        collective=parse_collective(collective),
        sizes=parse_sizes(sizes),
        ranks=parse_ranks(ranks),
        dtype=parse_dtype(dtype),
        op=parse_op(op),
        memory=parse_memory(memory),
    )


def _shown(
    cells: Sequence[Cell],
    measured: Iterator[list[BenchResult]],
    *,
    n_rounds: int,
    scaling: bool,
    as_json: bool,
    links: bool,
) -> list[BenchResult]:
    """Print results as they come, or all of them at the end, and return them."""
    from ..report.bench_table import BenchLines, bench_document, scaling_view
    from ..report.figures import problem_text

    names = [(entry.contender, entry.config, entry.has_rule) for cell in cells for entry in cell.entries]
    lines = BenchLines(names, n_rounds=n_rounds, compared=len(cells[0].entries) > 1, links=links)
    at_once = not (as_json or scaling)
    if at_once:
        show_text(f"{lines.heading}\n", flush=True)
    results: list[BenchResult] = []
    for number, cell in enumerate(cells):
        if not at_once:
            say(f"[{number}/{len(cells)}] {problem_text(cell.problem)}")
        found = next(measured)
        results += found
        if at_once:
            show_text("".join(f"{lines.line(result)}\n" for result in found), flush=True)
    if as_json:
        show_json({"n_rounds": n_rounds, "results": bench_document(results)})
    elif scaling:
        show(lines.legend, scaling_view(results))
    return results
