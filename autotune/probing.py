"""Probe: read what this host says of itself and measure between its ranks, or build a topology from recordings.

In:  settings, perhaps a launcher's job, or paths of recordings and outputs. Out: a Topology whose links carry measured
figures over those of the datasheet, and each host's fingerprint in its user's cache. May not touch: the store, tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from .backends.choice import make_backend
from .backends.native import pair_figures
from .backends.rank_process import Json
from .errors import UsageError
from .launch import Job
from .settings import Settings
from .topology.cluster import build
from .topology.devices import Cpu, Device, DeviceId, Host
from .topology.environment import UNKNOWN, environment
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
        topology: of this host; of all hosts where a launcher started ranks on several.
        fingerprint: of that.
        cluster: this host among those of its rank table or job; the host alone where there is neither.
        recording: what ``probe --save`` writes.
        host_fingerprints: of each kind of host in it.
        environment: of the hosts; see ``topology.environment``.
    """

    topology: Topology
    fingerprint: str
    cluster: Topology
    recording: Mapping[str, str]
    host_fingerprints: tuple[str, ...]
    environment: Mapping[str, str]


def probe(
    settings: Settings,
    *,
    measure: bool = True,
    backend: str = "native",
    progress: Progress = lambda _: None,
    job: Job | None = None,
) -> Probe:
    """Read and measure this host, and remember its fingerprint for `select`.

    Args:
        measure: False leaves out the ranks that measure latency and bandwidth, about a second for each pair.
        backend: what carries the messages that are measured, one of ``BACKENDS``.
        progress: told in words what happens next.
        job: of the launcher that started this process, whose hosts are probed.

    Raises:
        ProbeError: the host or its rank table cannot be read.
        BackendUnavailable: the ranks that measure did not start.
        UsageError: no such backend.
    """
    if backend not in BACKENDS:
        raise UsageError(f"--backend {backend!r} is none of {', '.join(BACKENDS)}", remedy="give --backend native")
    progress("reading the host" if job is None else f"reading {len(job.hosts)} host(s) of {job.n_ranks} ranks")
    if job is not None:
        return _probed_job(job, settings, measure=measure, backend=backend, progress=progress)
    recording = record(settings)
    topology = _filled(parse(_of_host(recording)))
    if measure:
        topology = topology.with_links(_measured(topology, backend, settings, progress))
    remember_fingerprint(settings.cache_dir, topology)
    own = fingerprint(topology)
    return Probe(
        topology=topology,
        fingerprint=own,
        cluster=_in_rank_table(topology, recording),
        recording=recording,
        host_fingerprints=(own,),
        environment=environment(),
    )


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


def host_report(settings: Settings, cpus: Sequence[int]) -> dict[str, Json]:
    """What a host of a job says of itself; it remembers its own fingerprint for `select`.

    Args:
        cpus: that all ranks of the job on this host may use together; this one alone may be bound to fewer.

    Raises:
        ProbeError: see `probe`.
    """
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {*cpus})
    try:
        recording = record(settings)
    finally:
        os.sched_setaffinity(0, own)
    topology = _filled(parse(_of_host(recording)))
    remember_fingerprint(settings.cache_dir, topology)
    return {"recording": dict(recording), "environment": dict(environment()), "fingerprint": fingerprint(topology)}


