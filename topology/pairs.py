"""Which pairs to measure: enough to see every class of distance or link, not every pair. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .devices import Cpu, Device, DeviceId
from .graph import Distance, Topology
from .links import Link
from .routes import Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPair:
    """Two CPUs that ranks may be pinned to, and the class that they stand for; ``str(distance)`` names it."""

    a: Cpu
    b: Cpu
    distance: Distance


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatPair:
    """Two of the devices that ranks sit on, by their positions, and the words of the class that they stand for."""

    a: int
    b: int
    words: str


def representative_pairs(topology: Topology) -> list[CpuPair]:
    """The first and the last pair of each class of distance on each host, near to far; one where they are the same.

    Across cores, only the first allowed hardware thread of each core is considered.
    """
    pairs: list[CpuPair] = []
    for host in topology.hosts:
        threads: dict[DeviceId | None, list[Cpu]] = {}
        for cpu in sorted(topology.within(host.id, Cpu), key=lambda cpu: cpu.number):
            if cpu.allowed:
                threads.setdefault(cpu.parent, []).append(cpu)
        first_threads = [siblings[0] for siblings in threads.values()]
        candidates = [(siblings[0], siblings[-1]) for siblings in threads.values() if len(siblings) > 1]
        candidates += [(a, b) for index, a in enumerate(first_threads) for b in first_threads[index + 1 :]]
        ends: dict[Distance, list[CpuPair]] = {}
        for a, b in candidates:
            pair = CpuPair(a=a, b=b, distance=topology.distance(a, b))
            ends[pair.distance] = [*ends.get(pair.distance, [])[:1], pair]
        pairs += [pair for distance in sorted(ends, key=lambda distance: distance.order) for pair in ends[distance]]
    return pairs


def seat_pairs(topology: Topology, seats: Sequence[Device]) -> list[SeatPair]:
    """The first and the last pair of each class of ways between the devices of a group, near to far.

    Within a host all pairs are considered. Between hosts: of each host with the next one, and of the first with the
    last, the first seats, and the first with the last seat; so that the number grows with the hosts and not with pairs.
    All of these first seats are in the answer: a host whose link is slow is of the same class as the others.

    Args:
        seats: by rank.
    """
    routes = Routes(topology)
    kept: dict[str, list[SeatPair]] = {}
    last: dict[str, SeatPair] = {}
    far: dict[str, int] = {}
    for a, b, always in _candidates(topology, seats):
        words, reach = _class(topology, routes, seats[a], seats[b])
        far[words] = max(far.get(words, 0), reach)
        last[words] = SeatPair(a=a, b=b, words=words)
        if always or words not in kept:
            kept.setdefault(words, []).append(last[words])
    return [
        pair
        for words in sorted(kept, key=lambda words: (far[words], words))
        for pair in dict.fromkeys((*kept[words], last[words]))
    ]


def _candidates(topology: Topology, seats: Sequence[Device]) -> Iterator[tuple[int, int, bool]]:
    """Pairs of positions, and whether a pair is measured whatever its class."""
    by_host: dict[DeviceId, list[int]] = {}
    for position, seat in enumerate(seats):
        by_host.setdefault(topology.host_of(seat.id).id, []).append(position)
    hosts = list(by_host.values())
    for own in hosts:
        yield from ((a, b, False) for index, a in enumerate(own) for b in own[index + 1 :])
    between = dict.fromkeys([*zip(range(len(hosts)), range(1, len(hosts)), strict=False), (0, len(hosts) - 1)])
    for one, other in between:
        if one != other:
            yield hosts[one][0], hosts[other][0], True
            if len(hosts[other]) > 1:
                yield hosts[one][0], hosts[other][-1], False


def _class(topology: Topology, routes: Routes, a: Device, b: Device) -> tuple[str, int]:
    """(words for people that name the class of the way between two devices, how far it is)."""
    here = topology.host_of(a.id).id == topology.host_of(b.id).id
    if here and isinstance(a, Cpu) and isinstance(b, Cpu):
        distance = topology.distance(a, b)
        return str(distance), sum(distance.order) - (1 << 20)  # CPUs of one host are nearer than anything else
    where = "same host" if here else "other host"
    route = routes.between(a.id, b.id)
    if route is None or not route.links:
        return f"{where}, way unknown", 1 << 20
    return f"{where}, {' '.join(_words(link) for link in route.links)}", route.reach


def _words(link: Link) -> str:
    return link.kind.value if link.path is None else f"{link.kind.value} {link.path.value}"


def pinning_order(topology: Topology) -> tuple[int, ...]:
    """Numbers of the CPUs that ranks are pinned to, in order; of several hosts, host by host."""
    return tuple(cpu.number for cpu in topology.pinning_order)
