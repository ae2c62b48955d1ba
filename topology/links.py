"""Connections between devices, and what several of them share. Frozen values; ``graph`` checks that the ends exist."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from .devices import DeviceId


class LinkKind(enum.Enum):
    """What carries the bytes.

    HCCS and SIO (between the two dies of a module) are Ascend's, HCCS_SW is HCCS through a switch; UB is Ascend's from
    the 950 on; NVLINK is NVIDIA's, XGMI AMD's.
    """

    SHM = "shm"
    PCIE = "pcie"
    NETWORK = "network"
    RDMA = "rdma"
    HCCS = "hccs"
    HCCS_SW = "hccs_sw"
    SIO = "sio"
    UB = "ub"
    NVLINK = "nvlink"
    XGMI = "xgmi"


class PciePath(enum.Enum):
    """What a PCIe path goes through, in the words of ``npu-smi`` and ``nvidia-smi``, near to far."""

    PIX = "pix"  # one PCIe switch at most
    PXB = "pxb"  # several PCIe switches, and no host bridge
    PHB = "phb"  # a host bridge: the CPU
    NODE = "node"  # the host bridges of one NUMA node
    SYS = "sys"  # the connection between NUMA nodes


class Provenance(enum.Enum):
    """Where figures come from."""

    DATASHEET = "datasheet"
    PROBE = "probe"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A directed connection. Bandwidth is what one sender sees with the link to itself.

    Args:
        latency_us: one way, for a message of a few bytes.
        bandwidth_gb_per_s: 1e9 bytes per second, for long messages, all bonded links together.
        source: of both figures.
        path: of a PCIe link, where it is known.
        n_bonded: how many parallel links are used as one, as 12 in NVIDIA's ``NV12``.
    """

    src: DeviceId
    dst: DeviceId
    kind: LinkKind
    latency_us: float | None
    bandwidth_gb_per_s: float | None
    source: Provenance
    path: PciePath | None = None
    n_bonded: int | None = None

    def __post_init__(self) -> None:
        if self.src == self.dst:
            raise ValueError(f"a link from {self.src} to itself")
        for name, figure in (("latency_us", self.latency_us), ("bandwidth_gb_per_s", self.bandwidth_gb_per_s)):
            if figure is not None and not 0.0 < figure < math.inf:
                raise ValueError(f"link {self.src} to {self.dst}: {name} is {figure}, which is not above 0")
        if self.path is not None and self.kind is not LinkKind.PCIE:
            raise ValueError(f"link {self.src} to {self.dst}: path is of PCIe links, not of {self.kind.value}")
        if self.n_bonded is not None and self.n_bonded < 1:
            raise ValueError(f"link {self.src} to {self.dst}: n_bonded is {self.n_bonded}, which is not 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResource:
    """A limit on many flows at once: a plane of switches, a PCIe root, one interface behind two dies.

    All bytes that go straight from one of ``senders`` to one of ``receivers`` share the bandwidth, whatever links they
    are on. Bytes that go by a switch go first straight to the switch and then straight from it. A device may stand on
    both sides; what it sends to itself does not count.

    Args:
        name: for people, unique in a topology.
        bandwidth_gb_per_s: 1e9 bytes per second, over all flows together.
    """

    name: str
    senders: tuple[DeviceId, ...]
    receivers: tuple[DeviceId, ...]
    bandwidth_gb_per_s: float
    source: Provenance

    def __post_init__(self) -> None:
        for side, devices in (("senders", self.senders), ("receivers", self.receivers)):
            if not devices or len(set(devices)) != len(devices):
                raise ValueError(f"shared {self.name}: {side} are {devices}, which is empty or names one twice")
        if not 0.0 < self.bandwidth_gb_per_s < math.inf:
            raise ValueError(
                f"shared {self.name}: bandwidth_gb_per_s is {self.bandwidth_gb_per_s}, which is not above 0"
            )
