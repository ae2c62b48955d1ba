"""Several hosts as one topology: recorded ones, those of a rank table, and what joins them. Pure.

In: what ``recordings.load`` found. Out: one ``Topology``, the same whatever the order of files. Hosts of a rank table
come first, in the order of their ranks, then the others by name. A recorded host is the table's where their NPUs have
the same addresses, or else the same numbers in the super pod, or else the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import ProbeError
from .accelerators import Npu, SuperPod
from .devices import Device, DeviceId, Nic, RdmaPort
from .document import to_json
from .graph import Topology
from .host import parse
from .joins import Attachment, joined
from .links import LinkKind
from .probes.pci_sysfs import function_of
from .probes.recording import Recording, natural
from .probes.subnets import Subnet, subnets_of_interfaces, subnets_of_npus
from .rank_table import RankHost, RankTable, TopologyFile
from .rank_table.hosts import device_id_of, disagreements, fitting_file, host_of_table, links_of_file, with_told
from .recordings import Found
from .renaming import renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One host or whole topology before it has its place.

    Args:
        recording: of one host; None for a topology that came as such.
        probed: False for a host that only the rank table knows.
        told: the server of the rank table that it is.
    """

    name: str | None
    topology: Topology
    recording: Recording | None
    probed: bool = True
    told: RankHost | None = None


def build(found: Found) -> Topology:
    """The topology of everything that was found.

    Raises:
        ProbeError: a recording that cannot be read without guessing, or rank tables that differ.
    """
    table = _one_table(found.rank_tables)
    parts = [
        _Part(name=host.name, topology=parse(host.recording, name=host.name), recording=host.recording)
        for host in found.hosts
    ]
    parts += [_Part(name=name, topology=topology, recording=None) for name, topology in found.topologies]
    parts = sorted(parts, key=lambda part: (natural(part.name or ""), to_json(part.topology)))
    said: list[str] = []
    if table is not None:
        parts = _as_told(parts, table, said)
    topology, own = _side_by_side(parts)
    if table is not None:
        topology = _with_table(topology, table, own, found.topology_files, said)
    attachments = [*_of_table(topology, table, own)]
    in_table = {attachment.device for attachment in attachments}
    attachments += [a for a in _of_subnets(topology, parts, own) if a.device not in in_table]
    whole = joined(topology, attachments)
    return replace(whole, unseen=(*whole.unseen, *said))


def _one_table(tables: Sequence[tuple[str, RankTable]]) -> RankTable | None:
    distinct: dict[RankTable, str] = {}
    for where, table in tables:
        distinct.setdefault(table, where)
    if len(distinct) > 1:
        first, second, *_ = sorted(distinct.values())
        raise ProbeError(
            f"the rank tables {first} and {second} differ, and a cluster has one",
            remedy="give the one that the job uses, and recordings without another: unset RANK_TABLE_FILE, probe again",
        )
    return next(iter(distinct), None)


def _as_told(parts: Sequence[_Part], table: RankTable, said: list[str]) -> list[_Part]:
    """The hosts of the table in its order, probed or not, then the others."""
    left = list(parts)
    placed: list[_Part] = []
    for told in table.hosts:
        part = _match(told, left)
        if part is None:
            name = told.server_id
            topology = host_of_table(told, "host0")
            placed.append(_Part(name=name, topology=topology, recording=None, probed=False, told=told))
        else:
            left.remove(part)
            placed.append(replace(part, told=told))
    said += [f"{part.name or 'a host'}: not in the rank table" for part in left]
    return [*placed, *left]


def _match(told: RankHost, parts: Sequence[_Part]) -> _Part | None:
    """The recorded host that is this server; None where none is, or several may be."""
    single = [part for part in parts if len(part.topology.hosts) == 1]
    addresses = {address for device in told.devices for address in device.addresses}
    numbers = {device.super_device_id for device in told.devices if device.super_device_id is not None}
    names = {told.server_id, told.address}
    fitting = (
        [part for part in single if addresses & {npu.address for npu in part.topology.of(Npu)}],
        [part for part in single if numbers & {npu.super_device_id for npu in part.topology.of(Npu)}],
        [part for part in single if part.name is not None and part.name in names],
    )
    return next((found[0] for found in fitting if len(found) == 1), None)


def _side_by_side(parts: Sequence[_Part]) -> tuple[Topology, list[tuple[_Part, DeviceId]]]:
    """All hosts in one topology, not joined; and of each part of one host that host's id."""
    devices: dict[DeviceId, Device] = {}
    pieces: list[Topology] = []
    own: list[tuple[_Part, DeviceId]] = []
    n_hosts = 0
    for part in parts:
        roots: dict[DeviceId, DeviceId] = {}
        for host in part.topology.hosts:
            roots[host.id] = f"host{n_hosts}"
            n_hosts += 1
        for device in part.topology.devices:
            if device.parent is None and device.id not in roots and not isinstance(device, SuperPod):
                roots[device.id] = _free(device.id, devices)
        piece = renamed(part.topology, roots)
        if len(piece.hosts) == 1:
            own.append((part, piece.hosts[0].id))
        devices |= {device.id: device for device in piece.devices}
        pieces.append(piece)
    several = n_hosts > 1
    return (
        Topology(
            devices=tuple(devices.values()),
            links={ends: link for piece in pieces for ends, link in piece.links.items()},
            shared=tuple(shared for piece in pieces for shared in piece.shared),
            unseen=tuple(_said(piece, words, several) for piece in pieces for words in piece.unseen),
            contradictions=tuple(_said(piece, words, several) for piece in pieces for words in piece.contradictions),
        ),
        own,
    )


