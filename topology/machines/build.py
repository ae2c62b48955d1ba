"""From a description to a graph: one host, or many joined by their network. Pure.

Hosts are ``host0``, ``host1``, ...; a super pod is ``pod0`` with the switch ``pod0/plane``; the switches of the network
are ``leaf0``, ... and ``spine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..accelerators import Card, Gpu, Npu, SuperPod, Switch
from ..devices import Core, Cpu, Device, DeviceId, Host, Nic, NumaNode, RdmaPort, Socket
from ..graph import Topology
from ..links import Link, LinkKind, PciePath, Provenance, SharedResource
from ..probes.recording import natural
from .description import MachineSpec, Network, NicPlace, NicRule, SeatKind, Seats, SharedRule, SuperPodRule

_GIB = 2**30
_SPINE = "spine"


def one_host(spec: MachineSpec) -> Topology:
    """The host alone: no super pod, no network beyond its interfaces."""
    return _joined(spec, _host(spec, "host0"), links=[], around=[])


def many_hosts(spec: MachineSpec, n_hosts: int) -> Topology:
    """Hosts joined by their super pods and their network; each is a copy of ``one_host``.

    Raises:
        ValueError: more than one host, and the description says nothing of what joins them.
    """
    pods = spec.super_pod
    if n_hosts > 1 and spec.network is None and (pods is None or n_hosts > pods.n_hosts):
        raise ValueError(f"{spec.title}: no network between its hosts is described")
    around: list[Device] = []
    hosts: list[Device] = []
    links: list[Link] = []
    for number in range(n_hosts):
        host = _host(spec, f"host{number}")
        if pods is not None:
            pod = f"pod{number // pods.n_hosts}"
            if number % pods.n_hosts == 0:
                around += [SuperPod(id=pod, parent=None), Switch(id=f"{pod}/plane", parent=pod, name="plane")]
            host = [replace(host[0], parent=pod), *host[1:]]
            links += _to_plane(pods, seats_of(host), f"{pod}/plane")
        hosts += host
    if n_hosts > 1 and spec.network is not None:
        switches, wires = _tree(spec.network, hosts, n_hosts)
        around += switches
        links += wires
    return _joined(spec, hosts, links=links, around=around)


def seats_of(devices: Iterable[Device]) -> list[Device]:
    """What ranks sit on, by number: the accelerators, else the CPUs."""
    numbered = [device for device in devices if isinstance(device, Npu | Gpu | Cpu)]
    accelerators = [device for device in numbered if not isinstance(device, Cpu)]
    return sorted(accelerators or numbered, key=lambda device: device.number)


def shared_resources(
    rules: Sequence[SharedRule], hosts: Iterable[Mapping[int, DeviceId]], links: Iterable[Link]
) -> tuple[SharedResource, ...]:
    """The limits of each block of devices, one for what it sends and one for what it receives.

    Args:
        hosts: of each host its devices by number; those that cannot be seen are left out.
    """
    found: list[SharedResource] = []
    listed = list(links)
    for rule in rules:
        out_of: dict[DeviceId, list[DeviceId]] = {}
        limited: set[tuple[frozenset[DeviceId], frozenset[DeviceId]]] = set()
        for link in listed:
            if link.kind is rule.kind:
                out_of.setdefault(link.src, []).append(link.dst)
        for seats in hosts:
            blocks: dict[int, list[DeviceId]] = {}
            for number in sorted(seats):
                blocks.setdefault(number // rule.blocks_of, []).append(seats[number])
            for block in map(tuple, blocks.values()):
                out = {dst for src in block for dst in out_of.get(src, ())} - set(block)
                others = tuple(sorted(out, key=natural))
                name = f"{rule.name} {block[0] if len(block) == 1 else f'{block[0]} to {block[-1]}'}"
                for direction, senders, receivers in (("sent", block, others), ("received", others, block)):
                    # Of two blocks alone, what one sends is what the other receives.
                    if others and (frozenset(senders), frozenset(receivers)) not in limited:
                        limited.add((frozenset(senders), frozenset(receivers)))
                        found.append(
                            SharedResource(
                                name=f"{name}, {direction}",
                                senders=senders,
                                receivers=receivers,
                                bandwidth_gb_per_s=rule.gb_per_s,
                                source=Provenance.DATASHEET,
                            )
                        )
    return tuple(found)


def _joined(spec: MachineSpec, hosts: list[Device], links: list[Link], around: list[Device]) -> Topology:
    by_host: dict[DeviceId, list[Device]] = {}
    for device in hosts:
        by_host.setdefault(device.id.partition("/")[0], []).append(device)
    for inside in by_host.values():
        links += [*_between_seats(spec, seats_of(inside)), *_to_nics(spec.nics, inside)]
    numbered = [{number: seat.id for number, seat in enumerate(seats_of(inside))} for inside in by_host.values()]
    return Topology(
        devices=(*around, *hosts),
        links={(link.src, link.dst): link for link in links},
        shared=shared_resources(spec.shared, numbered, links),
    )


def _host(spec: MachineSpec, host: DeviceId) -> list[Device]:
    seats = spec.seats
    numbers = sorted(set(seats.numa_nodes))
    socket_of = dict(zip(numbers, seats.sockets, strict=True)) if seats.sockets else {}
    devices: list[Device] = [Host(id=host, parent=None, cpu_model=spec.cpu_model)]
    devices += [
        Socket(id=f"{host}/socket{number}", parent=host, number=number) for number in sorted(set(socket_of.values()))
    ]
    devices += [
        NumaNode(
            id=f"{host}/numa{number}",
            parent=f"{host}/socket{socket_of[number]}" if number in socket_of else host,
            number=number,
        )
        for number in numbers
    ]
    for number, node in enumerate(seats.numa_nodes):
        devices += _seat(seats, host, number, f"{host}/numa{node}")
    return [*devices, *_nics(spec, host)]


def _seat(seats: Seats, host: DeviceId, number: int, node: DeviceId) -> list[Device]:
    card: list[Device] = []
    parent = node
    if seats.per_card is not None:
        parent = f"{host}/card{number // seats.per_card}"
        if number % seats.per_card == 0:
            card = [Card(id=parent, parent=node, number=number // seats.per_card, product=seats.product)]
    memory_bytes = None if seats.memory_gib is None else int(seats.memory_gib * _GIB)
    seat = f"{host}/{seats.kind.value}{number}"
    match seats.kind:
        case SeatKind.NPU:
            npu = Npu(id=seat, parent=parent, number=number, chip_name=seats.model, memory_bytes=memory_bytes)
            return [*card, npu]
        case SeatKind.GPU:
            gpu = Gpu(id=seat, parent=parent, number=number, model=seats.model, memory_bytes=memory_bytes)
            return [*card, gpu]
        case SeatKind.CPU:
            core = Core(id=f"{host}/core{number}", parent=node)
            return [core, Cpu(id=seat, parent=core.id, number=number, allowed=True)]


def _nics(spec: MachineSpec, host: DeviceId) -> list[Device]:
    rule, seats = spec.nics, spec.seats
    if rule is None:
        return []
    if rule.place is NicPlace.HOST:
        return [_nic(rule, host, 0, f"{host}/numa{min(seats.numa_nodes)}")]
    return [
        _nic(rule, host, number, f"{host}/{seats.kind.value}{number}")
        if rule.place is NicPlace.DEVICE
        else _nic(rule, host, number, f"{host}/numa{node}")
        for number, node in enumerate(seats.numa_nodes)
    ]


def _nic(rule: NicRule, host: DeviceId, number: int, parent: DeviceId) -> Device:
    name = rule.name.format(number)
    if rule.link_layer is None:
        return Nic(id=f"{host}/net-{name}", parent=parent, name=name, rate_gb_per_s=rule.rate_gb_per_s)
    return RdmaPort(
        id=f"{host}/rdma-{name}-1",
        parent=parent,
        name=name,
        port=1,
        link_layer=rule.link_layer,
        rate_gb_per_s=rule.rate_gb_per_s,
    )


def _between_seats(spec: MachineSpec, seats: list[Device]) -> list[Link]:
    links: list[Link] = []
    for a, src in enumerate(seats):
        for b, dst in enumerate(seats):
            rule = next(
                (rule for rule in spec.links if rule.within is None or a // rule.within == b // rule.within), None
            )
            if a != b and rule is not None:
                links.append(
                    Link(
                        src=src.id,
                        dst=dst.id,
                        kind=rule.kind,
                        latency_us=rule.latency_us,
                        bandwidth_gb_per_s=rule.gb_per_s,
                        source=Provenance.DATASHEET,
                        path=rule.path,
                        n_bonded=rule.n_bonded,
                    )
                )
    return links


def _to_nics(rule: NicRule | None, inside: list[Device]) -> list[Link]:
    """PCIe between an accelerator and the interface beside it."""
    if rule is None or rule.place is not NicPlace.BESIDE:
        return []
    nics = [device.id for device in inside if isinstance(device, Nic | RdmaPort)]
    pairs = [(seat.id, nic) for seat, nic in zip(seats_of(inside), nics, strict=True)]
    return [
        link
        for seat, nic in pairs
        for link in _both_ways(seat, nic, LinkKind.PCIE, rule.pcie_latency_us, rule.pcie_gb_per_s, PciePath.PXB)
    ]


def _to_plane(rule: SuperPodRule, seats: list[Device], plane: DeviceId) -> list[Link]:
    """Half of the way between two hosts of a super pod."""
    return [
        link for seat in seats for link in _both_ways(seat.id, plane, rule.kind, rule.latency_us / 2, rule.gb_per_s)
    ]


def _tree(network: Network, hosts: list[Device], n_hosts: int) -> tuple[list[Device], list[Link]]:
    """(leaves and spine, their links); no spine where one leaf holds all hosts."""
    below: dict[DeviceId, list[DeviceId]] = {}
    for nic in hosts:
        if isinstance(nic, Nic | RdmaPort):
            leaf = f"leaf{int(nic.id.partition('/')[0].removeprefix('host')) // network.hosts_per_leaf}"
            below.setdefault(leaf, []).append(nic.id)
    switches: list[Device] = [Switch(id=leaf, parent=None, name=leaf) for leaf in below]
    links = [
        link
        for leaf, nics in below.items()
        for nic in nics
        for link in _both_ways(nic, leaf, network.kind, network.latency_us / 2, network.gb_per_s)
    ]
    if n_hosts > network.hosts_per_leaf:
        switches.append(Switch(id=_SPINE, parent=None, name=_SPINE))
        n_nics = max(map(len, below.values()))
        uplinks_gb_per_s = n_nics * network.gb_per_s / network.oversubscription
        for leaf in below:
            links += _both_ways(leaf, _SPINE, network.kind, network.spine_latency_us / 2, uplinks_gb_per_s)
    return switches, links


def _both_ways(
    a: DeviceId,
    b: DeviceId,
    kind: LinkKind,
    latency_us: float | None,
    gb_per_s: float | None,
    path: PciePath | None = None,
) -> list[Link]:
    return [
        Link(
            src=src,
            dst=dst,
            kind=kind,
            latency_us=latency_us,
            bandwidth_gb_per_s=gb_per_s,
            source=Provenance.DATASHEET,
            path=path,
        )
        for src, dst in ((a, b), (b, a))
    ]
