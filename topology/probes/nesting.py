"""From sets of CPUs to a tree: which socket, NUMA node, cache or core stands inside which. Pure.

The order is found from the sets alone, because it differs between machines: an L3 cache may be a part of a NUMA node or
span several, and a NUMA node may be a part of a socket or span several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..cpulist import format_cpu_list
from ..devices import Cache, Device, DeviceId, DeviceKind

# What contains what where two devices have the same CPUs, outermost first; the caches of a core stand around it.
_OUTERMOST_FIRST = (DeviceKind.SOCKET, DeviceKind.NUMA_NODE, DeviceKind.CACHE, DeviceKind.CORE, DeviceKind.CPU)
# Whom to believe where two devices overlap and neither contains the other.
_MOST_TRUSTED_FIRST = (DeviceKind.CPU, DeviceKind.CORE, DeviceKind.SOCKET, DeviceKind.NUMA_NODE, DeviceKind.CACHE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A device and the CPUs in it; its parent is still open."""

    device: Device
    cpus: frozenset[int]


def nest(groupings: Sequence[Grouping], host: DeviceId) -> tuple[list[Device], list[str]]:
    """(devices with their parents, each after its parent; what had to be left out, in words).

    A device that overlaps a more trusted one, with neither inside the other, or that is a part of a core, is left out:
    such machines exist where a hypervisor hands out CPUs without regard to the real ones.
    """
    accepted: list[Grouping] = []
    left_out: list[str] = []
    holders: dict[int, list[Grouping]] = {}
    for grouping in sorted(groupings, key=lambda grouping: _MOST_TRUSTED_FIRST.index(grouping.device.kind)):
        touched = {held.device.id: held for cpu in sorted(grouping.cpus) for held in holders.get(cpu, ())}
        odd = next((held for held in touched.values() if not _fits(held, grouping.cpus)), None)
        if odd is not None:
            left_out.append(
                f"{grouping.device.id} (CPUs {format_cpu_list(grouping.cpus)}) does not fit "
                f"{odd.device.id} (CPUs {format_cpu_list(odd.cpus)}) and is left out"
            )
            continue
        accepted.append(grouping)
        for cpu in grouping.cpus:
            holders.setdefault(cpu, []).append(grouping)
    devices: list[Device] = []
    innermost: dict[int, DeviceId] = {}
    for grouping in sorted(accepted, key=_outside_in):
        parent = innermost.get(min(grouping.cpus), host) if grouping.cpus else host
        devices.append(replace(grouping.device, parent=parent))
        innermost.update(dict.fromkeys(grouping.cpus, grouping.device.id))
    return devices, left_out


def _fits(held: Grouping, cpus: frozenset[int]) -> bool:
    return held.cpus <= cpus or (cpus < held.cpus and held.device.kind is not DeviceKind.CORE)


def _outside_in(grouping: Grouping) -> tuple[int, int, int, int]:
    device = grouping.device
    level = device.level if isinstance(device, Cache) else 0
    return (-len(grouping.cpus), _OUTERMOST_FIRST.index(device.kind), -level, min(grouping.cpus, default=0))