def _probed_job(job: Job, settings: Settings, *, measure: bool, backend: str, progress: Progress) -> Probe:
    """The hosts of a job that a launcher started, with the figures of its ranks' pairs."""
    reports = [_report(answer) for answer in job.ask_hosts("report")]
    names = _host_names(job)
    found = Found()
    for name, report in zip(names, reports, strict=True):
        own = taken_apart(RecordedHost(name=name, recording=report.recording))
        found = Found(
            hosts=(*found.hosts, *own.hosts),
            rank_tables=(*found.rank_tables, *own.rank_tables),
            topology_files=(*found.topology_files, *own.topology_files),
        )
    cluster = _filled(build(found))
    topology = cluster if job.several_hosts else _filled(parse(_of_host(reports[0].recording)))
    if measure and (job.several_hosts or backend == "torch"):
        cluster = cluster.with_links(_measured_ranks(job, cluster, backend, settings, progress))
        topology = cluster if job.several_hosts else topology
    elif measure:
        topology = topology.with_links(_measured(topology, backend, settings, progress))
        cluster = _in_rank_table(topology, reports[0].recording)
    return Probe(
        topology=topology,
        fingerprint=fingerprint(topology),
        cluster=cluster,
        recording=reports[0].recording,
        host_fingerprints=tuple(sorted({report.fingerprint for report in reports})),
        environment=_together([report.environment for report in reports]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What `host_report` gave."""

    recording: dict[str, str]
    environment: dict[str, str]
    fingerprint: str


def _report(answer: Json) -> _Report:
    assert isinstance(answer, dict)
    recording, around = answer["recording"], answer["environment"]
    assert isinstance(recording, dict)
    assert isinstance(around, dict)
    return _Report(
        recording={place: str(text) for place, text in recording.items()},
        environment={name: str(word) for name, word in around.items()},
        fingerprint=str(answer["fingerprint"]),
    )


def _together(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What hosts differ in is named by all their words, which are sorted."""
    names = dict.fromkeys(name for environment in environments for name in environment)
    return {name: " | ".join(sorted({own.get(name, UNKNOWN) for own in environments})) for name in names}


def _host_names(job: Job) -> list[str]:
    """The hosts' own names where these tell them apart; else their first ranks."""
    names = [job.host_name(host) for host in job.hosts]
    apart = len(names) > 1 and len(set(names)) == len(names)
    return names if apart else [f"rank {host[0]}" for host in job.hosts]


def _measured_ranks(
    job: Job, topology: Topology, backend: str, settings: Settings, progress: Progress
) -> Iterable[Link]:
    """The links that the job's ranks measure between each other, by the messages of a backend."""
    ranks, seats = _seats(job, topology)
    pairs = seat_pairs(topology, seats)
    for pair in pairs:
        progress(f"measuring {pair.words}: ranks {ranks[pair.a]} and {ranks[pair.b]}")
    asked: list[Json] = [[ranks[pair.a], ranks[pair.b]] for pair in pairs]
    placement = tuple(sorted(map(len, job.hosts)))
    with closing(make_backend(backend, (0,), settings, device="auto", start_ranks=job.start)) as measuring:
        answers = [answer["figures"] for answer in measuring.start(placement).ask({"do": "pairs", "pairs": asked})]
    routes = Routes(topology)
    links: dict[tuple[str, str], Link] = {}
    for index, pair in enumerate(pairs):
        told = answers[ranks[pair.a]]
        assert isinstance(told, list)
        latency_us, bandwidth_gb_per_s = (float(str(figure)) for figure in _figures(told[index]))
        figures = latency_us, bandwidth_gb_per_s
        for link in _on_the_way(topology, routes, seats[pair.a], seats[pair.b], figures):
            links.setdefault((link.src, link.dst), link)  # the first pair of a class speaks for what it shares
    return links.values()


def _figures(told: Json) -> list[Json]:
    assert isinstance(told, list)
    return told


def cpus_of(job: Job, topology: Topology, placement: Sequence[int]) -> list[Cpu]:
    """The CPUs that the ranks of a group are pinned to, by rank in the group.

    Args:
        topology: of the job's hosts, as `probe` made it.
    """
    hosts = dict(zip(job.hosts, _hosts_of(job, topology), strict=True))
    found = []
    for rank in job.members(placement):
        host = next(hosts[own] for own in job.hosts if rank in own)
        found.append(next(cpu for cpu in topology.within(host.id, Cpu) if cpu.number == job.cores[rank]))
    return found


def _hosts_of(job: Job, topology: Topology) -> list[Host]:
    """The job's hosts in a topology that was built of them, in the order of their first ranks."""
    if not job.several_hosts:
        return [topology.hosts[0]]
    by_name = {host.name: host for host in topology.hosts}
    return [by_name[name] for name in _host_names(job)]


def _seats(job: Job, topology: Topology) -> tuple[list[int], list[Device]]:
    """The ranks that have a device of their own, and that: an accelerator by its number, else the core."""
    found: dict[DeviceId, tuple[int, Device]] = {}
    for host, ranks in zip(_hosts_of(job, topology), job.hosts, strict=True):
        inside = topology.accelerators(host.id)
        cpus = {cpu.number: cpu for cpu in topology.within(host.id, Cpu)}
        for place, rank in enumerate(ranks):
            seat: Device = inside[place % len(inside)] if inside else cpus[job.cores[rank]]
            found.setdefault(seat.id, (rank, seat))
    return [rank for rank, _ in found.values()], [seat for _, seat in found.values()]


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
