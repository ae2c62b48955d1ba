"""A host from the XML of hwloc: ``lstopo --of xml``, in the forms of its versions 1, 2 and 3.

In: the text. Out: a ``Topology`` with the same devices and ids as the Linux probe gives: processors, caches, NUMA nodes
and their distances here, what hangs on PCI in ``hwloc_io``. Addresses, serial numbers and the host's name, which the
file has too, are not taken. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..cpulist import format_cpu_list
from ..devices import Cache, Core, Cpu, DeviceId, Host, NumaNode, Socket
from ..graph import Topology
from .hwloc_io import read_io
from .hwloc_objects import Object, bits, info, number, objects_of, unreadable
from .nesting import Grouping, nest
from .xml_elements import Element, read_elements

WHAT = "hwloc XML"
REMEDY = "write it again with: lstopo --of xml FILE"
_DATA_OR_UNIFIED = ("0", "1")
_LATENCY = 4  # the bit of a distance's kind
_MOST_NODES = 1024


def is_hwloc_xml(text: str) -> bool:
    """Whether a text means to be hwloc's XML."""
    start = text[:4096].lstrip("\ufeff \t\r\n")
    return start.startswith("<") and re.search(r"<topology[\s>]", start) is not None


def parse(text: str, host: DeviceId = "host0") -> Topology:
    """Build the topology of one host.

    Raises:
        ProbeError: no hwloc XML, no CPUs in it, or a value that cannot be read without guessing (line, got, expected).
    """
    root = read_elements(text, WHAT, REMEDY)
    machine = next((child for child in root.named("object") if child.attributes.get("type") == "Machine"), None)
    if root.name != "topology" or machine is None:
        raise unreadable(root, root.name, "an element 'topology' with an object of type 'Machine'")
    objects = objects_of(machine)
    unseen = ["sizes of /dev/shm, limits of the control group, drivers and rates of interfaces: hwloc does not tell"]
    inside, left_out = nest(list(_groupings(objects, machine, host, _distances(root, objects, host))), host)
    numbers = {device.number: device.id for device in inside if isinstance(device, NumaNode)}
    top = Host(
        id=host,
        parent=None,
        cpu_model=_cpu_model(objects),
        memory_bytes=sum(node.memory_bytes or 0 for node in inside if isinstance(node, NumaNode))
        or number(machine, "local_memory"),
    )
    topology = Topology(devices=(top, *inside), unseen=(*unseen, *left_out))
    major = root.attributes.get("version", "1").partition(".")[0]
    return read_io(root, objects, numbers, host, major=int(major) if major.isdecimal() else 1).added_to(topology)


def _groupings(
    objects: list[Object], machine: Element, host: DeviceId, distances: dict[int, tuple[tuple[DeviceId, int], ...]]
) -> Iterator[Grouping]:
    online = frozenset(index for found in objects if found.kind == "PU" for index in [_index(found)])
    if not online:
        raise unreadable(machine, "no object of type 'PU'", "CPUs")
    told = machine.attributes.get("allowed_cpuset")
    allowed = online if told is None else bits(machine, told)
    in_cores: set[int] = set()
    for found in objects:
        cpus = found.cpus & online
        if found.kind == "PU":
            index = _index(found)
            cpu = Cpu(id=f"{host}/cpu{index}", parent=host, number=index, allowed=index in allowed)
            yield Grouping(device=cpu, cpus=frozenset({index}))
        elif found.kind == "Core" and cpus:
            in_cores |= cpus
            yield Grouping(device=Core(id=f"{host}/core{min(cpus)}", parent=host), cpus=cpus)
        elif found.kind in ("Package", "Socket"):
            index = _index(found)
            yield Grouping(device=Socket(id=f"{host}/socket{index}", parent=host, number=index), cpus=cpus)
        elif found.kind in ("NUMANode", "Node"):
            index = _index(found)
            node = NumaNode(
                id=f"{host}/numa{index}",
                parent=host,
                number=index,
                memory_bytes=number(found.element, "local_memory"),
                distances=distances.get(index, ()),
            )
            yield Grouping(device=node, cpus=cpus)
        elif cpus and (cache := _cache(found, cpus, host)) is not None:
            yield Grouping(device=cache, cpus=cpus)
    for index in sorted(online - in_cores):
        yield Grouping(device=Core(id=f"{host}/core{index}", parent=host), cpus=frozenset({index}))


def _index(found: Object) -> int:
    index = number(found.element, "os_index")
    if index is None or index >= 1 << 20:
        raise unreadable(found.element, str(index), f"an os_index of the {found.kind}")
    return index


def _cache(found: Object, cpus: frozenset[int], host: DeviceId) -> Cache | None:
    if not re.fullmatch(r"(L[1-5])?Cache", found.kind):
        return None
    level, size = number(found.element, "depth"), number(found.element, "cache_size")
    if found.element.attributes.get("cache_type", "0") not in _DATA_OR_UNIFIED or not size:
        return None
    if level is None or not 1 <= level <= 5:
        raise unreadable(found.element, str(level), "a cache's depth from 1 to 5")
    return Cache(id=f"{host}/l{level}-{format_cpu_list(cpus)}", parent=host, level=level, size_bytes=size)


def _cpu_model(objects: list[Object]) -> str | None:
    models = {info(found.element, "CPUModel") for found in objects if found.kind in ("Machine", "Package", "Socket")}
    return " + ".join(sorted(" ".join(model.split()) for model in models if model)) or None


def _distances(root: Element, objects: list[Object], host: DeviceId) -> dict[int, tuple[tuple[DeviceId, int], ...]]:
    """Of each NUMA node, the distance to each other one; empty where the file has none."""
    nodes = [_index(found) for found in objects if found.kind in ("NUMANode", "Node")]
    for element in root.named("distances2"):
        kind = number(element, "kind") or 0
        if element.attributes.get("type") == "NUMANode" and kind & _LATENCY:
            indexes = _numbers(element, "indexes")
            values = [float(value) for value in _numbers(element, "u64values")]
            if element.attributes.get("indexing") == "os":
                return _matrix(element, indexes, values, nodes, host)
    for found in objects:
        for element in found.element.named("distances"):
            if number(element, "nbobjs") == len(nodes):
                base = _decimal(element, "latency_base")
                values = [_decimal(cell, "value") * base for cell in element.named("latency")]
                return _matrix(element, nodes, values, nodes, host)
    return {}


def _matrix(
    element: Element, indexes: list[int], values: list[float], nodes: list[int], host: DeviceId
) -> dict[int, tuple[tuple[DeviceId, int], ...]]:
    n = len(indexes)
    if n > _MOST_NODES or len(values) != n * n or len(set(indexes)) != n or not set(indexes) <= set(nodes):
        raise unreadable(element, f"{len(values)} values for {n} nodes", "one for each two nodes of this file")
    return {
        index: tuple(
            (f"{host}/numa{other}", round(values[row * n + column]))
            for column, other in enumerate(indexes)
            if other != index
        )
        for row, index in enumerate(indexes)
    }


def _numbers(element: Element, name: str) -> list[int]:
    words = [word for child in element.named(name) for word in child.text.split()]
    if not all(re.fullmatch(r"[0-9]{1,18}", word) for word in words):
        raise unreadable(element, f"{name} {' '.join(words)}", "whole numbers")
    return [int(word) for word in words]


def _decimal(element: Element, name: str) -> float:
    text = element.attributes.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise unreadable(element, text, f"{name}, a number such as 2.100000")
    return float(text)