def _free(device_id: DeviceId, taken: Mapping[DeviceId, Device]) -> DeviceId:
    number = 0
    name = device_id
    while name in taken:
        number += 1
        name = f"{device_id}-{number}"
    return name


def _said(piece: Topology, words: str, several: bool) -> str:
    return f"{piece.hosts[0].name or piece.hosts[0].id}: {words}" if several and len(piece.hosts) == 1 else words


def _with_table(
    topology: Topology,
    table: RankTable,
    own: Sequence[tuple[_Part, DeviceId]],
    files: Sequence[TopologyFile],
    said: list[str],
) -> Topology:
    """With the super pods of the table and the links of its topology file; contradictions are added."""
    contradictions: list[str] = []
    links = dict(topology.links)
    pods = {server: f"pod{pod.super_pod_id}" for pod in table.super_pods for server in pod.server_ids}
    parents: dict[DeviceId, DeviceId] = {}
    for part, host_id in own:
        if part.told is None:
            continue
        name = part.name or host_id
        npus = topology.within(host_id, Npu)
        if part.probed:
            contradictions += disagreements(part.told, npus, name)
            topology = replace(topology, devices=tuple(with_told(topology.devices, part.told, host_id)))
        by_number = {device_id_of(npu): npu.id for npu in npus}
        ranks = [device.device_id for device in part.told.devices]
        if ranks != sorted(ranks):
            said.append(f"{name}: its ranks are in the order of NPUs {', '.join(map(str, ranks))}")
        file = fitting_file(files, part.told)
        if file is not None:
            told = {(link.src, link.dst): link for link in links_of_file(file, part.told, by_number)}
            links = {**told, **links}
        elif files:
            said.append(f"{name}: no topology file has its NPUs, or several that differ")
        pod = pods.get(part.told.server_id)
        host = topology.device(host_id)
        if pod is not None:
            parents[host_id] = pod
            if host.parent not in (None, pod):
                contradictions.append(f"{name}: super pod {pod[3:]} in the rank table, {(host.parent or '')[3:]} on it")
    return replace(
        topology,
        devices=_in_pods(topology, parents),
        links=links,
        contradictions=(*topology.contradictions, *contradictions),
    )


def _in_pods(topology: Topology, parents: Mapping[DeviceId, DeviceId]) -> tuple[Device, ...]:
    """The devices with hosts moved into their super pods; a super pod that is empty then is left out."""
    hosts = [replace(host, parent=parents.get(host.id, host.parent)) for host in topology.hosts]
    moved = {host.id: host for host in hosts}
    known = {pod.id: pod for pod in topology.of(SuperPod)}
    pods = {host.parent: None for host in hosts if host.parent is not None}
    first: list[Device] = [known.get(pod) or SuperPod(id=pod, parent=None, name=pod[3:]) for pod in pods]
    others = [device for device in topology.devices if not isinstance(device, SuperPod)]
    return (*first, *(moved.get(device.id, device) for device in others))


def _of_table(
    topology: Topology, table: RankTable | None, own: Sequence[tuple[_Part, DeviceId]]
) -> Iterator[Attachment]:
    """What the networks of the table join: an NPU's RoCE interfaces, or the NPU itself where it has none."""
    seats: dict[int, Npu] = {}
    for part, host_id in own:
        if part.told is not None:
            npus = {device_id_of(npu): npu for npu in topology.within(host_id, Npu)}
            seats |= {d.rank: npus[d.device_id] for d in part.told.devices if d.device_id in npus}
    for network in () if table is None else table.networks:
        for rank in network.ranks:
            if rank in seats:
                nics = topology.within(seats[rank].id, Nic) if network.net_layer is None else ()
                for device in nics or (seats[rank],):
                    rate = device.rate_gb_per_s if isinstance(device, Nic) else None
                    yield Attachment(device=device.id, network=network.name, kind=network.kind, rate_gb_per_s=rate)


def _of_subnets(
    topology: Topology, parts: Sequence[_Part], own: Sequence[tuple[_Part, DeviceId]]
) -> Iterator[Attachment]:
    """The subnets of recorded interfaces; an RDMA port is in those of the interface of its function."""
    for part, host_id in own:
        if part.recording is None:
            continue
        by_address = subnets_of_npus(part.recording)
        by_name = subnets_of_interfaces(part.recording)
        by_function: dict[str | None, tuple[Subnet, ...]] = {}
        for nic in topology.within(host_id, Nic):
            in_npu = isinstance(topology.device(nic.parent or host_id), Npu)
            subnets = by_name.get(nic.name, ()) if not in_npu else ()
            if nic.address in by_address:
                subnets = (by_address[nic.address or ""],)
            by_function[function_of(part.recording, f"/sys/class/net/{nic.name}")] = subnets
            yield from _in_subnets(nic, subnets, LinkKind.RDMA if in_npu else LinkKind.NETWORK)
        for port in topology.within(host_id, RdmaPort):
            function = function_of(part.recording, f"/sys/class/infiniband/{port.name}")
            yield from _in_subnets(port, by_function.get(function, ()) if function else (), LinkKind.RDMA)


def _in_subnets(device: Nic | RdmaPort, subnets: Sequence[Subnet], kind: LinkKind) -> Iterator[Attachment]:
    for subnet in subnets:
        yield Attachment(device=device.id, network=f"subnet {subnet}", kind=kind, rate_gb_per_s=device.rate_gb_per_s)
