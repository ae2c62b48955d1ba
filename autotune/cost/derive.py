"""Cost models of real and described machines: from a topology, or from a machine's description times any hosts.

In:  topologies of ``topology``, machine descriptions. Out: fabrics, layouts and models. May not touch: schedules,
prices, files. Which links a message takes and which limits it meets is ``topology``'s; here it becomes arrays.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import UsageError
from ..topology.devices import Cache, Cpu, Device, DeviceId, Nic, RdmaPort
from ..topology.fabric import Fabric as Pairs
from ..topology.fabric import fabric as pairs_of
from ..topology.graph import Topology
from ..topology.links import LinkKind, Provenance
from ..topology.machines import MachineDescription, machine
from ..topology.orders import groups, ring_order
from ..topology.routes import Routes
from ..types import Layout
from .fabric import NO_RESOURCE, Fabric, FloatArray, HostPattern, IntArray, Network, Tier
from .host import HostModel
from .network import NetworkModel
from .parameters import HostParameters
from .price import CostModel

# What a link's latency is taken for where nothing tells it: the figures of topology/machines.
_USUAL_US = {
    LinkKind.SHM: 0.1,
    LinkKind.SIO: 0.2,
    LinkKind.HCCS: 0.5,
    LinkKind.HCCS_SW: 0.5,
    LinkKind.NVLINK: 0.6,
    LinkKind.XGMI: 0.6,
    LinkKind.UB: 1.0,
    LinkKind.PCIE: 1.0,
    LinkKind.RDMA: 1.5,
    LinkKind.NETWORK: 6.1,
}
_L2_BYTES, _L3_BYTES = 1 << 20, 32 << 20  # of a host whose caches are not known: those of the defaults' machine
_PAIR_US, _PAIR_GB_PER_S = 0.069, 9.0  # what the probe measures between two cores of the defaults' machine
_LEAF = "leaf0"  # the names that topology/machines gives
_PLANE = "pod0/plane"


def model_of(
    topology: Topology, n_ranks: int | None = None, *, staging_bytes: int, placement: Sequence[int] = ()
) -> CostModel:
    """The model of a probed or described topology: of links, or of shared memory where ranks sit on one host's CPUs.

    Args:
        n_ranks: None is one for each accelerator or CPU. On CPUs there may be more, which share them; else the first
            ones are taken.
        placement: ranks on each host, where there are several; empty for the first devices.

    Raises:
        UsageError: more ranks than accelerators, or a pair of devices whose bandwidth nothing tells.
    """
    devices = topology.rank_devices()
    if not devices:
        raise UsageError("the topology has nothing that a rank could sit on", remedy="autotune probe on that machine")
    ranks = len(devices) if n_ranks is None else n_ranks
    if isinstance(devices[0], Cpu) and len(topology.hosts) == 1:
        return host_model(topology, ranks, staging_bytes=staging_bytes)
    if ranks > len(devices):
        raise UsageError(
            f"{ranks} ranks on a topology of {len(devices)} devices", remedy=f"give up to {len(devices)} ranks"
        )
    taken = devices[:ranks] if len(placement) < 2 else _placed(topology, devices, placement)
    pairs = pairs_of(topology, taken)
    _check_known(pairs, taken)
    pattern = _pattern(pairs, _latencies(topology, taken), len(taken))
    return NetworkModel(fabric=Fabric(host=pattern), layout=layout_of(topology, taken))


def _placed(topology: Topology, devices: Sequence[Device], placement: Sequence[int]) -> tuple[Device, ...]:
    """The first devices of so many hosts, the most on those that have the most.

    Raises:
        UsageError: the hosts do not have so many.
    """
    by_host: dict[DeviceId, list[Device]] = {}
    for device in devices:
        by_host.setdefault(topology.host_of(device.id).id, []).append(device)
    largest = sorted(by_host.values(), key=len, reverse=True)
    counts = sorted(placement, reverse=True)
    if len(counts) > len(largest) or any(n > len(host) for n, host in zip(counts, largest, strict=False)):
        raise UsageError(
            f"ranks placed as {'+'.join(map(str, placement))}, and the hosts have "
            f"{', '.join(str(len(host)) for host in largest)} devices",
            remedy="give as many hosts, with as many devices",
        )
    return tuple(device for n, host in zip(counts, largest, strict=False) for device in host[:n])


def machine_model(description: MachineDescription, n_hosts: int, n_ranks: int | None = None) -> NetworkModel:
    """The model of so many hosts of a described machine, in the memory of one.

    Args:
        n_ranks: None is all. Else as many hosts as are needed, all full or one in part.

    Raises:
        UsageError: several hosts that no described network joins, or a rank count that fills hosts unevenly.
    """
    seats = description.host.rank_devices()
    per_host = len(seats)
    if n_ranks is not None:
        n_hosts, per_host = _spread(n_ranks, n_hosts, len(seats))
    taken = seats[:per_host]
    if n_hosts == 1:
        pairs = pairs_of(description.host, taken)
        pattern = _pattern(pairs, _latencies(description.host, taken), per_host)
        return NetworkModel(fabric=Fabric(host=pattern), layout=layout_of(description.host, taken))
    pattern, networks = _joined(description, n_hosts, [seat.id for seat in taken])
    inside = ring_order(description.host, taken)
    hosts = range(0, n_hosts * per_host, per_host)
    layout = Layout(
        order=tuple(first + at for first in hosts for at in inside),
        groups=tuple(tuple(range(first, first + per_host)) for first in hosts),
    )
    return NetworkModel(fabric=Fabric(host=pattern, n_hosts=n_hosts, networks=networks), layout=layout)


def host_model(topology: Topology, n_ranks: int, *, staging_bytes: int) -> HostModel:
    """The model of ranks on one host's CPUs; constants are scaled by what was measured between pairs of them."""
    caches = topology.of(Cache)
    l2 = [cache.size_bytes for cache in caches if cache.level == 2]
    l3 = [cache.size_bytes for cache in caches if cache.level >= 3]
    return HostModel(
        n_ranks=n_ranks,
        n_cores=len(topology.allowed_cpus),
        l2_bytes=min(l2, default=_L2_BYTES),
        l3_bytes=min(l3, default=_L3_BYTES),
        staging_bytes=staging_bytes,
        parameters=_scaled(topology),
    )


