"""Accelerators and what joins them: NPU dies, GPUs, the modules that carry them, switches, super pods. Frozen values.

Like ``devices``: facts with their units, and which of them decide. Unknown is None. What a vendor calls a card, a chip,
a die or a device is here: a ``Card`` is what is plugged in, an ``Npu`` or ``Gpu`` is what a rank drives.
"""

from __future__ import annotations

from dataclasses import dataclass

from .devices import Device, DeviceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperPod(Device):
    """Hosts whose accelerators are joined by the vendor's own links, with one memory space; it has no parent."""

    kind = DeviceKind.SUPER_POD

    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Device):
    """A switch inside a host (PCIe, NVSwitch) or a super pod; one between hosts (leaf, spine) has no parent."""

    kind = DeviceKind.SWITCH

    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card(Device):
    """A module with several dies or chips, inside a host or NUMA node: Ascend 910C, 300I Duo.

    Args:
        number: the vendor's number of the card; None where no tool tells.
        product: its name as sold.
    """

    kind = DeviceKind.CARD

    number: int | None = None
    product: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Npu(Device):
    """An Ascend die (A3) or chip, inside its card, or inside the NUMA node whose CPUs are near, or the host.

    Args:
        number: as rank tables and HCCL count it: the logic id, or the Phy-ID.
        chip_name: ``"910B3"``, ``"Ascend910"``.
        memory_bytes: of the die's own memory.
        bus_id: its PCIe address; two chips of a card may show the same.
        physical_id: where the tools tell it apart from ``number``.
        address: IP address of its RoCE interface.
        super_device_id: its number in the super pod (SDID).
        health: in the words of the tool.
    """

    kind = DeviceKind.NPU
    decides = ("chip_name", "memory_bytes")

    number: int
    chip_name: str | None = None
    memory_bytes: int | None = None
    bus_id: str | None = None
    physical_id: int | None = None
    address: str | None = None
    super_device_id: str | None = None
    health: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Device):
    """A GPU, inside the NUMA node whose CPUs are near, or the host.

    Args:
        number: as the driver counts it.
        model: its name as sold.
        memory_bytes: of its own memory.
        bus_id: its PCIe address.
    """

    kind = DeviceKind.GPU
    decides = ("model", "memory_bytes")

    number: int
    model: str | None = None
    memory_bytes: int | None = None
    bus_id: str | None = None
