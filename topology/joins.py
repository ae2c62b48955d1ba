"""What joins hosts: super pods, switches that LLDP names, subnets, and the networks of a rank table.

In: the hosts, and for each interface which networks it is in. Out: switches and links, in the form of ``machines``:
interfaces to leaves, leaves to a spine, NPUs of a super pod to its plane. Pure. What no source tells has no figures;
hosts that nothing joins are said.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .accelerators import Npu, SuperPod, Switch
from .devices import DeviceId, Nic
from .graph import Topology
from .links import Link, LinkKind, Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """That a device is in a network: whatever is in the same one can be reached from it.

    Args:
        device: an interface, or an NPU that has ports of its own.
        network: for people, such as ``"subnet 192.0.2.0/24"``.
        rate_gb_per_s: nominal; None where it is not known.
    """

    device: DeviceId
    network: str
    kind: LinkKind
    rate_gb_per_s: float | None = None


def joined(topology: Topology, attachments: Iterable[Attachment]) -> Topology:
    """The topology with what joins its hosts.

    Args:
        attachments: of every device that is in some network, in any order.
    """
    if len(topology.hosts) < 2:
        return topology
    switches = _Switches(topology)
    links: list[Link] = []
    for pod in topology.of(SuperPod):
        npus = topology.within(pod.id, Npu)
        if len({topology.host_of(npu.id).id for npu in npus}) > 1:
            plane = switches.named("plane", f"{pod.id}/plane", pod.id)
            links += [link for npu in npus for link in _both_ways(npu.id, plane, LinkKind.HCCS_SW, None)]
    order = {device.id: index for index, device in enumerate(topology.devices)}
    by_network: dict[str, dict[DeviceId, Attachment]] = {}
    for attachment in attachments:
        by_network.setdefault(attachment.network, {})[attachment.device] = attachment
    networks = [sorted(members.values(), key=lambda member: order[member.device]) for members in by_network.values()]
    networks.sort(key=lambda members: (order[members[0].device], members[0].network))
    leaf_of = {
        nic.id: switches.named((nic.switch_port or "").partition("/")[0], "leaf") for nic in _with_switch(topology)
    }
    kinds = {member.device: member.kind for members in networks for member in members}
    for nic in _with_switch(topology):
        in_npu = isinstance(topology.device(nic.parent or ""), Npu)
        kind = kinds.get(nic.id, LinkKind.RDMA if in_npu else LinkKind.NETWORK)
        links += _both_ways(nic.id, leaf_of[nic.id], kind, nic.rate_gb_per_s)
    for members in networks:
        if _spans(topology, members, leaf_of):
            spine = switches.named(members[0].network, "spine")
            for leaf in dict.fromkeys(leaf_of[member.device] for member in members if member.device in leaf_of):
                links += _both_ways(leaf, spine, members[0].kind, None)
            for member in members:
                if member.device not in leaf_of:
                    links += _both_ways(member.device, spine, member.kind, member.rate_gb_per_s)
    whole = replace(
        topology,
        devices=(*topology.devices, *switches.added),
        links={**{(link.src, link.dst): link for link in links}, **topology.links},
    )
    return replace(whole, unseen=(*whole.unseen, *_apart(whole)))


class _Switches:
    """The switches of a topology and those that are added to it; one of a name and place is there once."""

    def __init__(self, topology: Topology) -> None:
        self.added: list[Switch] = []
        self._taken = {device.id for device in topology.devices}
        self._known = {(switch.name, switch.parent): switch.id for switch in topology.of(Switch)}

    def named(self, name: str, called: str, parent: DeviceId | None = None) -> DeviceId:
        """The id of the switch; a new one is called ``called``, in a pod, or that and a number, between hosts."""
        if (name, parent) not in self._known:
            numbered = (f"{called}{number}" for number in itertools.count())
            new = next(place for place in ([called] if parent else numbered) if place not in self._taken)
            self.added.append(Switch(id=new, parent=parent, name=name))
            self._taken.add(new)
            self._known[name, parent] = new
        return self._known[name, parent]


def _with_switch(topology: Topology) -> list[Nic]:
    return [nic for nic in topology.of(Nic) if nic.switch_port is not None]


def _spans(topology: Topology, members: Sequence[Attachment], leaf_of: Mapping[DeviceId, DeviceId]) -> bool:
    """Whether a network joins what one leaf does not: several hosts, by several leaves or by none that is known."""
    hosts = {topology.host_of(member.device).id for member in members}
    return len(hosts) > 1 and len({leaf_of.get(member.device, member.device) for member in members}) > 1


def _both_ways(a: DeviceId, b: DeviceId, kind: LinkKind, gb_per_s: float | None) -> Iterator[Link]:
    for src, dst in ((a, b), (b, a)):
        yield Link(
            src=src,
            dst=dst,
            kind=kind,
            latency_us=None,
            bandwidth_gb_per_s=gb_per_s,
            source=Provenance.PROBE if gb_per_s is None else Provenance.DATASHEET,
        )


def _apart(topology: Topology) -> Iterator[str]:
    """In words, which hosts nothing joins."""
    group: dict[DeviceId, DeviceId] = {device.id: device.id for device in topology.devices}

    def top(device: DeviceId) -> DeviceId:
        while group[device] != device:
            group[device] = group[group[device]]
            device = group[device]
        return device

    hosts = topology.hosts
    for device in topology.devices:
        if device.parent is not None and not isinstance(topology.device(device.parent), SuperPod):
            group[top(device.id)] = top(device.parent)
    for src, dst in topology.links:
        group[top(src)] = top(dst)
    parts: dict[DeviceId, list[str]] = {}
    for host in hosts:
        parts.setdefault(top(host.id), []).append(host.name or host.id)
    if len(parts) > 1:
        told = "; ".join(", ".join(names) for names in parts.values())
        yield f"nothing joins these hosts, no rank table, switch (LLDP) or subnet: {told}"
