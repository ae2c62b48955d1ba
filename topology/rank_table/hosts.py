"""Hosts as a rank table knows them, and whether a probed host is what the table says. Pure.

In: a server of a table, the topology file of its kind, a probed topology. Out: the topology of a host that was not
probed; contradictions in words for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..accelerators import Npu
from ..cpulist import format_cpu_list
from ..devices import Device, DeviceId, Host, Nic
from ..graph import Topology
from ..links import Link, LinkKind, Provenance
from .values import RankDevice, RankHost, TopologyFile


def device_id_of(npu: Npu) -> int:
    """The number that a rank table knows an NPU by: its physical one, where that differs from the logic id."""
    return npu.number if npu.physical_id is None else npu.physical_id


def host_of_table(told: RankHost, host: DeviceId) -> Topology:
    """A host that only the table knows: its NPUs and their RoCE interfaces."""
    devices: list[Device] = [Host(id=host, parent=None, name=told.server_id)]
    for device in sorted(told.devices, key=lambda device: device.device_id):
        npu = Npu(id=f"{host}/npu{device.device_id}", parent=host, number=device.device_id)
        devices += [_with_facts(npu, device), *_interfaces(npu.id, device)]
    return Topology(
        devices=tuple(devices), unseen=(f"all but NPUs: only the rank table knows this host ({told.path})",)
    )


def with_told(devices: Sequence[Device], told: RankHost, host: DeviceId) -> list[Device]:
    """The devices of a probed host, with the facts and interfaces of its NPUs that only the table has."""
    by_number = {device.device_id: device for device in told.devices}
    have_nics = {device.parent for device in devices if isinstance(device, Nic)}
    found: list[Device] = []
    for device in devices:
        inside = device if isinstance(device, Npu) and device.id.startswith(f"{host}/") else None
        by_table = None if inside is None else by_number.get(device_id_of(inside))
        if isinstance(device, Npu) and by_table is not None:
            found.append(_with_facts(device, by_table))
            found += _interfaces(device.id, by_table) if device.id not in have_nics else ()
        else:
            found.append(device)
    return found


def _with_facts(npu: Npu, told: RankDevice) -> Npu:
    return replace(
        npu,
        address=npu.address or next(iter(told.addresses), None),
        super_device_id=npu.super_device_id or told.super_device_id,
    )


def _interfaces(npu: DeviceId, told: RankDevice) -> list[Nic]:
    return [
        Nic(id=f"{npu}/roce{index}", parent=npu, name=f"roce{index}", address=address)
        for index, address in enumerate(told.addresses)
    ]


def fitting_file(files: Sequence[TopologyFile], told: RankHost) -> TopologyFile | None:
    """The one topology file that has all the NPUs of a server; None where none has, or several differ."""
    ids = {device.local_id for device in told.devices if device.local_id is not None}
    fitting = {file for file in files if ids and ids <= set(file.local_ids)}
    return fitting.pop() if len(fitting) == 1 else None


def links_of_file(file: TopologyFile, told: RankHost, npus: dict[int, DeviceId]) -> Iterator[Link]:
    """The connections inside a server, both ways; several of one pair and kind are one link of many ports.

    Args:
        npus: by device_id.
    """
    ids = {device.local_id: npus.get(device.device_id) for device in told.devices}
    ports: dict[tuple[DeviceId, DeviceId], tuple[LinkKind, int]] = {}
    for edge in file.edges:
        a, b = ids.get(edge.local_a), ids.get(edge.local_b) if edge.local_b is not None else None
        if a is not None and b is not None:
            pair = (min(a, b), max(a, b))
            kind, count = ports.get(pair, (edge.kind, 0))
            if kind is edge.kind:
                ports[pair] = (kind, count + edge.n_ports)
    for (a, b), (kind, count) in sorted(ports.items()):
        for src, dst in ((a, b), (b, a)):
            yield Link(
                src=src,
                dst=dst,
                kind=kind,
                latency_us=None,
                bandwidth_gb_per_s=None,
                source=Provenance.PROBE,
                n_bonded=count if count > 1 else None,
            )


def disagreements(told: RankHost, npus: Iterable[Npu], name: str) -> Iterator[str]:
    """Where the table and the devices of a probed host contradict each other.

    Args:
        name: of the host, for people.
    """
    seen = {device_id_of(npu): npu for npu in npus}
    if not seen:
        return
    missing = [device for device in told.devices if device.device_id not in seen]
    if missing:
        numbers = format_cpu_list(device.device_id for device in missing)
        yield (
            f"rank table {missing[0].path}: {told.server_id} has NPUs {numbers}, and {name} has only NPUs "
            f"{format_cpu_list(seen)}"
        )
    for device in told.devices:
        if device.device_id in seen:
            yield from _differences(device, seen[device.device_id], name)


def _differences(device: RankDevice, npu: Npu, name: str) -> Iterator[str]:
    for what, in_table, on_host in (
        ("address", device.addresses, npu.address),
        ("super device id", (device.super_device_id,) if device.super_device_id else (), npu.super_device_id),
    ):
        if in_table and on_host is not None and on_host not in in_table:
            told = f"{what} {', '.join(in_table)}"
            yield f"rank table {device.path}: {told}, and NPU {device.device_id} of {name} has {on_host}"
