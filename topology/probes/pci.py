"""Where functions hang on PCI Express, and what that says of the paths between accelerators and network interfaces.

In: for each device the bridges above it, with the bandwidth of the connection below each. Out: PCIe links with the
class of their path, and the bridges that several devices share. Pure: sysfs and hwloc fill the same value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..devices import DeviceId
from ..links import Link, LinkKind, PciePath, Provenance, SharedResource

_BUS_ID = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")


@dataclass(frozen=True, slots=True, kw_only=True)
class PciBridge:
    """A port: a root port, or a port of a switch.

    Args:
        name: its address, such as ``"0000:e2:02.0"``.
        has_link: whether a connection leads down from it; from the upper port of a switch none does.
        bandwidth_gb_per_s: of that connection, nominal, after the line code, in one direction; None where not told.
    """

    name: str
    has_link: bool
    bandwidth_gb_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PciPlace:
    """Where a function hangs.

    Args:
        root: its host bridge, such as ``"pci0000:e2"``.
        bridges: from the host bridge down to the function.
        numa: number of the NUMA node that the host bridge belongs to; None where not known.
    """

    root: str
    bridges: tuple[PciBridge, ...]
    numa: int | None


def bus_id(text: str) -> str | None:
    """A PCI address as sysfs writes it: ``00000000:3B:00.0`` -> ``0000:3b:00.0``; None for other texts."""
    match = _BUS_ID.fullmatch(text.strip())
    return None if match is None else f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def lane_bandwidth_gb_per_s(gt_per_s: float) -> float:
    """GB/s of one lane after the line code: 8b/10b up to 5 GT/s, 128b/130b up to 32, 242 of 256 bytes from 64 on."""
    code = 0.8 if gt_per_s <= 5 else 128 / 130 if gt_per_s <= 32 else 242 / 256
    return gt_per_s * code / 8


def path_between(a: PciPlace, b: PciPlace) -> PciePath | None:
    """The class of the path; None where two host bridges are of NUMA nodes that are not known."""
    if a.root != b.root:
        if a.numa is None or b.numa is None:
            return None
        return PciePath.NODE if a.numa == b.numa else PciePath.SYS
    below_a, below_b = _apart(a, b)
    if len(below_a) == len(a.bridges):
        return PciePath.PHB
    return PciePath.PIX if max(len(below_a), len(below_b)) <= 1 else PciePath.PXB


def bandwidth_between(a: PciPlace, b: PciPlace) -> float | None:
    """GB/s of the narrowest connection on the path; None where one of them is not told."""
    sides = (a.bridges, b.bridges) if a.root != b.root else _apart(a, b)
    figures = [bridge.bandwidth_gb_per_s for side in sides for bridge in side if bridge.has_link]
    known = [figure for figure in figures if figure is not None]
    return min(known) if known and len(known) == len(figures) else None


def pci_links(
    places: Mapping[DeviceId, PciPlace],
    pairs: Iterable[tuple[DeviceId, DeviceId]],
    known: Mapping[tuple[DeviceId, DeviceId], Link],
) -> Iterator[Link]:
    """Links of the pairs, both ways. A PCIe link that is known keeps what it tells and gets what it does not.

    Args:
        known: links by (source, destination); those of another kind are left alone.
    """
    for pair in pairs:
        a, b = (places[end] for end in pair)
        path, bandwidth = path_between(a, b), bandwidth_between(a, b)
        for src, dst in (pair, pair[::-1]):
            link = known.get((src, dst))
            if link is None:
                yield Link(
                    src=src,
                    dst=dst,
                    kind=LinkKind.PCIE,
                    latency_us=None,
                    bandwidth_gb_per_s=bandwidth,
                    source=Provenance.DATASHEET,
                    path=path,
                )
            elif link.kind is LinkKind.PCIE and link.latency_us is None and link.bandwidth_gb_per_s is None:
                yield replace(link, bandwidth_gb_per_s=bandwidth, source=Provenance.DATASHEET, path=link.path or path)


def shared_bridges(places: Mapping[DeviceId, PciPlace], host: DeviceId) -> list[SharedResource]:
    """The connections below which several devices hang, and not all; the narrowest for each such set of devices."""
    below: dict[tuple[str, str], tuple[PciBridge, list[DeviceId]]] = {}
    for device, place in places.items():
        for bridge in place.bridges:
            if bridge.bandwidth_gb_per_s is not None:
                below.setdefault((place.root, bridge.name), (bridge, []))[1].append(device)
    narrowest: dict[tuple[DeviceId, ...], tuple[float, str]] = {}
    for bridge, devices in below.values():
        inside = (bridge.bandwidth_gb_per_s or 0.0, bridge.name)
        if 1 < len(devices) < len(places):
            narrowest[tuple(devices)] = min(narrowest.get(tuple(devices), inside), inside)
    found: list[SharedResource] = []
    for devices_below, (bandwidth, name) in narrowest.items():
        others = tuple(device for device in places if device not in devices_below)
        found += [
            SharedResource(
                name=f"{host} PCIe {name} {direction}",
                senders=senders,
                receivers=receivers,
                bandwidth_gb_per_s=bandwidth,
                source=Provenance.DATASHEET,
            )
            for direction, senders, receivers in (("up", devices_below, others), ("down", others, devices_below))
        ]
    return found


def _apart(a: PciPlace, b: PciPlace) -> tuple[Sequence[PciBridge], Sequence[PciBridge]]:
    """The bridges of each below the last one that both have."""
    common = 0
    for bridge_a, bridge_b in zip(a.bridges, b.bridges, strict=False):
        if bridge_a.name != bridge_b.name:
            break
        common += 1
    return a.bridges[common:], b.bridges[common:]
