"""Which description a probed machine fits, and what the description adds to it. Pure.

A host fits where its accelerators' models and links do. A part of a host, as a container sees it, fits as well: fewer
accelerators, each pair joined as in the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..accelerators import Gpu, Npu
from ..devices import Device, Host, Nic, RdmaPort
from ..graph import Topology
from ..links import Link, LinkKind, PciePath
from .build import many_hosts, shared_resources
from .description import MachineSpec, Marks

_Seat = Npu | Gpu
_Class = tuple[str, str, LinkKind, PciePath | None]
_MEMORY_TOLERANCE = 0.15  # tools show less than the nominal memory
_GIB = 2**30


def name_of(topology: Topology, specs: Mapping[str, MachineSpec]) -> str | None:
    """The name of the one description that every host fits; None where none does, or several do."""
    if not topology.hosts:
        return None
    in_pod = any(host.parent is not None for host in topology.hosts)
    fitting = [
        name
        for name, spec in specs.items()
        if spec.marks is not None
        and (spec.super_pod is not None) == in_pod
        and all(_fits(topology, host, spec, spec.marks) for host in topology.hosts)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _fits(topology: Topology, host: Host, spec: MachineSpec, marks: Marks) -> bool:
    seats = topology.accelerators(host.id)
    if not 2 <= len(seats) <= len(spec.seats.numa_nodes):
        return False
    if not all(seat.kind.value == spec.seats.kind.value and _has_marks(seat, marks) for seat in seats):
        return False
    here = {seat.id for seat in seats}
    degrees = Counter((src, _joint(link)) for (src, dst), link in topology.links.items() if src in here and dst in here)
    whole = len(seats) == len(spec.seats.numa_nodes)
    wanted = _degrees(spec)
    for seat in seats:
        own = {joint: count for (src, joint), count in degrees.items() if src == seat.id}
        if own != wanted if whole else any(count > wanted.get(joint, 0) for joint, count in own.items()):
            return False
    return whole or sum(degrees.values()) == len(seats) * (len(seats) - 1)


def _joint(link: Link) -> tuple[LinkKind, int | None]:
    return (link.kind, link.n_bonded)


def _degrees(spec: MachineSpec) -> dict[tuple[LinkKind, int | None], int]:
    """How many links of each kind one accelerator has; all have as many, since rules go by equal blocks."""
    counts: dict[tuple[LinkKind, int | None], int] = {}
    reached = 1
    for rule in spec.links:
        block = len(spec.seats.numa_nodes) if rule.within is None else rule.within
        counts[rule.kind, rule.n_bonded] = counts.get((rule.kind, rule.n_bonded), 0) + block - reached
        reached = block
    return counts


def _has_marks(seat: _Seat, marks: Marks) -> bool:
    """Whether model and memory, as far as they are known, are those of the description."""
    model = seat.chip_name if isinstance(seat, Npu) else seat.model
    if model is not None and not any(_is_model(model, known) for known in marks.models):
        return False
    if marks.memory_gib is None or seat.memory_bytes is None:
        return True
    return abs(seat.memory_bytes / _GIB / marks.memory_gib - 1) <= _MEMORY_TOLERANCE


def _is_model(model: str, known: str) -> bool:
    return model.startswith(known[:-1]) if known.endswith("*") else model == known


def fill_from(topology: Topology, spec: MachineSpec) -> Topology:
    """The topology with figures on links that have none, and the shared limits of the description.

    A link takes the figures of the described one between the same kinds of devices, of the same kind and path.
    """
    described = many_hosts(spec, spec.n_hosts if spec.network is None else 2)
    figures: dict[_Class, Link] = {}
    for link in described.links.values():
        figures.setdefault(_class(described, link), link)
        figures.setdefault((*_class(described, link)[:3], None), link)
    links = {ends: _filled(link, figures.get(_class(topology, link))) for ends, link in topology.links.items()}
    seats = [{seat.number: seat.id for seat in topology.accelerators(host.id)} for host in topology.hosts]
    taken = {resource.name for resource in topology.shared}
    added = [
        resource for resource in shared_resources(spec.shared, seats, links.values()) if resource.name not in taken
    ]
    return replace(topology, links=links, shared=(*topology.shared, *added))


def _class(topology: Topology, link: Link) -> _Class:
    src, dst = topology.device(link.src), topology.device(link.dst)
    return (_end(src), _end(dst), link.kind, link.path)


def _end(device: Device) -> str:
    """An interface is one whether the tools show it as a network interface or as an RDMA port."""
    return "interface" if isinstance(device, Nic | RdmaPort) else device.kind.value


def _filled(link: Link, described: Link | None) -> Link:
    """Both figures or none: a link's source speaks for both."""
    if described is None or link.latency_us is not None or link.bandwidth_gb_per_s is not None:
        return link
    return replace(
        link,
        latency_us=described.latency_us,
        bandwidth_gb_per_s=described.bandwidth_gb_per_s,
        source=described.source,
    )
