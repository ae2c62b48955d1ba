"""What a host is made of: its processors, memory and network, and the facts known of each. Frozen values.

A kind of device is a class, here or in ``accelerators``: its facts with their units, and which of them decide a tuner's
choice and so go into the fingerprint. ``document`` lists the classes. Unknown is None. No behaviour beyond invariants.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, fields
from typing import ClassVar

DeviceId = str


class DeviceKind(enum.Enum):
    """What a device is, in the words that the JSON form and the fingerprint use."""

    HOST = "host"
    SOCKET = "socket"
    NUMA_NODE = "numa_node"
    CACHE = "cache"
    CORE = "core"
    CPU = "cpu"
    NIC = "nic"
    RDMA_PORT = "rdma_port"
    SUPER_POD = "super_pod"
    SWITCH = "switch"
    CARD = "card"
    NPU = "npu"
    GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A part of a machine, inside its parent.

    Args:
        id: unique in its topology, such as ``"host0/cpu3"``.
        parent: the smallest device that contains this one; None for a host on its own, a super pod, or a switch between
            hosts.
    """

    kind: ClassVar[DeviceKind]
    decides: ClassVar[tuple[str, ...]] = ()  # the facts that go into the fingerprint

    id: DeviceId
    parent: DeviceId | None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not 0 <= value < math.inf:
                raise ValueError(f"{self.id}: {field.name} is {value}, which is not 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host(Device):
    """One operating system image, as this process sees it.

    Args:
        cpu_model: the words of the CPU; several are joined by `` + ``.
        memory_bytes: what the kernel manages.
        shm_bytes: size of the file system at /dev/shm.
        cpu_quota_cores: CPU time that the cgroup may use, in whole CPUs (1.5 is one and a half); None where unlimited.
        memory_limit_bytes: the smallest limit of the cgroup and those above it; None where unlimited.
        name: the host's name or address, as the recording gives it.
    """

    kind = DeviceKind.HOST
    decides = ("cpu_model",)

    cpu_model: str | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    cpu_quota_cores: float | None = None
    memory_limit_bytes: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket(Device):
    """A package of cores; ``number`` is the firmware's, not always counted from 0."""

    kind = DeviceKind.SOCKET

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode(Device):
    """Memory and the cores near it; a node may have either without the other.

    Args:
        distances: to each other node, the firmware's relative latency (10 is local), sorted by node.
    """

    kind = DeviceKind.NUMA_NODE
    decides = ("far",)

    number: int
    memory_bytes: int | None = None
    distances: tuple[tuple[DeviceId, int], ...] = ()

    @property
    def far(self) -> tuple[int, ...]:
        """The distances without the names of the nodes, ascending."""
        return tuple(sorted(distance for _, distance in self.distances))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache(Device):
    """A data or unified cache, shared by the CPUs below it."""

    kind = DeviceKind.CACHE
    decides = ("level", "size_bytes")

    level: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Core(Device):
    """A physical core; the CPUs below it are its hardware threads."""

    kind = DeviceKind.CORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu(Device):
    """What a rank is pinned to: a CPU as the kernel numbers them.

    Args:
        allowed: whether this process may run on it (affinity, cpuset).
    """

    kind = DeviceKind.CPU

    number: int
    allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic(Device):
    """A physical network interface, inside its NUMA node or host, or inside the accelerator that it serves alone.

    Args:
        rate_gb_per_s: 1e9 bytes per second, as negotiated; None while there is no link or the driver does not tell.
        state: the kernel's ``operstate``.
        address: its IP address.
        switch_port: what it is plugged into, as ``switch-mac/port`` from LLDP.
    """

    kind = DeviceKind.NIC
    decides = ("driver", "rate_gb_per_s")

    name: str
    driver: str | None = None
    rate_gb_per_s: float | None = None
    mtu_bytes: int | None = None
    state: str | None = None
    address: str | None = None
    switch_port: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPort(Device):
    """A port of an RDMA device.

    Args:
        link_layer: ``"InfiniBand"``, or ``"Ethernet"`` for RoCE.
        rate_gb_per_s: 1e9 bytes per second; None unless the port is active, since others report a placeholder.
    """

    kind = DeviceKind.RDMA_PORT
    decides = ("driver", "link_layer", "rate_gb_per_s")

    name: str
    port: int
    driver: str | None = None
    link_layer: str | None = None
    rate_gb_per_s: float | None = None
    state: str | None = None
