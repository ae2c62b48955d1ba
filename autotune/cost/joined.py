"""The model of CPU ranks on several hosts, from what was measured between some of them.

In:  a topology of hosts, how many ranks each of them has. Out: a network model. May not touch: clocks, trials.

Between hosts a probe measures some pairs, not all. Every host has a way out and a way in, which its ranks share, as
fast as its fastest pair; hosts without one are as fast as the median. A host with several interfaces that are up and
equally fast has as many ways, and pairs of ranks are shared out among them as sockets are (runtime/interfaces.py): so
schedules with as many leaders as interfaces cost least. Hosts whose links are slow stand last, as when ranks meet.
Inside a host every rank has its own memory to write to and to read from.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import UsageError
from ..topology.devices import Device, DeviceId, Nic
from ..topology.graph import Topology
from ..topology.host_rates import late_hosts
from ..topology.links import Link, LinkKind, Provenance
from ..types import Layout
from .fabric import NO_RESOURCE, Fabric, HostPattern, IntArray
from .network import NetworkModel
from .parameters import NetworkParameters

_SHM_GB_PER_S, _SHM_LATENCY_US = 5.0, 1.0
_CALL_US, _MESSAGE_SHARE = 20.0, 0.1  # of a socket: the latter of its latency, for the processor's part


def joined_model(topology: Topology, placement: Sequence[int]) -> NetworkModel:
    """The model of ranks by host, those of a host one after the other; the hosts are the first ones of the topology.

    Raises:
        UsageError: nothing was measured between hosts.
    """
    network = _figures(link for link in topology.links.values() if link.kind is LinkKind.NETWORK)
    if network is None:
        raise UsageError("nothing was measured between these hosts", remedy="autotune probe, inside a launcher")
    shm = _figures(link for link in topology.links.values() if link.kind is LinkKind.SHM)
    inside_gb_per_s, inside_us = shm or (_SHM_GB_PER_S, _SHM_LATENCY_US)
    gb_per_s, latency_us = network
    n_hosts, n_ranks = len(placement), sum(placement)
    host_of = np.repeat(np.arange(n_hosts, dtype=np.int32), placement)
    rank = np.arange(n_ranks, dtype=np.int32)
    abroad = host_of[:, None] != host_of[None, :]
    n_ways = [_n_ways(topology, host.id) for host in topology.hosts[:n_hosts]]
    n_ways += [1] * (n_hosts - len(n_ways))
    total, first_way = sum(n_ways), np.cumsum([0, *n_ways[:-1]])
    way_of = _ways_of_pairs(placement, n_ways)
    out = np.where(abroad, first_way[host_of][:, None] + way_of, 2 * total + rank[:, None])
    into = np.where(abroad, total + first_way[host_of] + way_of.T, 2 * total + n_ranks + rank[None, :])
    itself = np.eye(n_ranks, dtype=bool)
    known = [_fastest(topology, host.id) for host in topology.hosts[:n_hosts]]
    known += [None] * (n_hosts - len(known))
    ways_gb_per_s = [gb_per_s if rate is None else rate for rate in known]
    pattern = HostPattern(
        capacity_gb_per_s=np.array([*np.repeat(ways_gb_per_s, n_ways)] * 2 + [inside_gb_per_s] * 2 * n_ranks),
        crosses=np.where(itself[:, :, None], NO_RESOURCE, np.stack([out, into], axis=2)).astype(np.int32),
        latency_us=np.where(itself, 0.0, np.where(abroad, latency_us, inside_us)),
    )
    late = late_hosts(known)
    in_order = [*(host for host in range(n_hosts) if host not in late), *late]
    groups = tuple(tuple(int(r) for r in rank[host_of == host]) for host in in_order)
    return NetworkModel(
        fabric=Fabric(host=pattern),
        layout=Layout(order=tuple(itertools.chain(*groups)), groups=groups),
        parameters=NetworkParameters(call_us=_CALL_US, message_us=_MESSAGE_SHARE * latency_us),
    )


def _ways_of_pairs(placement: Sequence[int], n_ways: Sequence[int]) -> IntArray:
    """[rank, other] -> which of the ways of the rank's host carries the pair: by the place of the later one, which is
    reached by the interface of its place among the ranks of its host."""
    host_of = np.repeat(np.arange(len(placement), dtype=np.int32), placement)
    place = np.concatenate([np.arange(size, dtype=np.int32) for size in placement])
    rank = np.arange(len(place))
    later = np.maximum(rank[:, None], rank[None, :])
    return place[later] % np.array(n_ways, np.int32)[host_of][later] % np.array(n_ways, np.int32)[host_of][:, None]


def _n_ways(topology: Topology, host: DeviceId) -> int:
    """How many interfaces are up and as fast as the fastest; 1 where the probe saw no rates."""
    rates = [
        nic.rate_gb_per_s
        for nic in topology.within(host, Nic)
        if nic.rate_gb_per_s is not None and nic.state in (None, "up")
    ]
    return rates.count(max(rates)) if rates else 1


def _fastest(topology: Topology, host: DeviceId) -> float | None:
    """The rate of a host's fastest way to another one; None where none was measured."""
    inside = {device.id for device in topology.within(host, Device)}
    rates = [
        link.bandwidth_gb_per_s
        for (src, _), link in topology.links.items()
        if link.kind is LinkKind.NETWORK and link.source is Provenance.PROBE and src in inside
    ]
    return max((rate for rate in rates if rate is not None), default=None)


def _figures(links: Iterable[Link]) -> tuple[float, float] | None:
    """(GB/s, us): the medians of the links that were measured; None where none was."""
    known = [
        (link.bandwidth_gb_per_s, link.latency_us)
        for link in links
        if link.bandwidth_gb_per_s is not None and link.latency_us is not None
    ]
    if not known:
        return None
    return statistics.median(gb for gb, _ in known), statistics.median(us for _, us in known)
