"""The graph: devices inside devices, links between them with their figures, and what several links share.

In: devices from a probe, links from measuring, a datasheet or the user. Out: ``Topology``, a value that answers what is
where and how far apart. It touches no machine. Links are keyed by (source, destination); there is no matrix.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from .accelerators import Card, Gpu, Npu, SuperPod, Switch
from .devices import Cache, Core, Cpu, Device, DeviceId, Host, NumaNode, Socket
from .links import Link, SharedResource


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
    """One or more hosts, and what stands between them.

    Args:
        devices: parents stand before what they contain.
        links: by (source, destination).
        shared: limits over several links; those of one link are in the link.
        unseen: what the probe could not see or did not count, in words for people.
        contradictions: where two sources disagree, in words for people.
    """

    devices: tuple[Device, ...]
    links: Mapping[tuple[DeviceId, DeviceId], Link] = field(default_factory=dict)
    shared: tuple[SharedResource, ...] = ()
    unseen: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    _by_id: dict[DeviceId, Device] = field(init=False, repr=False, compare=False)
    _children: dict[DeviceId, list[Device]] = field(init=False, repr=False, compare=False)
    _n_cpus: dict[DeviceId, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_id: dict[DeviceId, Device] = {}
        children: dict[DeviceId, list[Device]] = {}
        for device in self.devices:
            if device.id in by_id:
                raise ValueError(f"two devices are called {device.id}")
            parent = None if device.parent is None else by_id.get(device.parent)
            if device.parent is not None and parent is None:
                raise ValueError(f"{device.id}: its parent {device.parent} does not stand before it")
            _check_place(device, parent)
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
        names: set[str] = set()
        for resource in self.shared:
            if resource.name in names:
                raise ValueError(f"two shared resources are called {resource.name}")
            names.add(resource.name)
            for end in (*resource.senders, *resource.receivers):
                if end not in by_id:
                    raise ValueError(f"shared {resource.name}: there is no device {end}")
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
    def pinning_order(self) -> tuple[Cpu, ...]:
        """The CPUs that ranks are pinned to, host by host: one of each core first, then their siblings."""
        order: list[tuple[int, Cpu]] = []
        threads: dict[DeviceId | None, int] = {}
        for cpu in self.allowed_cpus:
            order.append((threads.setdefault(cpu.parent, 0), cpu))
            threads[cpu.parent] += 1
        at = {host.id: index for index, host in enumerate(self.hosts)}
        return tuple(cpu for _, cpu in sorted(order, key=lambda item: (at[self.host_of(item[1].id).id], item[0])))

    def accelerators(self, host_id: DeviceId | None = None) -> tuple[Npu | Gpu, ...]:
        """NPUs and GPUs by number, of one host or host by host."""
        hosts = [host.id for host in self.hosts] if host_id is None else [host_id]
        return tuple(device for host in hosts for device in sorted(self._dies(host), key=lambda device: device.number))

    def _dies(self, host: DeviceId) -> list[Npu | Gpu]:
        return [*self.within(host, Npu), *self.within(host, Gpu)]

    def rank_devices(self) -> tuple[Device, ...]:
        """What ranks sit on: the accelerators; without any, the CPUs in pinning order."""
        return self.accelerators() or self.pinning_order

    def host_of(self, device_id: DeviceId) -> Host:
        """The host that a device stands in, the device itself included.

        Raises:
            ValueError: it stands in none: a super pod, a switch between hosts.
        """
        for device in self._above(self._by_id[device_id]):
            if isinstance(device, Host):
                return device
        raise ValueError(f"{device_id} stands in no host")

    def constraints(self) -> Iterator[SharedResource]:
        """Every limit as one kind of value: the links whose bandwidth is known, then what several share."""
        for link in self.links.values():
            if link.bandwidth_gb_per_s is not None:
                yield SharedResource(
                    name=f"{link.src} to {link.dst}",
                    senders=(link.src,),
                    receivers=(link.dst,),
                    bandwidth_gb_per_s=link.bandwidth_gb_per_s,
                    source=link.source,
                )
        yield from self.shared

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
        return self.class_bandwidth(self.distance(a, b))

    def class_bandwidth(self, distance: Distance) -> float | None:
        """GB/s (1e9 bytes) between CPUs so far apart: the median of the links that are; None without one."""
        figures = [
            link.bandwidth_gb_per_s
            for link in self.links.values()
            if link.bandwidth_gb_per_s is not None and self.link_distance(link) == distance
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


def _check_place(device: Device, parent: Device | None) -> None:
    """ValueError where a device cannot stand inside this parent."""
    match device:
        case SuperPod():
            fault = None if parent is None else "a super pod has no parent"
        case Host():
            fault = None if parent is None or isinstance(parent, SuperPod) else "a host stands alone or in a super pod"
        case Switch():
            alone = parent is None or isinstance(parent, SuperPod | Host | NumaNode | Switch)
            fault = None if alone else "a switch stands alone, or in a super pod, host, NUMA node or switch"
        case Cpu():
            fault = None if isinstance(parent, Core) else "a CPU stands inside a core"
        case Npu() | Gpu():
            near = isinstance(parent, Card | NumaNode | Host | Switch | Socket)
            fault = None if near else "an accelerator stands in a card, NUMA node, socket, switch or host"
        case _:
            inside = parent is not None and not isinstance(parent, SuperPod)
            fault = None if inside else "only a host, a super pod and a switch between hosts stand in no host"
    if fault is not None:
        raise ValueError(f"{device.id}: {fault}, not inside {'nothing' if device.parent is None else device.parent}")


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
