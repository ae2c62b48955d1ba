"""What is said of a device on its line of the tree, and the words for figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..units import format_bytes
from .accelerators import Card, Gpu, Npu, SuperPod, Switch
from .cpulist import format_cpu_list
from .devices import Cache, Core, Cpu, Device, Host, Nic, NumaNode, RdmaPort, Socket
from .graph import Topology

_NAMES_SHOWN = 6


def label(topology: Topology, device: Device) -> str:
    """One line for a device, without what stands inside it."""
    match device:
        case Host():
            return f"host{f' {device.name}' if device.name else ''}: {', '.join(_host(topology, device))}"
        case Socket():
            return f"socket {device.number}"
        case NumaNode():
            facts = [] if device.memory_bytes is None and topology.accelerators() else [memory(device.memory_bytes)]
            return _with(f"NUMA node {device.number}", [*facts, *_distances(topology, device)])
        case Cache():
            return f"L{device.level} {format_bytes(device.size_bytes)}"
        case Nic():
            return f"network {device.name}: {', '.join(_nic(device))}"
        case RdmaPort():
            layer = {"Ethernet": "RoCE"}.get(device.link_layer or "", device.link_layer or "link layer unknown")
            facts = [
                device.driver or "driver unknown",
                layer,
                rate(device.rate_gb_per_s),
                device.state or "state unknown",
            ]
            return f"RDMA {device.name} port {device.port}: {', '.join(facts)}"
        case Npu():
            return _with(f"NPU {device.number}", _npu(topology, device))
        case Gpu():
            words = [device.model, _own_memory(device.memory_bytes), device.bus_id and f"bus {device.bus_id}"]
            return _with(f"GPU {device.number}", words)
        case Card():
            number = "" if device.number is None else f" {device.number}"
            return _with(f"card{number}", [device.product])
        case Switch():
            return _with(f"switch {device.name or device.id}", [_ports(topology, device)])
        case SuperPod():
            return f"super pod {device.name or device.id}"
        case _:
            return device.id


def count(number: int, what: str) -> str:
    """``1 core``, ``2 cores``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def memory(size_bytes: int | None, what: str = "memory") -> str:
    """To four digits: what the kernel manages is no round number."""
    if size_bytes is None:
        return f"{what} unknown"
    return f"{what} {size_bytes / 2**20:.4g}MiB" if size_bytes < 2**30 else f"{what} {size_bytes / 2**30:.4g}GiB"


def rate(rate_gb_per_s: float | None) -> str:
    """In both units that people use for interfaces."""
    return "rate unknown" if rate_gb_per_s is None else f"{rate_gb_per_s:g} GB/s ({rate_gb_per_s * 8:g} Gbit/s)"


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    return ", ".join(known[:_NAMES_SHOWN]) + more


def _with(name: str, facts: Iterable[str | None]) -> str:
    known = [fact for fact in facts if fact]
    return f"{name}: {', '.join(known)}" if known else name


def _host(topology: Topology, host: Host) -> list[str]:
    cpus, cores = topology.within(host.id, Cpu), topology.within(host.id, Core)
    accelerators = topology.accelerators(host.id)
    facts = []
    if cores or not accelerators or host.cpu_model:
        facts.append(host.cpu_model or "CPU unknown")
    if cores or not accelerators:
        facts.append(count(len(cores), "core"))
    if len(cpus) != len(cores):
        facts.append(count(len(cpus), "CPU"))
    for device_class, what in ((Npu, "NPU"), (Gpu, "GPU")):
        if topology.within(host.id, device_class):
            facts.append(count(len(topology.within(host.id, device_class)), what))
    if host.memory_bytes is not None or host.shm_bytes is not None or not accelerators:
        facts += [memory(host.memory_bytes), memory(host.shm_bytes, "/dev/shm")]
    return facts


def _nic(nic: Nic) -> list[str]:
    facts = [nic.driver or "driver unknown", rate(nic.rate_gb_per_s)]
    if nic.mtu_bytes is not None:
        facts.append(f"MTU {nic.mtu_bytes} bytes")
    facts.append(nic.state or "state unknown")
    return [*facts, *_where(nic)]


def _npu(topology: Topology, npu: Npu) -> list[str | None]:
    facts = [
        npu.chip_name,
        _own_memory(npu.memory_bytes),
        None if npu.physical_id in (None, npu.number) else f"physical id {npu.physical_id}",
        npu.bus_id and f"bus {npu.bus_id}",
        npu.super_device_id and f"super device {npu.super_device_id}",
        npu.address,
        npu.health and f"health {npu.health}",
    ]
    own = own_nics(topology, npu)
    return facts + [", ".join(_own_nic(nic, shown=npu.address)) for nic in own]


def own_nics(topology: Topology, device: Device) -> list[Nic]:
    """The interfaces of an accelerator, which are said on its own line."""
    inside = topology.children(device.id) if isinstance(device, Npu | Gpu) else ()
    return [nic for nic in inside if isinstance(nic, Nic)]


def _own_nic(nic: Nic, shown: str | None) -> list[str]:
    facts = [nic.name if nic.rate_gb_per_s is None else f"{nic.name} {rate(nic.rate_gb_per_s)}"]
    if nic.state is not None:
        facts.append(nic.state)
    return [*facts, *(fact for fact in _where(nic) if fact != shown)]


def _where(nic: Nic) -> list[str]:
    switch = [] if nic.switch_port is None else [f"at switch port {nic.switch_port}"]
    return [*([] if nic.address is None else [nic.address]), *switch]


def _own_memory(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else memory(size_bytes)


def _ports(topology: Topology, switch: Switch) -> str | None:
    """What a switch is linked to: ``256 interfaces, 1 switch``."""
    others = [topology.device(src) for src, dst in topology.links if dst == switch.id]
    counts: dict[str, int] = {}
    for device in others:
        word = {
            "nic": "network interface",
            "rdma_port": "RDMA port",
            "npu": "NPU",
            "gpu": "GPU",
        }.get(device.kind.value, device.kind.value)
        counts[word] = counts.get(word, 0) + 1
    words = [
        f"{number} {word}{'es' if word == 'switch' else 's'}" if number > 1 else f"1 {word}"
        for word, number in counts.items()
    ]
    return f"joins {', '.join(words)}" if words else None


def _distances(topology: Topology, node: NumaNode) -> list[str]:
    """``distance 12 to node 1``, ``20 to nodes 2-3``, near to far."""
    numbers = {other.id: other.number for other in topology.of(NumaNode)}
    words: list[str] = []
    for distance in sorted({distance for _, distance in node.distances}):
        others = [numbers[other] for other, its in node.distances if its == distance]
        words.append(f"{distance} to node{'s' if len(others) > 1 else ''} {format_cpu_list(others)}")
    return [f"distance {words[0]}", *words[1:]] if words else []
