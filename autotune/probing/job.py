"""The hosts of a job that a launcher started, with what its ranks measure between each other.

In:  a job, settings. Out: a `Probe` over all hosts; every host keeps how fast its link is. May not touch: the store,
tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ..backends.choice import make_backend
from ..backends.rank_process import Json
from ..launch import Job
from ..settings import Settings
from ..topology.cluster import build
from ..topology.devices import Cpu, Device, DeviceId, Host
from ..topology.environment import UNKNOWN
from ..topology.fingerprint import fingerprint
from ..topology.graph import Topology
from ..topology.host import parse
from ..topology.host_rates import ENVIRONMENT, late_hosts, late_words
from ..topology.links import Link, LinkKind, Provenance
from ..topology.pairs import SeatPair, seat_pairs
from ..topology.recordings import Found, RecordedHost, taken_apart
from ..topology.routes import Routes
from .host import Probe, Progress, filled, in_rank_table, link_of, measured_links, of_host

Figures = tuple[float, float]
"""latency_us, bandwidth_gb_per_s."""


def probed_job(job: Job, settings: Settings, *, measure: bool, backend: str, progress: Progress) -> Probe:
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
    cluster = filled(build(found))
    topology = cluster if job.several_hosts else filled(parse(of_host(reports[0].recording)))
    around = _together([report.environment for report in reports])
    if measure and (job.several_hosts or backend == "torch"):
        ranks, seats = _seats(job, cluster)
        measured = _measured_ranks(job, ranks, seat_pairs(cluster, seats), backend, settings, progress)
        cluster = cluster.with_links(_links(cluster, seats, measured))
        if job.several_hosts:
            topology = cluster
            around |= _keep_rates(job, ranks, measured)
    elif measure:
        topology = topology.with_links(measured_links(topology, backend, settings, progress))
        cluster = in_rank_table(topology, reports[0].recording)
    return Probe(
        topology=topology,
        fingerprint=fingerprint(topology),
        cluster=cluster,
        recording=reports[0].recording,
        host_fingerprints=tuple(sorted({report.fingerprint for report in reports})),
        environment=around,
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
    job: Job,
    ranks: Sequence[int],
    pairs: Sequence[SeatPair],
    backend: str,
    settings: Settings,
    progress: Progress,
) -> list[tuple[SeatPair, Figures]]:
    """What ranks of the job measure between each other, pair by pair, by the messages of a backend."""
    placement = tuple(sorted(map(len, job.hosts)))
    found = []
    with (
        closing(make_backend(backend, (0,), settings, device="auto", start_ranks=job.start)) as measuring,
        closing(measuring.start(placement)) as group,
    ):
        for pair in pairs:
            first, second = ranks[pair.a], ranks[pair.b]
            progress(f"measuring {pair.words}: ranks {first} and {second}")
            (told,) = _listed(group.ask({"do": "pairs", "pairs": [[first, second]]})[first]["figures"])
            latency_us, bandwidth_gb_per_s = (float(str(figure)) for figure in _listed(told))
            found.append((pair, (latency_us, bandwidth_gb_per_s)))
    return found


def _listed(told: Json) -> list[Json]:
    assert isinstance(told, list)
    return told


def _links(topology: Topology, seats: Sequence[Device], measured: Iterable[tuple[SeatPair, Figures]]) -> Iterable[Link]:
    """The links on the ways of the pairs; one on several ways is as fast as the fastest of these."""
    routes = Routes(topology)
    links: dict[tuple[str, str], Link] = {}
    for pair, figures in measured:
        for link in _on_the_way(topology, routes, seats[pair.a], seats[pair.b], figures):
            known = links.get((link.src, link.dst))
            if known is None or (known.bandwidth_gb_per_s or 0.0) < (link.bandwidth_gb_per_s or 0.0):
                links[link.src, link.dst] = link
    return links.values()


def _keep_rates(job: Job, ranks: Sequence[int], measured: Iterable[tuple[SeatPair, Figures]]) -> dict[str, str]:
    """Let each host keep how fast its link is: as its fastest pair. Which hosts are slow, in words for the table."""
    host_of = {rank: number for number, host in enumerate(job.hosts) for rank in host}
    rates: list[float | None] = [None] * len(job.hosts)
    for pair, (_, gb_per_s) in measured:
        ends = host_of[ranks[pair.a]], host_of[ranks[pair.b]]
        for host in ends if ends[0] != ends[1] else ():
            rates[host] = max(gb_per_s, rates[host] or 0.0)
    keys = [job.host_key(host) for host in job.hosts]
    job.ask_hosts("keep_rate", rates={key: rate for key, rate in zip(keys, rates, strict=True) if rate is not None})
    late = late_hosts(rates)
    return {ENVIRONMENT: late_words(_host_names(job), late)} if late else {}


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


def _on_the_way(topology: Topology, routes: Routes, a: Device, b: Device, figures: Figures) -> Iterable[Link]:
    """The links that a measured pair speaks for: its own, or those on its way, which share the latency."""
    for src, dst in ((a, b), (b, a)):
        route = routes.between(src.id, dst.id)
        if route is None or not route.links:
            here = topology.host_of(a.id).id == topology.host_of(b.id).id
            kind = LinkKind.SHM if here and isinstance(a, Cpu) else LinkKind.PCIE if here else LinkKind.NETWORK
            yield link_of(src, dst, kind, figures)
        else:
            latency_us, bandwidth_gb_per_s = figures
            for link in route.links:
                yield replace(
                    link,
                    latency_us=latency_us / len(route.links),
                    bandwidth_gb_per_s=bandwidth_gb_per_s,
                    source=Provenance.PROBE,
                )
