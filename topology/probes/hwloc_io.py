"""What hangs on PCI in hwloc's XML: interfaces, RDMA ports and GPUs, their NUMA nodes, and the PCIe paths between them.

In: the objects of the file. Out: ``Findings``. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..accelerators import Gpu
from ..devices import Device, DeviceId, Nic, RdmaPort
from ..links import Link, LinkKind, Provenance
from .findings import Findings
from .hwloc_objects import Object, bits, info, unreadable
from .pci import PciBridge, PciPlace, pci_links, shared_bridges
from .xml_elements import Element

_NETWORK = {1: ("2",), 2: ("2",), 3: ("16",)}  # OS device types: counted in versions 1 and 2, bits in version 3
_RDMA = {1: ("3",), 2: ("3",), 3: ("32",)}
_GPU_NAMES = re.compile(r"(nvml|rsmi|cuda|ze)([0-9]{1,4})")
_PORT_STATES = {"1": "down", "2": "init", "3": "armed", "4": "active", "5": "active_defer"}
_ACCELERATOR_CLASSES = ("0302", "12")
_MATRICES = {"NVLinkBandwidth": LinkKind.NVLINK, "XGMIBandwidth": LinkKind.XGMI}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """A PCI device with the OS devices in it."""

    element: Element
    os_devices: tuple[Element, ...]
    parent: DeviceId
    place: PciPlace


def read_io(
    root: Element, objects: list[Object], nodes: Mapping[int, DeviceId], host: DeviceId, *, major: int
) -> Findings:
    """Interfaces, ports and GPUs with their PCIe links.

    Args:
        major: the version of the form: 1, 2 or 3.

    Raises:
        ProbeError: a value that cannot be read without guessing.
    """
    devices: list[Device] = []
    places: dict[DeviceId, PciPlace] = {}
    gpus: dict[str, DeviceId] = {}  # by the gp_index of any of their OS devices
    unnamed: Counter[str] = Counter()
    version = min(max(major, 1), 3)
    for function in _functions(objects, nodes, host):
        found: list[Device] = []
        for element in function.os_devices:
            found += _interface(element, function.parent, host, version)
        gpu = _gpu(function, host)
        if gpu is not None:
            found.append(gpu)
            gpus |= {element.attributes.get("gp_index", ""): gpu.id for element in function.os_devices}
        elif not found and (ids := _accelerator_ids(function.element)) is not None:
            unnamed[ids] += 1
        devices += found
        # An RDMA port and an interface of one function are one path.
        ends = [d for d in found if isinstance(d, Gpu | RdmaPort)] or found
        places |= {device.id: function.place for device in ends}
    accelerators = [device.id for device in devices if isinstance(device, Gpu)]
    pairs = [(gpu, other) for gpu in accelerators for other in places if other not in accelerators]
    pairs += [(a, b) for index, a in enumerate(accelerators) for b in accelerators[index + 1 :]]
    wired = {(link.src, link.dst): link for link in _matrix_links(root, gpus)}
    unseen = [f"accelerators that hwloc does not name: {count} of {ids}" for ids, count in sorted(unnamed.items())]
    if any(root.named("distances2hetero")):
        unseen.append("links to switches of GPUs: hwloc's table of unlike objects is not read")
    return Findings(
        devices=tuple(devices),
        links=(*wired.values(), *pci_links(places, pairs, wired)),
        shared=tuple(shared_bridges(places, host)) if accelerators else (),
        unseen=tuple(unseen),
    )


def _functions(objects: list[Object], nodes: Mapping[int, DeviceId], host: DeviceId) -> Iterator[_Function]:
    for found in objects:
        if found.kind != "PCIDev":
            continue
        node = _node(found, nodes)
        bridges = [element for element in reversed(found.above) if element.attributes.get("type") == "Bridge"]
        ports = [element for element in bridges if element.attributes.get("bridge_type") == "1-1"]
        root = next((element.attributes.get("bridge_pci", "") for element in bridges), "")
        chain = [*ports, found.element]
        yield _Function(
            element=found.element,
            os_devices=tuple(
                element for element in found.element.named("object") if element.attributes.get("type") == "OSDev"
            ),
            parent=host if node is None else nodes[node],
            place=PciPlace(
                root=root,
                bridges=tuple(
                    PciBridge(
                        name=port.attributes.get("pci_busid", ""),
                        has_link=index % 2 == 0,
                        bandwidth_gb_per_s=None if index % 2 else _bandwidth(port, chain[index + 1]),
                    )
                    for index, port in enumerate(ports)
                ),
                numa=node,
            ),
        )


def _node(found: Object, nodes: Mapping[int, DeviceId]) -> int | None:
    """The NUMA node of the smallest object around that is in one node only."""
    for element in found.above:
        told = element.attributes.get("nodeset")
        if told is not None:
            numbers = bits(element, told) & nodes.keys()
            return min(numbers) if len(numbers) == 1 else None
    return None


def _bandwidth(upper: Element, lower: Element) -> float | None:
    """GB/s between a port and what is below it; hwloc writes 0 where it does not know."""
    speeds = [speed for element in (upper, lower) if (speed := _speed(element)) is not None]
    return round(min(speeds), 3) if speeds else None


def _speed(element: Element) -> float | None:
    text = element.attributes.get("pci_link_speed", "0")
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", text):
        raise unreadable(element, text, "pci_link_speed, GB/s such as 15.753846")
    return float(text) or None


def _interface(element: Element, parent: DeviceId, host: DeviceId, version: int) -> Iterator[Nic | RdmaPort]:
    name, kind = element.attributes.get("name", ""), element.attributes.get("osdev_type", "")
    if not name:
        return
    if kind in _NETWORK[version]:
        yield Nic(id=f"{host}/net-{name}", parent=parent, name=name)
    elif kind in _RDMA[version]:
        states = {
            int(match[1]): pair.attributes.get("value", "")
            for pair in element.named("info")
            if (match := re.fullmatch(r"Port([0-9]{1,3})State", pair.attributes.get("name", ""))) is not None
        }
        for port, state in sorted((states or {1: ""}).items()):
            yield RdmaPort(
                id=f"{host}/rdma-{name}-{port}", parent=parent, name=name, port=port, state=_PORT_STATES.get(state)
            )


def _gpu(function: _Function, host: DeviceId) -> Gpu | None:
    named = {
        match[1]: (int(match[2]), element)
        for element in function.os_devices
        if (match := _GPU_NAMES.fullmatch(element.attributes.get("name", ""))) is not None
    }
    library = next((name for name in ("nvml", "rsmi", "cuda", "ze") if name in named), None)
    if library is None:
        return None
    models = (info(element, name) for element in function.os_devices for name in ("GPUModel", "CoProcModel"))
    sizes = (_number_of(element, "CUDAGlobalMemorySize") for element in function.os_devices)
    kib = next((size for size in sizes if size is not None), None)
    return Gpu(
        id=f"{host}/gpu{named[library][0]}",
        parent=function.parent,
        number=named[library][0],
        model=next((model for model in models if model), None),
        memory_bytes=None if kib is None else kib << 10,
        bus_id=function.element.attributes.get("pci_busid"),
    )


def _number_of(element: Element, name: str) -> int | None:
    """The whole number of an info pair; None where there is none or hwloc writes it with a unit."""
    text = info(element, name) or ""
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None


def _accelerator_ids(element: Element) -> str | None:
    """``vendor 19e5, device d802`` of an accelerator, from ``1200 [19e5:d802] ...``; None for another device."""
    match = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", element.attributes.get("pci_type", ""))
    if match is None or not match[1].startswith(_ACCELERATOR_CLASSES):
        return None
    return f"vendor {match[2]}, device {match[3]}"


def _matrix_links(root: Element, gpus: Mapping[str, DeviceId]) -> Iterator[Link]:
    """NVLink and XGMI bandwidths; hwloc writes MB/s, by gp_index, from the row to the column."""
    for element in root.named("distances2"):
        kind = _MATRICES.get(element.attributes.get("name", ""))
        if kind is None or element.attributes.get("indexing") != "gp":
            continue
        indexes = [word for child in element.named("indexes") for word in child.text.split()]
        values = [word for child in element.named("u64values") for word in child.text.split()]
        if len(values) != len(indexes) ** 2 or not all(re.fullmatch(r"[0-9]{1,12}", value) for value in values):
            raise unreadable(element, f"{len(values)} values", f"{len(indexes) ** 2} bandwidths in MB/s")
        for row, src in enumerate(indexes):
            for column, dst in enumerate(indexes):
                megabytes = int(values[row * len(indexes) + column])
                if src in gpus and dst in gpus and gpus[src] != gpus[dst] and megabytes:
                    yield Link(
                        src=gpus[src],
                        dst=gpus[dst],
                        kind=kind,
                        latency_us=None,
                        bandwidth_gb_per_s=megabytes / 1000,
                        source=Provenance.DATASHEET,
                    )
