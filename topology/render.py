"""The topology as plain text for a terminal: tree, links, what could not be seen, fingerprint. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ..units import format_bytes
from .accelerators import Gpu, Npu, SuperPod, Switch
from .cpulist import format_cpu_list
from .devices import Cache, Core, Cpu, Device, Host, Nic, RdmaPort
from .fingerprint import fingerprint, shape
from .graph import Topology
from .labels import count, label, listed, memory, own_nics
from .links import Link, SharedResource

_APART = 2  # so many links of one class are listed one by one


def tree(topology: Topology) -> str:
    """Everything that is known of the topology, ending with its fingerprint and a newline."""
    lines: list[str] = []
    for node in _beside(topology, [device for device in topology.devices if device.parent is None]):
        lines += _drawn(node)
    if topology.links:
        lines += ["", *_link_table(topology)]
    if topology.shared:
        lines += ["", *_shared_table(topology)]
    for title, words in (("contradictions", topology.contradictions), ("not seen or not counted", topology.unseen)):
        if words:
            lines += ["", title, *(f"  {word}" for word in words)]
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


def _beside(topology: Topology, devices: Sequence[Device]) -> list[_Node]:
    """Super pods, hosts and the switches between them; hosts that are alike are drawn once."""
    nodes = [
        _Node(text=label(topology, pod), below=_beside(topology, topology.children(pod.id)))
        for pod in devices
        if isinstance(pod, SuperPod)
    ]
    hosts = [device for device in devices if isinstance(device, Host)]
    for _, group in groupby(hosts, key=lambda host: shape(topology, host)):
        alike = list(group)
        node = _host(topology, alike[0])
        if len(alike) > 1:
            names = listed(host.name or host.id for host in alike)
            node = _Node(text=f"{len(alike)} hosts alike: {names}", below=[node])
        nodes.append(node)
    return [*nodes, *(_Node(text=label(topology, device)) for device in devices if isinstance(device, Switch))]


def _host(topology: Topology, host: Host) -> _Node:
    cpus = topology.within(host.id, Cpu)
    limits = []
    if not all(cpu.allowed for cpu in cpus):
        limits.append(f"allowed are CPUs {format_cpu_list(cpu.number for cpu in cpus if cpu.allowed)}")
    if host.cpu_quota_cores is not None:
        limits.append(f"CPU time of {host.cpu_quota_cores:g} CPUs")
    if host.memory_limit_bytes is not None:
        limits.append(memory(host.memory_limit_bytes))
    inside = [_Node(text=f"limits: {', '.join(limits)}")] if limits else []
    return _Node(text=label(topology, host), below=[*inside, *_inside(topology, host, each=False)])


def _inside(topology: Topology, parent: Device, *, each: bool) -> list[_Node]:
    """What stands in a device; caches and cores that are alike are drawn once, with their number.

    Args:
        each: whether the lines stand for several such parents, so that CPU numbers would mislead.
    """

    def alike(device: Device) -> object:
        return shape(topology, device) if isinstance(device, Cache | Core) else device.id

    said = {nic.id for nic in own_nics(topology, parent)}
    nodes: list[_Node] = []
    for _, group in groupby((device for device in topology.children(parent.id) if device.id not in said), key=alike):
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
            nodes += [_Node(text=label(topology, device), below=_inside(topology, device, each=each)) for device in run]
    return nodes


def _cores(topology: Topology, run: list[Device], cpus: str | None) -> str:
    """``8 cores of 2 threads, CPUs 0-15, each with L2 1MiB, L1 32KiB`` for equal cores with their own caches."""
    threads = len(topology.within(run[0].id, Cpu))
    text = count(len(run), "core") + (f" of {threads} threads" if threads > 1 else "")
    if cpus is not None:
        text += f", {'CPU' if len(run) * threads == 1 else 'CPUs'} {cpus}"
    caches = [f"L{cache.level} {format_bytes(cache.size_bytes)}" for cache in topology.within(run[0].id, Cache)]
    return text + (f", {'each ' if len(run) > 1 else ''}with {', '.join(caches)}" if caches else "")


def _link_table(topology: Topology) -> list[str]:
    """One row a link; links of one class with one pair of figures are one row, with the number of their ends."""
    ordered = sorted(topology.links.values(), key=lambda link: _near_first(topology, link))
    rows = [("link", "from", "to", "latency us", "GB/s", "source")]
    for link_class, group in groupby(ordered, key=lambda link: _class(topology, link)):
        alike = list(group)
        for some in [[link] for link in alike] if len(alike) <= _APART else [alike]:
            rows.append(
                (
                    link_class[0],
                    _ends(topology, {link.src for link in some}),
                    _ends(topology, {link.dst for link in some}),
                    _figure(some[0].latency_us, 2),
                    _figure(some[0].bandwidth_gb_per_s, 1),
                    some[0].source.value,
                )
            )
    return _aligned(rows, ("<", "<", "<", ">", ">", "<"))


def _class(topology: Topology, link: Link) -> tuple[str, str, str, float | None, float | None, str]:
    ends = (topology.device(link.src).kind.value, topology.device(link.dst).kind.value)
    return (link_words(topology, link), *ends, link.latency_us, link.bandwidth_gb_per_s, link.source.value)


def link_words(topology: Topology, link: Link) -> str:
    """``same L3`` between CPUs; else the kind: ``hccs``, ``pcie pix``, ``nvlink x12``."""
    distance = topology.link_distance(link)
    if distance is not None:
        return str(distance)
    path = "" if link.path is None else f" {link.path.value}"
    return f"{link.kind.value}{path}" + ("" if link.n_bonded is None else f" x{link.n_bonded}")


def _ends(topology: Topology, ids: Iterable[str]) -> str:
    """The name of one device, or how many of which kind."""
    devices = [topology.device(each) for each in sorted(ids)]
    if len(devices) == 1:
        return devices[0].id.rpartition("/")[2] if len(topology.hosts) == 1 else devices[0].id
    words = {Npu: "NPUs", Gpu: "GPUs", Cpu: "CPUs", Nic: "interfaces", RdmaPort: "RDMA ports", Switch: "switches"}
    return f"{len(devices)} {words.get(type(devices[0]), 'devices')}"


def _near_first(topology: Topology, link: Link) -> tuple[object, ...]:
    """Links between CPUs near to far, then the others, each class together."""
    distance = topology.link_distance(link)
    if distance is not None:
        return (False, distance.order, link.src, link.dst)
    figures = (link.latency_us or 0.0, -(link.bandwidth_gb_per_s or 0.0), link.source.value)
    kinds = (topology.device(link.src).kind.value, topology.device(link.dst).kind.value)
    return (True, (0, 0), link_words(topology, link), kinds, figures, link.src, link.dst)


def _shared_table(topology: Topology) -> list[str]:
    """One row for limits of the same size and figure, named after the first."""

    def alike(resource: SharedResource) -> tuple[float, int, int, str]:
        ends = (len(resource.senders), len(resource.receivers))
        return (resource.bandwidth_gb_per_s, *ends, resource.source.value)

    rows = [("shared limit", "senders", "receivers", "GB/s", "source")]
    for key, group in groupby(sorted(topology.shared, key=alike), key=alike):
        names = [resource.name for resource in group]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        rows.append((names[0] + more, str(key[1]), str(key[2]), _figure(key[0], 1), key[3]))
    return _aligned(rows, ("<", ">", ">", ">", "<"))


def _aligned(rows: Sequence[tuple[str, ...]], sides: Sequence[str]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]


def _figure(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:.{digits}f}"
