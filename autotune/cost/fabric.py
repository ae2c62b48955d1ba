"""The compact fabric: which shared resources the traffic from one rank to another crosses, in arrays.

In:  capacities and latencies of one host, how many hosts, how they are joined. Out: for any arrays of (source,
destination) ranks, the resources that each flow crosses. May not touch: topologies (``derive.py`` makes fabrics from
them), schedules, prices. numpy only.

All hosts are alike and ranks are numbered host by host, so that 16,384 ranks need one host's table and a few numbers.
What is not alike is one "host" that holds all ranks. A resource is anything with a capacity that several flows may
share: a link, a switch plane, an interface, an uplink. Resources are directed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]

NO_RESOURCE = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostPattern:
    """One host: its g ranks and m resources, among them those at its border.

    Args:
        capacity_gb_per_s: shape (m,), 1e9 bytes per second.
        crosses: shape (g, g, k): the resources from one rank to another, NO_RESOURCE where there are fewer than k.
        latency_us: shape (g, g), for a message of a few bytes.
    """

    capacity_gb_per_s: FloatArray
    crosses: IntArray
    latency_us: FloatArray

    def __post_init__(self) -> None:
        g = len(self.latency_us)
        if g < 1 or self.crosses.shape[:2] != (g, g) or self.latency_us.shape != (g, g):
            raise ValueError(f"routes {self.crosses.shape} and latencies {self.latency_us.shape} do not fit each other")
        if not np.all(self.capacity_gb_per_s > 0):
            raise ValueError("a resource without capacity")
        _check_ways(self.crosses, self.n_resources)

    @property
    def n_ranks(self) -> int:
        return len(self.latency_us)

    @property
    def n_resources(self) -> int:
        return len(self.capacity_gb_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A level of switches above the hosts: a switch's traffic to the others of its level shares its uplink.

    Args:
        hosts: hosts below one switch.
        uplink_gb_per_s: of one switch, each way.
        hop_us: latency that leaving a switch's own hosts adds.
    """

    hosts: int
    uplink_gb_per_s: float
    hop_us: float

    def __post_init__(self) -> None:
        if self.hosts < 1 or self.uplink_gb_per_s <= 0 or self.hop_us < 0:
            raise ValueError(f"not a tier: {self}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """What joins hosts: the plane of a super pod, or a tree of switches.

    Args:
        hosts: so many consecutive hosts are joined; a flow takes the first network that joins its two hosts.
        leaves: shape (g, j): the host's resources that a rank's traffic to other hosts crosses.
        enters: shape (g, j): the same for traffic from other hosts.
        latency_us: between ranks of two hosts below one switch of the lowest tier.
        tiers: nearest first.
    """

    hosts: int
    leaves: IntArray
    enters: IntArray
    latency_us: float
    tiers: tuple[Tier, ...] = ()

    def __post_init__(self) -> None:
        if self.hosts < 1 or self.leaves.shape != self.enters.shape:
            raise ValueError(f"not a network: {self.hosts} hosts, ways {self.leaves.shape} and {self.enters.shape}")
        if any(above.hosts % below.hosts for below, above in pairwise(self.tiers)):
            raise ValueError(f"tiers of {[tier.hosts for tier in self.tiers]} hosts do not fill each other")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routes:
    """What flows cross.

    Args:
        resources: shape (flows, k), NO_RESOURCE where there are fewer.
        latency_us: shape (flows,).
    """

    resources: IntArray
    latency_us: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fabric:
    """Hosts of one pattern, joined by networks.

    Raises:
        ValueError: several hosts and no network that joins them all, or ways that do not fit the host.
    """

    host: HostPattern
    n_hosts: int = 1
    networks: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        if self.n_hosts < 1:
            raise ValueError(f"{self.n_hosts} hosts")
        if self.n_hosts > 1 and (not self.networks or self.networks[-1].hosts < self.n_hosts):
            raise ValueError(f"nothing joins all of {self.n_hosts} hosts")
        for network in self.networks:
            if len(network.leaves) != self.host.n_ranks:
                raise ValueError(f"{len(network.leaves)} ways out of a host of {self.host.n_ranks} ranks")
            _check_ways(network.leaves, self.host.n_resources)
            _check_ways(network.enters, self.host.n_resources)

    @property
    def n_ranks(self) -> int:
        return self.n_hosts * self.host.n_ranks

    def capacities(self) -> FloatArray:
        """GB/s of every resource: host after host, then each network's tiers, uplinks before downlinks."""
        parts = [np.tile(self.host.capacity_gb_per_s, self.n_hosts)]
        parts += [np.full(2 * self._switches(t), t.uplink_gb_per_s) for net in self.networks for t in net.tiers]
        return np.concatenate(parts)

    def routes(self, src: IntArray, dst: IntArray) -> Routes:
        """Entry i is the flow from rank src[i] to rank dst[i]."""
        src_host, src_at = np.divmod(src, np.int32(self.host.n_ranks))
        dst_host, dst_at = np.divmod(dst, np.int32(self.host.n_ranks))
        resources = _based(self.host.crosses[src_at, dst_at], src_host * self.host.n_resources)
        latency_us = self.host.latency_us[src_at, dst_at]
        open_ends = src_host != dst_host
        first = self.n_hosts * self.host.n_resources
        for network in self.networks:
            if not open_ends.any():
                break
            takes = open_ends & (src_host // network.hosts == dst_host // network.hosts)
            ways, delay_us = self._through(network, src_host, src_at, dst_host, dst_at, first)
            width = max(resources.shape[1], ways.shape[1])
            resources = np.where(takes[:, None], _widened(ways, width), _widened(resources, width))
            latency_us = np.where(takes, delay_us, latency_us)
            open_ends = open_ends & ~takes
            first += sum(2 * self._switches(tier) for tier in network.tiers)
        return Routes(resources=resources, latency_us=latency_us)

    def _through(
        self, network: Network, src_host: IntArray, src_at: IntArray, dst_host: IntArray, dst_at: IntArray, first: int
    ) -> tuple[IntArray, FloatArray]:
        """(resources, latency) over one network, whose tiers' resources begin at ``first``."""
        columns = [
            _based(network.leaves[src_at], src_host * self.host.n_resources),
            _based(network.enters[dst_at], dst_host * self.host.n_resources),
        ]
        latency_us = np.full(len(src_host), network.latency_us)
        for tier in network.tiers:
            up, down = src_host // tier.hosts, dst_host // tier.hosts
            across = up != down
            ways = np.stack([first + up, first + self._switches(tier) + down], axis=1)
            columns.append(np.where(across[:, None], ways, NO_RESOURCE).astype(np.int32))
            latency_us = latency_us + across * tier.hop_us
            first += 2 * self._switches(tier)
        return np.concatenate(columns, axis=1), latency_us

    def _switches(self, tier: Tier) -> int:
        return -(-self.n_hosts // tier.hosts)


def _check_ways(ways: IntArray, n_resources: int) -> None:
    if ways.size and (ways.max() >= n_resources or ways.min() < NO_RESOURCE):
        raise ValueError(f"a way crosses a resource outside 0 .. {n_resources - 1}")


def _based(local: IntArray, base: IntArray) -> IntArray:
    """Resources of one host -> of all hosts."""
    return np.where(local == NO_RESOURCE, NO_RESOURCE, local + base[:, None]).astype(np.int32)


def _widened(resources: IntArray, width: int) -> IntArray:
    missing = width - resources.shape[1]
    return np.pad(resources, ((0, 0), (0, missing)), constant_values=NO_RESOURCE) if missing else resources


def crossbar(n_ranks: int, *, gb_per_s: float, latency_us: float) -> Fabric:
    """Ranks on one switch that never blocks: each has a port that sends, and one that receives."""
    rank = np.arange(n_ranks, dtype=np.int32)
    ways = np.stack(np.broadcast_arrays(rank[:, None], n_ranks + rank[None, :]), axis=2)
    apart = ~np.eye(n_ranks, dtype=bool)
    pattern = HostPattern(
        capacity_gb_per_s=np.full(2 * n_ranks, gb_per_s),
        crosses=np.where(apart[:, :, None], ways, NO_RESOURCE).astype(np.int32),
        latency_us=apart * latency_us,
    )
    return Fabric(host=pattern)
