"""The way of a message between two devices: over which links, through which switches. Pure.

In: a topology. Out: for any two devices a ``Route`` of hops. Two devices with a link between them use it. Others go by
the nearest way: along links, and up and down between a device and what it stands in. Nothing passes *through* what a
rank sits on, since an accelerator or a CPU forwards nothing by itself.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise

from .accelerators import Gpu, Npu
from .devices import Cpu, Device, DeviceId, Nic, RdmaPort
from .graph import Topology
from .links import Link, LinkKind, PciePath

# How far a link reaches, near to far: npu-smi's and nvidia-smi's classes, then the network.
_REACH = {
    LinkKind.SIO: 1,
    LinkKind.SHM: 2,
    LinkKind.HCCS: 2,
    LinkKind.UB: 2,
    LinkKind.NVLINK: 2,
    LinkKind.XGMI: 2,
    LinkKind.HCCS_SW: 3,
    LinkKind.RDMA: 20,
    LinkKind.NETWORK: 40,
}
_PCIE_REACH = {
    PciePath.PIX: 4,
    PciePath.PXB: 5,
    PciePath.PHB: 6,
    PciePath.NODE: 7,
    PciePath.SYS: 8,
    None: 8,
}
_INSIDE = 9  # one step between a device and what it stands in, where no link says more


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Hops from one device to another.

    Args:
        devices: the two ends and all between them.
        links: those of the hops that are links, in order; steps between a device and what it stands in are none.
        reach: how far it is, for comparing only; a longer class of link counts for more.
    """

    devices: tuple[DeviceId, ...]
    links: tuple[Link, ...]
    reach: int

    @property
    def bandwidth_gb_per_s(self) -> float | None:
        """GB/s (1e9 bytes) of its slowest link; None where no link's figure is known."""
        return min(
            (link.bandwidth_gb_per_s for link in self.links if link.bandwidth_gb_per_s is not None), default=None
        )

    @property
    def latency_us(self) -> float | None:
        """One way, all links together; None where one is not known."""
        parts = [link.latency_us for link in self.links]
        return None if not parts or None in parts else sum(part for part in parts if part is not None)


class Routes:
    """Finds routes on one topology, and keeps what it found."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._out: dict[DeviceId, list[tuple[DeviceId, int]]] = {device.id: [] for device in topology.devices}
        for (src, dst), link in topology.links.items():
            self._out[src].append((dst, reach(link)))
        for device in topology.devices:
            if device.parent is not None:
                step = 0 if isinstance(device, Nic | RdmaPort) and self._is_seat(device.parent) else _INSIDE
                self._out[device.id].append((device.parent, step))
                self._out[device.parent].append((device.id, step))
        self._from: dict[DeviceId, dict[DeviceId, tuple[int, DeviceId]]] = {}

    def between(self, src: DeviceId, dst: DeviceId) -> Route | None:
        """The route from one device to another; None where nothing joins them.

        Raises:
            KeyError: there is no such device.
        """
        link = self._topology.links.get((src, dst))
        if link is not None:
            return Route(devices=(src, dst), links=(link,), reach=reach(link))
        if src not in self._from:
            self._from[src] = self._search(src)
        found = self._from[src]
        if dst not in found:
            return None
        devices = [dst]
        while devices[-1] != src:
            devices.append(found[devices[-1]][1])
        devices.reverse()
        links = tuple(self._topology.links[hop] for hop in pairwise(devices) if hop in self._topology.links)
        return Route(devices=tuple(devices), links=links, reach=found[dst][0])

    def _search(self, src: DeviceId) -> dict[DeviceId, tuple[int, DeviceId]]:
        """Of each device that can be reached, how far it is and what stands before it on the way (Dijkstra 1959)."""
        found: dict[DeviceId, tuple[int, DeviceId]] = {}
        queue = [(0, src, src)]
        while queue:
            far, here, before = heapq.heappop(queue)
            if here in found:
                continue
            found[here] = (far, before)
            if here == src or not self._is_seat(here):
                for there, step in self._out[here]:
                    if there not in found:
                        heapq.heappush(queue, (far + step, there, here))
        return found

    def _is_seat(self, device_id: DeviceId) -> bool:
        return is_seat(self._topology.device(device_id))


def is_seat(device: Device) -> bool:
    """Whether a rank can sit on it."""
    return isinstance(device, Npu | Gpu | Cpu)


def reach(link: Link) -> int:
    """How far a link reaches, for comparing: links of one class are equal."""
    return _PCIE_REACH[link.path] if link.kind is LinkKind.PCIE else _REACH[link.kind]
