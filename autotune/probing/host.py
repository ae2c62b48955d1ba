"""One host: what it says of itself, what its ranks measure, and what a probe leaves behind.

In:  settings, or paths of recordings and outputs. Out: a Topology whose links carry measured figures over those of the
datasheet, and the host's fingerprint in its user's cache. May not touch: the store, tables, other hosts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..backends.native import pair_figures
from ..backends.rank_process import Json
from ..runtime.whereabouts import whereabouts
from ..settings import Settings
from ..topology.cluster import build
from ..topology.devices import Device
from ..topology.environment import environment
from ..topology.fingerprint import fingerprint, remember_fingerprint
from ..topology.graph import Topology
from ..topology.host import collect, parse
from ..topology.host_rates import keep_rate
from ..topology.links import Link, LinkKind, Provenance
from ..topology.pairs import representative_pairs
from ..topology.recording_file import RANK_TABLE
from ..topology.recordings import TOPOLOGY_FILES, RecordedHost, load, read_text, taken_apart

Progress = Callable[[str], None]


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
    return filled(build(load(paths)))


def of_host(recording: Mapping[str, str]) -> Mapping[str, str]:
    """The recording without the rank table, which is about several hosts."""
    return {place: text for place, text in recording.items() if place != RANK_TABLE}


def in_rank_table(topology: Topology, recording: Mapping[str, str]) -> Topology:
    """The probed host among the others of its rank table."""
    found = taken_apart(RecordedHost(name=None, recording=recording))
    if not found.rank_tables:
        return topology
    return filled(build(replace(found, hosts=(), topologies=((None, topology),))))


def filled(topology: Topology) -> Topology:
    """With the datasheet's figures where the machine is a known one and nothing tells better."""
    from ..topology.machines import fill, match

    name = match(topology)
    return topology if name is None else fill(topology, name)


def measured_links(topology: Topology, backend: str, settings: Settings, progress: Progress) -> Iterable[Link]:
    """What ranks on a host's own CPUs measure, a pair of each class of distance."""
    for pair in representative_pairs(topology):
        progress(f"measuring {pair.distance}: CPUs {pair.a.number} and {pair.b.number}")
        cores = (pair.a.number, pair.b.number)
        if backend == "torch":
            from ..backends import torch_pairs

            figures = torch_pairs.pair_figures(*cores, timeout_s=settings.timeout_s)
        else:
            figures = pair_figures(*cores, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s)
        for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
            yield link_of(src, dst, LinkKind.SHM, figures)


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
    topology = filled(parse(of_host(recording)))
    remember_fingerprint(settings.cache_dir, topology)
    return {"recording": dict(recording), "environment": dict(environment()), "fingerprint": fingerprint(topology)}


def keep_own_rate(settings: Settings, rates: Json) -> Json:
    """Keep how fast this host's link is.

    Args:
        rates: 1e9 bytes per second, by hosts as `whereabouts` names them.

    Raises:
        ProbeError: it cannot be written.
    """
    assert isinstance(rates, dict)
    own = whereabouts(settings.runtime_dir).host
    if own in rates:
        keep_rate(settings.cache_dir, own, float(str(rates[own])))
    return None


def link_of(src: Device, dst: Device, kind: LinkKind, figures: tuple[float, float]) -> Link:
    """A measured link; figures are latency_us and bandwidth_gb_per_s."""
    latency_us, bandwidth_gb_per_s = figures
    return Link(
        src=src.id,
        dst=dst.id,
        kind=kind,
        latency_us=latency_us,
        bandwidth_gb_per_s=bandwidth_gb_per_s,
        source=Provenance.PROBE,
    )
