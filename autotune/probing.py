"""Probe: read what this host says of itself and measure between its ranks, or build a topology from recordings.

In:  settings, or paths of recordings and outputs. Out: a Topology whose links carry measured figures over those of the
datasheet, and the host's fingerprint in the user's cache. May not touch: the store, tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .backends.native import pair_figures
from .errors import UsageError
from .settings import Settings
from .topology.cluster import build
from .topology.devices import Cpu, Device
from .topology.fingerprint import fingerprint, remember_fingerprint
from .topology.graph import Topology
from .topology.host import collect, parse
from .topology.links import Link, LinkKind, Provenance
from .topology.pairs import representative_pairs, seat_pairs
from .topology.recording_file import RANK_TABLE
from .topology.recordings import TOPOLOGY_FILES, Found, RecordedHost, load, read_text, taken_apart
from .topology.routes import Routes

Progress = Callable[[str], None]
BACKENDS = ("native", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a probe found.

    Args:
        topology: of this host.
        fingerprint: of this host.
        cluster: this host among those of its rank table or job; the host alone where there is neither.
        recording: what ``probe --save`` writes.
    """

    topology: Topology
    fingerprint: str
    cluster: Topology
    recording: Mapping[str, str]


def probe(
    settings: Settings, *, measure: bool = True, backend: str = "native", progress: Progress = lambda _: None
) -> Probe:
    """Read and measure this host, and remember its fingerprint for `select`.

    Args:
        measure: False leaves out the ranks that measure latency and bandwidth, about a second for each pair.
        backend: what carries the messages that are measured, one of ``BACKENDS``.
        progress: told in words what happens next.

    Raises:
        ProbeError: the host or its rank table cannot be read.
        BackendUnavailable: the ranks that measure did not start.
        UsageError: no such backend.
    """
    if backend not in BACKENDS:
        raise UsageError(f"--backend {backend!r} is none of {', '.join(BACKENDS)}", remedy="give --backend native")
    progress("reading the host")
    recording = record(settings)
    topology = _filled(parse(_of_host(recording)))
    if measure and backend == "torch" and (settings.n_ranks or 1) > 1:
        cluster = _measured_job(recording, settings, progress)
    else:
        if measure:
            topology = topology.with_links(_measured(topology, backend, settings, progress))
        cluster = _in_rank_table(topology, recording)
    remember_fingerprint(settings.cache_dir, topology)
    return Probe(topology=topology, fingerprint=fingerprint(topology), cluster=cluster, recording=recording)


def record(settings: Settings) -> dict[str, str]:
    """What this host says of itself, with the rank table of its job and the topology files beside it.

    Raises:
        ProbeError: RANK_TABLE_FILE names a file that cannot be read.
    """
    recording = collect()
    if settings.rank_table is not None:
        recording[RANK_TABLE] = read_text(settings.rank_table)
        folder = Path(TOPOLOGY_FILES)
        recording |= {str(file): read_text(file) for file in sorted(folder.glob("*.json"))}
    return recording


def gather(paths: Sequence[Path]) -> Topology:
    """The topology of everything that folders and files hold; see ``topology.recordings.load``.

    Raises:
        ProbeError: a file that cannot be read, or is of no known kind.
        UsageError: no file at all.
    """
    return _filled(build(load(paths)))


def _of_host(recording: Mapping[str, str]) -> Mapping[str, str]:
    return {place: text for place, text in recording.items() if place != RANK_TABLE}


def _in_rank_table(topology: Topology, recording: Mapping[str, str]) -> Topology:
    """The probed host among the others of its rank table."""
    found = taken_apart(RecordedHost(name=None, recording=recording))
    if not found.rank_tables:
        return topology
    return _filled(build(replace(found, hosts=(), topologies=((None, topology),))))


def _filled(topology: Topology) -> Topology:
    """With the datasheet's figures where the machine is a known one and nothing tells better."""
    from .topology.machines import fill, match

    name = match(topology)
    return topology if name is None else fill(topology, name)


