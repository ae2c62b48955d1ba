"""What the recordings do not show: a table of measured links."""

from __future__ import annotations

from collections.abc import Callable

from autotune.topology.graph import Link, LinkKind, Provenance
from autotune.topology.probes.linux import parse
from autotune.topology.render import tree

Recorded = Callable[[str], dict[str, str]]

TABLE = """
link                            from      to     latency us     GB/s  source
same core                       cpu0      cpu16        0.04     40.0  probe
other socket, NUMA distance 20  cpu0      cpu1         0.32     11.2  probe
other socket, NUMA distance 20  cpu14     cpu15     unknown  unknown  user
pcie                            net-eno1  numa0     unknown     31.5  datasheet

not seen"""


def test_links_near_to_far_with_their_source(recorded: Recorded) -> None:
    figures = [
        ("host0/net-eno1", "host0/numa0", LinkKind.PCIE, None, 31.52, Provenance.DATASHEET),
        ("host0/cpu14", "host0/cpu15", LinkKind.SHM, None, None, Provenance.USER),
        ("host0/cpu0", "host0/cpu1", LinkKind.SHM, 0.318, 11.24, Provenance.PROBE),
        ("host0/cpu0", "host0/cpu16", LinkKind.SHM, 0.04, 40.0, Provenance.PROBE),
    ]
    links = [
        Link(src=src, dst=dst, kind=kind, latency_us=latency, bandwidth_gb_per_s=bandwidth, source=source)
        for src, dst, kind, latency, bandwidth, source in figures
    ]
    text = tree(parse(recorded("two-sockets-smt-roce")).with_links(links))
    assert TABLE in text