def layout_of(topology: Topology, devices: Sequence[Device]) -> Layout:
    """Positions along the topology's best ring, from rank 0, the root, on; groups only where there are several."""
    ring = ring_order(topology, devices)
    start = ring.index(0)
    found = groups(topology, devices)
    return Layout(order=(*ring[start:], *ring[:start]), groups=found if len(found) > 1 else ())


def _spread(n_ranks: int, n_hosts: int, seats: int) -> tuple[int, int]:
    """(hosts, ranks on each) for so many ranks: hosts are filled one after the other."""
    hosts = -(-n_ranks // seats)
    if hosts > n_hosts or (hosts > 1 and n_ranks % seats):
        most = n_hosts * seats
        raise UsageError(
            f"{n_ranks} ranks do not fill hosts of {seats} devices evenly, or need more than {n_hosts}",
            remedy=f"give up to {seats} ranks, or a multiple of {seats} up to {most}",
        )
    return hosts, min(n_ranks, seats)


def _joined(
    description: MachineDescription, n_hosts: int, seats: Sequence[str]
) -> tuple[HostPattern, tuple[Network, ...]]:
    """One host with its ways out, and what joins it to others: the super pod's plane, then the tree of switches.

    Two hosts show all there is to see of one. A rank's ways to the plane and into the network share nothing.
    """
    borders: list[tuple[str, int, tuple[Tier, ...]]] = []
    if description.super_pod is not None:
        borders.append((_PLANE, description.super_pod.n_hosts, ()))
    rule = description.network
    if rule is not None:
        nics = [device for device in description.host.devices if isinstance(device, Nic | RdmaPort)]
        uplink = rule.gb_per_s * len(nics) * rule.hosts_per_leaf / rule.oversubscription
        tier = Tier(hosts=rule.hosts_per_leaf, uplink_gb_per_s=uplink, hop_us=rule.spine_latency_us)
        borders.append((_LEAF, n_hosts, (tier,)))
    reach = borders[-1][1] if borders else 1
    if reach < n_hosts:
        raise UsageError(
            f"{description.name} with {n_hosts} hosts: no network that joins them is described",
            remedy=f"give up to {reach} hosts, or another machine",
        )
    joined = machine(description.name, n_hosts=2)
    limits: list[float] = []
    networks: list[Network] = []
    pattern: HostPattern | None = None
    for border, hosts, tiers in borders:
        ends = [joined.device(name) for name in (*seats, border)]
        pairs, latency_us = pairs_of(joined, ends), _latencies(joined, ends)
        inside = range(len(seats))
        networks.append(
            Network(
                hosts=hosts,
                leaves=_table([[pairs.uses[rank][-1] for rank in inside]], len(limits))[0],
                enters=_table([[pairs.uses[-1][rank] for rank in inside]], len(limits))[0],
                latency_us=float(latency_us[0, -1] + latency_us[-1, 0]),
                tiers=tiers,
            )
        )
        pattern = pattern or _pattern(pairs, latency_us[:-1, :-1], len(seats))
        limits += pairs.limits
    assert pattern is not None, "several hosts have a border"
    return replace(pattern, capacity_gb_per_s=np.array(limits)), tuple(networks)


def _pattern(pairs: Pairs, latency_us: FloatArray, n: int) -> HostPattern:
    return HostPattern(
        capacity_gb_per_s=np.array(pairs.limits, float),
        crosses=_table([list(row[:n]) for row in pairs.uses[:n]]),
        latency_us=latency_us,
    )


def _table(uses: Sequence[Sequence[tuple[int, ...]]], first: int = 0) -> IntArray:
    """Rows of limits, numbered from ``first`` -> an array, NO_RESOURCE where a pair has fewer than others."""
    width = max((len(limits) for row in uses for limits in row), default=0)
    padded = [
        [(*(first + limit for limit in limits), *[NO_RESOURCE] * (width - len(limits))) for limits in row]
        for row in uses
    ]
    return np.array(padded, np.int32).reshape(len(uses), len(uses[0]), width)


def _latencies(topology: Topology, ends: Sequence[Device]) -> FloatArray:
    routes = Routes(topology)
    found = np.zeros((len(ends), len(ends)))
    for i, src in enumerate(ends):
        for j, dst in enumerate(ends):
            if src.id != dst.id:
                route = routes.between(src.id, dst.id)
                links = () if route is None else route.links
                found[i, j] = sum(
                    _USUAL_US[link.kind] if link.latency_us is None else link.latency_us for link in links
                )
    return found


def _check_known(pairs: Pairs, devices: Sequence[Device]) -> None:
    """``topology.fabric`` gives no limits at all where one pair's figures are missing."""
    if len(devices) > 1 and not pairs.limits:
        raise UsageError(
            f"the bandwidth between some of {devices[0].id} ... {devices[-1].id} is not known",
            remedy="autotune probe --links there, or name the machine: autotune simulate --topology NAME",
        )


def _scaled(topology: Topology) -> HostParameters:
    """The default constants, times how much slower measured pairs of CPUs are than those of the defaults' machine."""
    pairs = [link for link in topology.links.values() if link.kind is LinkKind.SHM and link.source is Provenance.PROBE]
    latencies = [link.latency_us for link in pairs if link.latency_us is not None]
    bandwidths = [link.bandwidth_gb_per_s for link in pairs if link.bandwidth_gb_per_s is not None]
    usual = HostParameters()
    slower = _PAIR_GB_PER_S / statistics.median(bandwidths) if bandwidths else 1.0
    later = statistics.median(latencies) / _PAIR_US if latencies else 1.0
    in_time = {"message_us": usual.message_us * later}
    in_bytes = {name: getattr(usual, name) * slower for name in HostParameters.names() if not name.endswith("_us")}
    return replace(usual, **in_time, **in_bytes)