def _measured(topology: Topology, backend: str, settings: Settings, progress: Progress) -> Iterable[Link]:
    for pair in representative_pairs(topology):
        progress(f"measuring {pair.distance}: CPUs {pair.a.number} and {pair.b.number}")
        cores = (pair.a.number, pair.b.number)
        if backend == "torch":
            from .backends import torch_pairs

            figures = torch_pairs.pair_figures(*cores, timeout_s=settings.timeout_s)
        else:
            figures = pair_figures(*cores, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s)
        for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
            yield _link(src, dst, LinkKind.SHM, figures)


def _measured_job(recording: Mapping[str, str], settings: Settings, progress: Progress) -> Topology:
    """The hosts of a job that torchrun started, with the figures of its ranks' pairs; the same on every rank."""
    from .backends import torch_pairs

    with torch_pairs.job(settings.local_rank, timeout_s=settings.timeout_s) as job:
        texts = job.exchange("recordings", json.dumps(recording) if job.local_rank == 0 else "")
        leaders = [rank for rank, text in enumerate(texts) if text]
        found = Found()
        for rank in leaders:
            own = taken_apart(RecordedHost(name=f"rank {rank}", recording=json.loads(texts[rank])))
            found = Found(
                hosts=(*found.hosts, *own.hosts),
                rank_tables=(*found.rank_tables, *own.rank_tables),
                topology_files=(*found.topology_files, *own.topology_files),
            )
        topology = _filled(build(found))
        seats = _seats(topology, leaders, job.n_ranks)
        pairs = seat_pairs(topology, seats)
        if job.rank == 0:
            for pair in pairs:
                progress(f"measuring {pair.words}: ranks {pair.a} and {pair.b}")
        cores = [seat.number if isinstance(seat, Cpu) else None for seat in seats]
        figures = job.figures([(pair.a, pair.b) for pair in pairs], cores)
    routes = Routes(topology)
    links: dict[tuple[str, str], Link] = {}
    for pair, told in zip(pairs, figures, strict=True):
        for link in _on_the_way(topology, routes, seats[pair.a], seats[pair.b], told):
            links.setdefault((link.src, link.dst), link)  # the first pair of a class speaks for what it shares
    return topology.with_links(links.values())


def _seats(topology: Topology, leaders: Sequence[int], n_ranks: int) -> list[Device]:
    """The device of each rank: ranks of a host follow its first one, in the order of its devices."""
    hosts = {host.name: host for host in topology.hosts}
    seats: list[Device] = []
    for first, following in zip(leaders, [*leaders[1:], n_ranks], strict=True):
        host = hosts[f"rank {first}"]
        inside: list[Device] = [*topology.accelerators(host.id)]
        inside = inside or [cpu for cpu in topology.pinning_order if topology.host_of(cpu.id).id == host.id]
        if not inside or following - first > len(inside):
            raise UsageError(
                f"{following - first} ranks on a host with {len(inside)} devices to measure between",
                remedy=f"start one rank a device: torchrun --nproc-per-node {max(len(inside), 1)}",
            )
        seats += inside[: following - first]
    return seats


def _on_the_way(
    topology: Topology, routes: Routes, a: Device, b: Device, figures: tuple[float, float]
) -> Iterable[Link]:
    """The links that a measured pair speaks for: its own, or those on its way, which share the latency."""
    for src, dst in ((a, b), (b, a)):
        route = routes.between(src.id, dst.id)
        if route is None or not route.links:
            here = topology.host_of(a.id).id == topology.host_of(b.id).id
            kind = LinkKind.SHM if here and isinstance(a, Cpu) else LinkKind.PCIE if here else LinkKind.NETWORK
            yield _link(src, dst, kind, figures)
        else:
            latency_us, bandwidth_gb_per_s = figures
            for link in route.links:
                yield replace(
                    link,
                    latency_us=latency_us / len(route.links),
                    bandwidth_gb_per_s=bandwidth_gb_per_s,
                    source=Provenance.PROBE,
                )


def _link(src: Device, dst: Device, kind: LinkKind, figures: tuple[float, float]) -> Link:
    latency_us, bandwidth_gb_per_s = figures
    return Link(
        src=src.id,
        dst=dst.id,
        kind=kind,
        latency_us=latency_us,
        bandwidth_gb_per_s=bandwidth_gb_per_s,
        source=Provenance.PROBE,
    )
