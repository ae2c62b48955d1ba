"""The links between accelerators as a matrix, in the words of ``npu-smi`` and ``nvidia-smi topo -m``. Pure.

A host without two accelerators shows the distances between its NUMA nodes instead. Hosts that are alike are shown once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from .accelerators import Gpu, Npu
from .cpulist import format_cpu_list
from .devices import Cpu, Device, Host, Nic, NumaNode, RdmaPort
from .fingerprint import shape
from .graph import Topology
from .links import Link, LinkKind
from .probes.recording import natural

_MEANING = {
    "X": "itself",
    "-": "no link known",
    "HCCS": "links of Ascend, direct",
    "HCCS_SW": "links of Ascend through a switch",
    "SIO": "the two dies of a module",
    "UB": "links of Ascend from the 950 on",
    "NV#": "so many bonded NVLinks",
    "XGMI": "links of AMD",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "PCIe and the host bridge of a CPU",
    "NODE": "PCIe and the host bridges of one NUMA node",
    "SYS": "PCIe and the connection between NUMA nodes",
    "PCIE": "PCIe, path not known",
    "RDMA": "the RDMA network",
    "NETWORK": "the network",
    "SHM": "shared memory",
}


def matrix(topology: Topology) -> str:
    """The matrix of every kind of host, with a legend of its words; an empty text where there is nothing to show."""
    parts: list[str] = []
    words: set[str] = set()
    for _, group in groupby(topology.hosts, key=lambda host: _alike(topology, host)):
        hosts = list(group)
        rows = _accelerators(topology, hosts[0])
        if rows:
            words.update(cell for row in rows[1:] for cell in row[1:-1])
        else:
            rows = _numa_nodes(topology, hosts[0])
        if rows:
            title = [] if len(topology.hosts) == 1 else [_title(hosts)]
            parts.append("\n".join([*title, *_aligned(rows)]))
    if words:
        used = [(word, meaning) for word, meaning in _MEANING.items() if word in {_known(cell) for cell in words}]
        width = max(len(word) for word, _ in used)
        parts.append("\n".join(f"{word:<{width}}  {meaning}" for word, meaning in used))
    return "\n\n".join(parts) + "\n" if parts else ""


def _alike(topology: Topology, host: Host) -> object:
    """Hosts with the same parts and the same words between them."""
    return (shape(topology, host), [row[1:] for row in _accelerators(topology, host)])


def _title(hosts: Sequence[Host]) -> str:
    first, last = (host.name or host.id for host in (hosts[0], hosts[-1]))
    return f"host {first}" if len(hosts) == 1 else f"{len(hosts)} hosts alike, {first} to {last}"


def _accelerators(topology: Topology, host: Host) -> list[tuple[str, ...]]:
    """A header and a row for each accelerator: the word for each other one and each interface, and the CPUs near it."""
    seats = topology.accelerators(host.id)
    if len(seats) < 2:
        return []
    ids = {seat.id for seat in seats}
    linked = {dst for src, dst in topology.links if src in ids}
    nics = [
        device
        for device in (*topology.within(host.id, RdmaPort), *topology.within(host.id, Nic))
        if device.id in linked
    ]
    others: list[Device] = [*seats, *sorted(nics, key=lambda nic: natural(nic.id))]
    rows = [("", *(_name(device) for device in others), _affinity_title(topology))]
    rows += [
        (_name(seat), *(_word(topology, seat, other) for other in others), _near(topology, seat)) for seat in seats
    ]
    return rows


def _name(device: Device) -> str:
    match device:
        case Npu():
            return f"NPU{device.number}"
        case Gpu():
            return f"GPU{device.number}"
        case RdmaPort():
            return device.name if device.port == 1 else f"{device.name}:{device.port}"
        case Nic():
            return device.name
        case _:
            return device.id


def _word(topology: Topology, src: Device, dst: Device) -> str:
    if src.id == dst.id:
        return "X"
    link = topology.links.get((src.id, dst.id))
    return "-" if link is None else _link_word(link)


def _link_word(link: Link) -> str:
    """``HCCS``, ``NV12``, ``PIX``."""
    if link.kind is LinkKind.NVLINK:
        return f"NV{'' if link.n_bonded is None else link.n_bonded}"
    word: str = link.kind.value if link.path is None else link.path.value
    return word.upper()


def _known(word: str) -> str:
    """The word as the legend has it."""
    return "NV#" if word.startswith("NV") else word


def _affinity_title(topology: Topology) -> str:
    return "CPUs" if topology.of(Cpu) else "NUMA node"


def _near(topology: Topology, seat: Device) -> str:
    """The CPUs of its NUMA node, or the node's number where no CPUs are known."""
    device: Device | None = seat
    while device is not None and not isinstance(device, NumaNode):
        device = None if device.parent is None else topology.device(device.parent)
    if device is None:
        return "-"
    cpus = topology.within(device.id, Cpu)
    return format_cpu_list(cpu.number for cpu in cpus) if cpus else str(device.number)


def _numa_nodes(topology: Topology, host: Host) -> list[tuple[str, ...]]:
    """The firmware's distances between NUMA nodes, 10 is local."""
    nodes = sorted(topology.within(host.id, NumaNode), key=lambda node: node.number)
    if len(nodes) < 2 or not any(node.distances for node in nodes):
        return []
    rows = [("distance", *(f"node{node.number}" for node in nodes))]
    for node in nodes:
        known = dict(node.distances)
        cells = ("10" if other.id == node.id else str(known.get(other.id, "-")) for other in nodes)
        rows.append((f"node{node.number}", *cells))
    return rows


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]
