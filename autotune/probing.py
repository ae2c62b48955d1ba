"""Probe this host: read what it says of itself, then measure between ranks pinned to pairs of its cores.

In:  settings. Out: a Topology whose links carry measured figures, and the host's fingerprint in the user's cache.
May not touch: the store, tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .backends.native import pair_figures
from .settings import Settings
from .topology.fingerprint import fingerprint, remember_fingerprint
from .topology.graph import Link, LinkKind, Provenance, Topology
from .topology.pairs import CpuPair, representative_pairs
from .topology.probes.linux import collect, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a probe found."""

    topology: Topology
    fingerprint: str


def probe(settings: Settings, *, measure: bool = True, progress: Callable[[str], None] = lambda _: None) -> Probe:
    """Read and measure this host, and remember its fingerprint for `select`.

    Args:
        measure: False leaves out the ranks that measure latency and bandwidth, about a second for each pair.
        progress: told in words what happens next.

    Raises:
        ProbeError: the host cannot be read.
        BackendUnavailable: the ranks that measure did not start.
    """
    progress("reading the host")
    topology = parse(collect())
    if measure:
        links: list[Link] = []
        for pair in representative_pairs(topology):
            progress(f"measuring {pair.distance}: CPUs {pair.a.number} and {pair.b.number}")
            links += _measured(pair, settings)
        topology = topology.with_links(links)
    remember_fingerprint(settings.cache_dir, topology)
    return Probe(topology=topology, fingerprint=fingerprint(topology))


def _measured(pair: CpuPair, settings: Settings) -> list[Link]:
    latency_us, bandwidth_gb_per_s = pair_figures(
        pair.a.number, pair.b.number, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s
    )
    return [
        Link(
            src=src.id,
            dst=dst.id,
            kind=LinkKind.SHM,
            latency_us=latency_us,
            bandwidth_gb_per_s=bandwidth_gb_per_s,
            source=Provenance.PROBE,
        )
        for src, dst in ((pair.a, pair.b), (pair.b, pair.a))
    ]
