"""The graph: devices inside devices, and links between them with their figures.

In: devices from a probe, links from measuring, a datasheet or the user. Out: ``Topology``, a value that answers what is
where and how far apart. It touches no machine. Links are keyed by (source, destination); there is no matrix.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from .devices import Cache, Core, Cpu, Device, DeviceId, Host, NumaNode, Socket


class LinkKind(enum.Enum):
    """What carries the bytes."""

    SHM = "shm"
    PCIE = "pcie"
    NETWORK = "network"
    RDMA = "rdma"


class Provenance(enum.Enum):
    """Where the figures of a link come from."""

    DATASHEET = "datasheet"
    PROBE = "probe"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A directed connection. Bandwidth is what one sender sees with the link to itself.

    Args:
        latency_us: one way, for a message of a few bytes.
        bandwidth_gb_per_s: 1e9 bytes per second, for long messages.
        source: of both figures.
    """

    src: DeviceId
    dst: DeviceId
    kind: LinkKind
    latency_us: float | None
    bandwidth_gb_per_s: float | None
    source: Provenance

    def __post_init__(self) -> None:
        if self.src == self.dst:
            raise ValueError(f"a link from {self.src} to itself")
        for name, figure in (("latency_us", self.latency_us), ("bandwidth_gb_per_s", self.bandwidth_gb_per_s)):
            if figure is not None and not 0.0 < figure < math.inf:
                raise ValueError(f"link {self.src} to {self.dst}: {name} is {figure}, which is not above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """A class of pairs of CPUs that are expected to show the same figures.

    Args:
        name: the smallest thing that both are in, such as ``"same L3"``.
        numa_distance: the firmware's figure; None within one NUMA node or where it is not known.
        n_cpus: CPUs in that smallest thing, for sorting near to far; it may differ within a class.
    """

    name: str
    numa_distance: int | None
    n_cpus: int = field(compare=False)

    @property
    def order(self) -> tuple[int, int]:
        """A sort key, near to far."""
        return (self.n_cpus, self.numa_distance or 0)

    def __str__(self) -> str:
        return self.name if self.numa_distance is None else f"{self.name}, NUMA distance {self.numa_distance}"


_D = TypeVar("_D", bound=Device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One or more hosts.

    Args:
        devices: parents stand before what they contain.
        links: by (source, destination).
        unseen: what the probe could not see or did not count, in words for people.
    """

    devices: tuple[Device, ...]
    links: Mapping[tuple[DeviceId, DeviceId], Link] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    _by_id: dict[DeviceId, Device] = field(init=False, repr=False, compare=False)
    _children: dict[DeviceId, list[Device]] = field(init=False, repr=False, compare=False)
    _n_cpus: dict[DeviceId, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_id: dict[DeviceId, Device] = {}
        children: dict[DeviceId, list[Device]] = {}
        for device in self.devices:
            if device.id in by_id:
                raise ValueError(f"two devices are called {device.id}")
            if (device.parent is None) != isinstance(device, Host):
                raise ValueError(f"{device.id}: a host has no parent, and everything else has one")
            if device.parent is not None and device.parent not in by_id:
                raise ValueError(f"{device.id}: its parent {device.parent} does not stand before it")
            if isinstance(device, Cpu) and not isinstance(by_id.get(device.parent or ""), Core):
                raise ValueError(f"{device.id}: a CPU stands inside a core, not inside {device.parent}")
            by_id[device.id] = device
            children.setdefault(device.parent or "", []).append(device)
        for node in self.of(NumaNode):
            for other, _ in node.distances:
                if not isinstance(by_id.get(other), NumaNode):
                    raise ValueError(f"{node.id}: its distance to {other}, which is no NUMA node here")
        for key, link in self.links.items():
            if key != (link.src, link.dst):
                raise ValueError(f"the link from {link.src} to {link.dst} is filed under {key}")
            for end in key:
                if end not in by_id:
                    raise ValueError(f"the link from {link.src} to {link.dst}: there is no device {end}")
        object.__setattr__(self, "links", MappingProxyType(dict(sorted(self.links.items()))))
        object.__setattr__(self, "_by_id", by_id)
        object.__setattr__(self, "_children", children)
        n_cpus = dict.fromkeys(by_id, 0)
        for cpu in self.of(Cpu):
            for device in self._above(cpu):
                n_cpus[device.id] += 1
        object.__setattr__(self, "_n_cpus", n_cpus)

    def device(self, device_id: DeviceId) -> Device:
        """The device of this id; KeyError where there is none."""
        return self._by_id[device_id]

    def children(self, device_id: DeviceId) -> tuple[Device, ...]:
        """What stands directly inside a device."""
        return tuple(self._children.get(device_id, ()))

    def within(self, device_id: DeviceId, kind: type[_D]) -> tuple[_D, ...]:
        """Every device of a kind inside a device, at any depth, the device itself included."""
        found: list[_D] = []
        stack = [self._by_id[device_id]]
        while stack:
            device = stack.pop()
            if isinstance(device, kind):
                found.append(device)
            stack += reversed(self._children.get(device.id, ()))
        return tuple(found)

    def of(self, kind: type[_D]) -> tuple[_D, ...]:
        """Every device of a kind: ``topology.of(Nic)``."""
        return tuple(device for device in self.devices if isinstance(device, kind))

    @property
    def hosts(self) -> tuple[Host, ...]:
        return self.of(Host)

    @property
    def allowed_cpus(self) -> tuple[Cpu, ...]:
        """The CPUs that ranks may be pinned to, by number within each host."""
        return tuple(
            cpu
            for host in self.hosts
            for cpu in sorted(self.within(host.id, Cpu), key=lambda cpu: cpu.number)
            if cpu.allowed
        )

    @property
    def n_cores(self) -> int:
        """Physical cores on which this process may run."""
        return len({cpu.parent for cpu in self.allowed_cpus})

    def distance(self, a: Cpu, b: Cpu) -> Distance:
        """The class of distance between two CPUs, from the smallest device that contains both."""
        above_a, above_b = self._above(a), self._above(b)
        ids_b = {device.id for device in above_b}
        common = next((device for device in above_a if device.id in ids_b), None)
        node_a, node_b = _numa_node(above_a), _numa_node(above_b)
        numa_distance = None
        if node_a is not None and node_b is not None and node_a.id != node_b.id:
            numa_distance = dict(node_a.distances).get(node_b.id)
        return Distance(
            name=_common_name(common, above_a, above_b),
            numa_distance=numa_distance,
            n_cpus=len(self.of(Cpu)) if common is None else self._n_cpus[common.id],
        )

    def bandwidth_between(self, a: Cpu, b: Cpu) -> float | None:
        """GB/s (1e9 bytes) from one CPU to another: the link's own figure, or the median of its class of distance."""
        link = self.links.get((a.id, b.id))
        if link is not None and link.bandwidth_gb_per_s is not None:
            return link.bandwidth_gb_per_s
        wanted = self.distance(a, b)
        figures = [
            link.bandwidth_gb_per_s
            for link in self.links.values()
            if link.bandwidth_gb_per_s is not None and self.link_distance(link) == wanted
        ]
        return statistics.median(figures) if figures else None

    def link_distance(self, link: Link) -> Distance | None:
        """The class of distance of a link between two CPUs; None for a link between other devices."""
        src, dst = self._by_id[link.src], self._by_id[link.dst]
        return self.distance(src, dst) if isinstance(src, Cpu) and isinstance(dst, Cpu) else None

    def with_links(self, links: Iterable[Link]) -> Topology:
        """This topology with the links laid over those that are there.

        A link replaces the older one between the same devices as a whole: its source speaks for both figures, so half
        of a measurement is never joined to half of a datasheet.
        """
        return replace(self, links={**self.links, **{(link.src, link.dst): link for link in links}})

    def _above(self, device: Device) -> list[Device]:
        """The device and everything that contains it, inside out."""
        chain = [device]
        while chain[-1].parent is not None:
            chain.append(self._by_id[chain[-1].parent])
        return chain


def _common_name(common: Device | None, above_a: list[Device], above_b: list[Device]) -> str:
    match common:
        case None:
            return "other host"
        case Cache():
            return f"same L{common.level}"
        case Host():
            in_sockets = all(any(isinstance(device, Socket) for device in above) for above in (above_a, above_b))
            return "other socket" if in_sockets else "same host"
        case NumaNode():
            return "same NUMA node"
        case _:
            return f"same {common.kind.value}"


def _numa_node(above: list[Device]) -> NumaNode | None:
    return next((device for device in above if isinstance(device, NumaNode)), None)
