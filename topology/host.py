"""One host: everything that its probes say, put together.

``collect`` asks the machine: files, and the vendors' programs through a ``CommandRunner``. ``parse`` is a pure function
of what was recorded, whether on this machine, in a file, or pasted together from outputs. A recording needs no part in
particular: what is absent is said in ``Topology.unseen``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from .accelerators import SuperPod
from .devices import Cpu, Device, DeviceId, Host, Nic, NumaNode, RdmaPort
from .graph import Topology
from .probes import hccn, hwloc_xml, linux, npu_smi, nvidia_smi, rocm_smi
from .probes.commands import ABSENT, run_command
from .probes.findings import CommandRunner, Findings
from .probes.pci import PciPlace, bus_id, pci_links, shared_bridges
from .probes.pci_sysfs import accelerators_on_bus, function_of, place_devices
from .probes.recording import Recording

HWLOC = "lstopo --of xml"
_VENDORS = (npu_smi, hccn, nvidia_smi, rocm_smi)
_LINUX = ("/proc/cpuinfo", "/sys/devices/system/cpu/")


def collect(root: str = "/", run: CommandRunner = run_command) -> dict[str, str]:
    """Record the machine: files below ``root``, and what the vendors' programs answer.

    A vendor whose program is not installed is left out, unless the PCI bus has accelerators.
    """
    recording = linux.collect(root)
    keep_absent = bool(accelerators_on_bus(recording))
    answers = npu_smi.collect(run), hccn.collect(run, root), nvidia_smi.collect(run), rocm_smi.collect(run)
    for answer in answers:
        if keep_absent or any(text != ABSENT for text in answer.values()):
            recording |= answer
    return recording


def parse(recording: Recording, host: DeviceId = "host0", name: str | None = None) -> Topology:
    """Build the topology of one host.

    Args:
        host: its id, which begins the ids of all that is in it; only its super pod has one of its own.
        name: what people call it.

    Raises:
        ProbeError: a text in it that cannot be read without guessing.
    """
    topology = _base(recording, host)
    top = replace(topology.hosts[0], name=name)
    topology = replace(topology, devices=(top, *topology.devices[1:]))
    nodes = {node.number: node.id for node in topology.of(NumaNode)}
    cpus = {number: _numbers(topology.within(node, Cpu)) for number, node in nodes.items()}
    for vendor in _VENDORS:
        topology = _with(topology, vendor.parse(recording, host, nodes, cpus))
    return _placed(topology, recording, host)


def _base(recording: Recording, host: DeviceId) -> Topology:
    """The host's own parts: from Linux, else from hwloc, else nothing but the host."""
    if any(path.startswith(_LINUX) for path in recording):
        return linux.parse(recording, host)
    if HWLOC in recording:
        return hwloc_xml.parse(recording[HWLOC], host)
    words = "processors, memory and interfaces of the host: not in the recording"
    return Topology(devices=(Host(id=host, parent=None),), unseen=(words,))


def _numbers(cpus: Iterable[Cpu]) -> frozenset[int]:
    return frozenset(cpu.number for cpu in cpus)


def _with(topology: Topology, findings: Findings) -> Topology:
    """The topology with what a vendor's probe found; a device that is known already gets the facts that it had not."""
    known = {device.id: device for device in topology.devices}
    pods = [device for device in findings.devices if isinstance(device, SuperPod)]
    new = [device for device in findings.devices if not isinstance(device, SuperPod) and device.id not in known]
    again = {device.id: device for device in findings.devices if device.id in known}
    devices = [_joined(device, again.get(device.id)) for device in topology.devices]
    if pods:
        devices = [replace(device, parent=pods[0].id) if isinstance(device, Host) else device for device in devices]
    return replace(findings, devices=tuple(new)).added_to(replace(topology, devices=(*pods[:1], *devices)))


def _joined(device: Device, told: Device | None) -> Device:
    """The device with the facts that only the second source has."""
    if told is None or type(told) is not type(device):
        return device
    missing = {field.name: getattr(told, field.name) for field in fields(device) if getattr(device, field.name) is None}
    return replace(device, **missing)


def _placed(topology: Topology, recording: Recording, host: DeviceId) -> Topology:
    """With the PCIe paths between accelerators and interfaces, where the recording tells where they hang."""
    accelerators: dict[DeviceId, str] = {}
    for device in topology.accelerators(host):
        function = None if device.bus_id is None else bus_id(device.bus_id)
        if function is not None:
            accelerators[device.id] = function
    if not topology.accelerators(host):
        words = [
            f"accelerators on the PCI bus that no tool tells about: {ids}" for ids in accelerators_on_bus(recording)
        ]
        topology = replace(topology, unseen=(*topology.unseen, *words))
    places = place_devices(recording, accelerators | _interfaces(topology, recording))
    pairs = list(_pairs(places, accelerators))
    if not pairs:
        return topology
    shared = tuple(shared_bridges(places, host))
    links = pci_links(places, pairs, topology.links)
    return replace(topology.with_links(links), shared=(*topology.shared, *shared))


def _interfaces(topology: Topology, recording: Recording) -> dict[DeviceId, str]:
    """The PCI functions of interfaces; of one that is both an RDMA port and a network interface, the port's."""
    found: dict[DeviceId, str] = {}
    interfaces: list[RdmaPort | Nic] = [*topology.of(RdmaPort), *topology.of(Nic)]
    for device in interfaces:
        of_class = "infiniband" if isinstance(device, RdmaPort) else "net"
        function = function_of(recording, f"/sys/class/{of_class}/{device.name}")
        is_known = isinstance(device, Nic) and function in found.values()
        if function is not None and not is_known:
            found[device.id] = function
    return found


def _pairs(
    places: Mapping[DeviceId, PciPlace], accelerators: Mapping[DeviceId, str]
) -> Iterable[tuple[DeviceId, DeviceId]]:
    """Each accelerator with each interface and with each later accelerator of another function."""
    first = [device for device in places if device in accelerators]
    others = [device for device in places if device not in accelerators]
    for index, device in enumerate(first):
        yield from ((device, other) for other in others)
        yield from ((device, other) for other in first[index + 1 :] if accelerators[device] != accelerators[other])
