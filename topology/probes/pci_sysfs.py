"""PCI functions of a Linux host from /sys/bus/pci: accelerators, displays and network interfaces, and bridges above.

Recorded are the place, class, ids, NUMA node, and the greatest speed and width of each connection: the current ones of
an accelerator that has nothing to do are lower. Serial numbers and configuration space are never read.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter

from ..devices import DeviceId
from .pci import PciBridge, PciPlace, lane_bandwidth_gb_per_s
from .recording import Recorder, Recording, natural, not_readable, text_of, whole_number

_PCI = "/sys/bus/pci/devices"
_SPEEDS = ("max_link_speed", "max_link_width")
_RECORDED_CLASS = re.compile(r"0x(?:02|0300|0302|0380|12)[0-9a-f]*")
_ACCELERATOR_CLASS = re.compile(r"0x(?:0302|12)[0-9a-f]*")
_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MOST_LANES = 32


def collect_pci(recorder: Recorder) -> None:
    """Record the functions of the kinds above, virtual functions of interfaces left out, and their bridges."""
    bridges: set[str] = set()
    for name in recorder.names(_PCI):
        path = f"{_PCI}/{name}"
        if not _RECORDED_CLASS.match(recorder.peek(f"{path}/class") or ""):
            continue
        if recorder.peek(f"{path}/physfn/class") is not None:
            continue
        target = recorder.link(path) or ""
        for fact in ("class", "vendor", "device", "numa_node", *_SPEEDS):
            recorder.read(f"{path}/{fact}")
        bridges.update(part for part in target.split("/")[:-1] if _FUNCTION.fullmatch(part))
    for bridge in sorted(bridges):
        for fact in _SPEEDS:
            recorder.read(f"{_PCI}/{bridge}/{fact}")


def place_of(recording: Recording, function: str) -> PciPlace | None:
    """Where a function hangs, by its address as sysfs writes it; None where that is not recorded.

    Raises:
        ProbeError: a speed or width that cannot be read without guessing.
    """
    target = recording.get(f"{_PCI}/{function}")
    if target is None or target.startswith("!"):
        return None
    parts = target.split("/")
    root = next((part for part in parts if part.startswith("pci")), "")
    chain = [part for part in parts if _FUNCTION.fullmatch(part)]
    node = whole_number(recording, f"{_PCI}/{function}/numa_node", least=-1)
    # A link leads down from every root port and from every lower port of a switch, and none from an upper one.
    bridges: list[PciBridge] = []
    for index, (name, below) in enumerate(itertools.pairwise(chain)):
        figure = None if index % 2 else _bandwidth(recording, name, below)
        bridges.append(PciBridge(name=name, has_link=index % 2 == 0, bandwidth_gb_per_s=figure))
    return PciPlace(root=root, bridges=tuple(bridges), numa=node if node is not None and node >= 0 else None)


def function_of(recording: Recording, path: str) -> str | None:
    """The PCI function behind an entry such as /sys/class/net/eth0; None where it is none."""
    parts = recording.get(path, "").split("/")
    return next((part for part in reversed(parts) if _FUNCTION.fullmatch(part)), None)


def accelerators_on_bus(recording: Recording) -> list[str]:
    """In words, the accelerators on the bus, by vendor and device."""
    ids: Counter[tuple[str, str]] = Counter()
    for path in sorted((path for path in recording if path.startswith(f"{_PCI}/")), key=natural):
        function, _, fact = path[len(_PCI) + 1 :].partition("/")
        if fact == "class" and _ACCELERATOR_CLASS.match(recording[path]):
            vendor, device = (
                (text_of(recording, f"{_PCI}/{function}/{name}") or "unknown").removeprefix("0x")
                for name in ("vendor", "device")
            )
            ids[vendor, device] += 1
    return [f"{count} of vendor {vendor}, device {device}" for (vendor, device), count in ids.items()]


def place_devices(recording: Recording, functions: dict[DeviceId, str]) -> dict[DeviceId, PciPlace]:
    """The places of devices by their functions, those that are recorded."""
    places = {device: place_of(recording, function) for device, function in functions.items()}
    return {device: place for device, place in places.items() if place is not None}


def _bandwidth(recording: Recording, upper: str, lower: str) -> float | None:
    """GB/s of the connection between a port and what is below it: what both of its ends can do."""
    speeds = [speed for end in (upper, lower) if (speed := _speed(recording, end)) is not None]
    widths = [width for end in (upper, lower) if (width := _width(recording, end)) is not None]
    return round(lane_bandwidth_gb_per_s(min(speeds)) * min(widths), 3) if speeds and widths else None


def _speed(recording: Recording, function: str) -> float | None:
    """``16.0 GT/s PCIe`` -> 16.0; None where the kernel writes that it does not know."""
    path = f"{_PCI}/{function}/max_link_speed"
    text = text_of(recording, path)
    if text is None or text.startswith("Unknown"):
        return None
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?", text)
    if match is None or float(match[1]) == 0:
        raise not_readable(path, text, "a speed such as '16.0 GT/s PCIe'")
    return float(match[1])


def _width(recording: Recording, function: str) -> int | None:
    width = whole_number(recording, f"{_PCI}/{function}/max_link_width")
    return width if width is not None and 0 < width <= _MOST_LANES else None  # 0 and 255: not known
