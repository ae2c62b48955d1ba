"""The topology as plain text for a terminal: tree, measured links, what could not be seen, fingerprint. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from ..units import format_bytes
from .cpulist import format_cpu_list
from .devices import Cache, Core, Cpu, Device, Host, Nic, NumaNode, RdmaPort, Socket
from .fingerprint import fingerprint, shape
from .graph import Link, Topology


def tree(topology: Topology) -> str:
    """Everything that is known of the topology, ending with its fingerprint and a newline."""
    lines: list[str] = []
    for host in topology.hosts:
        lines += _drawn(_host(topology, host))
    if topology.links:
        lines += ["", *_link_table(topology)]
    if topology.unseen:
        lines += ["", "not seen or not counted", *(f"  {words}" for words in topology.unseen)]
    return "\n".join([*lines, "", f"fingerprint {fingerprint(topology)}", ""])


@dataclass(slots=True, kw_only=True)
class _Node:
    """One line of the tree and the lines below it."""

    text: str
    below: list[_Node] = field(default_factory=list)


def _drawn(node: _Node) -> list[str]:
    lines = [node.text]
    for index, child in enumerate(node.below):
        last = index + 1 == len(node.below)
        first, *others = _drawn(child)
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + line for line in others]
    return lines


def _host(topology: Topology, host: Host) -> _Node:
    cpus = topology.within(host.id, Cpu)
    cores = topology.within(host.id, Core)
    facts = [host.cpu_model or "CPU unknown", _count(len(cores), "core")]
    if len(cpus) != len(cores):
        facts.append(_count(len(cpus), "CPU"))
    facts += [_memory(host.memory_bytes), _memory(host.shm_bytes, "/dev/shm")]
    limits = []
    if not all(cpu.allowed for cpu in cpus):
        limits.append(f"allowed are CPUs {format_cpu_list(cpu.number for cpu in cpus if cpu.allowed)}")
    if host.cpu_quota_cores is not None:
        limits.append(f"CPU time of {host.cpu_quota_cores:g} CPUs")
    if host.memory_limit_bytes is not None:
        limits.append(_memory(host.memory_limit_bytes))
    inside = [_Node(text=f"limits: {', '.join(limits)}")] if limits else []
    return _Node(text=f"host: {', '.join(facts)}", below=[*inside, *_inside(topology, host, each=False)])


def _inside(topology: Topology, parent: Device, *, each: bool) -> list[_Node]:
    """What stands in a device; caches and cores that are alike are drawn once, with their number.

    Args:
        each: whether the lines stand for several such parents, so that CPU numbers would mislead.
    """

    def alike(device: Device) -> object:
        return shape(topology, device) if isinstance(device, Cache | Core) else device.id

    nodes: list[_Node] = []
    for _, group in groupby(topology.children(parent.id), key=alike):
        run = list(group)
        first = run[0]
        cores = topology.within(first.id, Core)
        cpus = format_cpu_list(cpu.number for device in run for cpu in topology.within(device.id, Cpu))
        if len(cores) == 1 and isinstance(first, Cache | Core):
            nodes.append(_Node(text=_cores(topology, run, cpus=None if each else cpus)))
        elif isinstance(first, Cache) and len(run) > 1:
            where = "" if each else f", CPUs {cpus}"
            text = f"{len(run)} x L{first.level} {format_bytes(first.size_bytes)}{where}, in each"
            nodes.append(_Node(text=text, below=_inside(topology, first, each=True)))
        else:
            nodes += [
                _Node(text=_label(topology, device), below=_inside(topology, device, each=each)) for device in run
            ]
    return nodes


def _cores(topology: Topology, run: list[Device], cpus: str | None) -> str:
    """``8 cores of 2 threads, CPUs 0-15, each with L2 1MiB, L1 32KiB`` for equal cores with their own caches."""
    threads = len(topology.within(run[0].id, Cpu))
    text = _count(len(run), "core") + (f" of {threads} threads" if threads > 1 else "")
    if cpus is not None:
        text += f", {'CPU' if len(run) * threads == 1 else 'CPUs'} {cpus}"
    caches = [f"L{cache.level} {format_bytes(cache.size_bytes)}" for cache in topology.within(run[0].id, Cache)]
    return text + (f", {'each ' if len(run) > 1 else ''}with {', '.join(caches)}" if caches else "")


def _label(topology: Topology, device: Device) -> str:
    match device:
        case Socket():
            return f"socket {device.number}"
        case NumaNode():
            return ", ".join(
                [f"NUMA node {device.number}: {_memory(device.memory_bytes)}", *_distances(topology, device)]
            )
        case Cache():
            return f"L{device.level} {format_bytes(device.size_bytes)}"
        case Nic():
            mtu = [] if device.mtu_bytes is None else [f"MTU {device.mtu_bytes} bytes"]
            facts = [
                device.driver or "driver unknown",
                _rate(device.rate_gb_per_s),
                *mtu,
                device.state or "state unknown",
            ]
            return f"network {device.name}: {', '.join(facts)}"
        case RdmaPort():
            layer = {"Ethernet": "RoCE"}.get(device.link_layer or "", device.link_layer or "link layer unknown")
            facts = [
                device.driver or "driver unknown",
                layer,
                _rate(device.rate_gb_per_s),
                device.state or "state unknown",
            ]
            return f"RDMA {device.name} port {device.port}: {', '.join(facts)}"
        case _:
            return device.id


def _distances(topology: Topology, node: NumaNode) -> list[str]:
    """``distance 12 to node 1``, ``20 to nodes 2-3``, near to far."""
    numbers = {other.id: other.number for other in topology.of(NumaNode)}
    words: list[str] = []
    for distance in sorted({distance for _, distance in node.distances}):
        others = [numbers[other] for other, its in node.distances if its == distance]
        words.append(f"{distance} to node{'s' if len(others) > 1 else ''} {format_cpu_list(others)}")
    return [f"distance {words[0]}", *words[1:]] if words else []


def _link_table(topology: Topology) -> list[str]:
    rows = [("link", "from", "to", "latency us", "GB/s", "source")]
    for link in sorted(topology.links.values(), key=lambda link: _near_first(topology, link)):
        distance = topology.link_distance(link)
        rows.append(
            (
                link.kind.value if distance is None else str(distance),
                link.src.rpartition("/")[2],
                link.dst.rpartition("/")[2],
                _figure(link.latency_us, 2),
                _figure(link.bandwidth_gb_per_s, 1),
                link.source.value,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = ("<", "<", "<", ">", ">", "<")
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, aligned, widths, strict=True)).rstrip()
        for row in rows
    ]


def _near_first(topology: Topology, link: Link) -> tuple[bool, tuple[int, int], str, str]:
    """Links between CPUs near to far, then the others."""
    distance = topology.link_distance(link)
    return (distance is None, (0, 0) if distance is None else distance.order, link.src, link.dst)


def _figure(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:.{digits}f}"


def _rate(rate_gb_per_s: float | None) -> str:
    return "rate unknown" if rate_gb_per_s is None else f"{rate_gb_per_s:g} GB/s ({rate_gb_per_s * 8:g} Gbit/s)"


def _memory(size_bytes: int | None, what: str = "memory") -> str:
    """To four digits: what the kernel manages is no round number."""
    if size_bytes is None:
        return f"{what} unknown"
    return f"{what} {size_bytes / 2**20:.4g}MiB" if size_bytes < 2**30 else f"{what} {size_bytes / 2**30:.4g}GiB"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
