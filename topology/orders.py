"""In which order ranks should stand in a ring or a tree, and which of them form groups. Pure and deterministic.

In: a topology and what each rank sits on. Out: positions as indices into these devices, for ``types.Layout``. The same
devices give the same ring, whatever the order in which they are listed, so all ranks agree without asking.

A *ring order* is the best by two rules. First its bottleneck: when every position sends to the next at once, the least
share that any of them gets, over links and shared limits. All orders within a tenth of the best are equal, since
figures are no finer. Of these, the one with the fewest steps of the farthest class, then of the next: they cost
latency, and others want the far links too. Where the bandwidth of some pair is not known, only this second rule counts.

Up to 8 devices every order is tried. Up to 48, groups of near devices are chained, and the chain is improved by turning
and moving pieces of it (2-opt and or-opt; Croes 1958, Or 1976). Above, hosts are chained, and devices inside each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, permutations

from .devices import Device
from .fabric import Fabric, fabric
from .graph import Topology
from .probes.recording import natural

_EXACT = 8  # 5,040 orders, a tenth of a second
_WHOLE = 48  # devices whose pairs are all looked at
_MAX_TRIES = 20_000
_AS_GOOD = 0.9  # of the best bottleneck

_Solve = Callable[[Fabric], Sequence[int]]

_Score = tuple[float, tuple[int, ...]]
_Positions = tuple[int, ...]


def ring_order(topology: Topology, devices: Sequence[Device]) -> tuple[int, ...]:
    """The devices around a ring, as indices; it starts with the first by id.

    Args:
        devices: what rank 0, 1, ... sits on; one may stand there several times.
    """
    order = _in_given_order(topology, devices, _ring, _chain)
    start = order.index(_canonical(devices)[0]) if order else 0
    return (*order[start:], *order[:start])


def tree_order(topology: Topology, devices: Sequence[Device]) -> tuple[int, ...]:
    """The devices for binomial trees, as indices: near ones side by side at every scale.

    A binomial tree joins positions at distances that are powers of two, the long ones once each, so that every group
    of near devices is entered once.
    """
    return _in_given_order(topology, devices, _nested, _nested)


def groups(topology: Topology, devices: Sequence[Device]) -> tuple[tuple[int, ...], ...]:
    """Indices of the devices that share fast links, for hierarchical schedules; one group where none stand out.

    Several hosts: a group is a host. One host: the coarsest split in which every group has two devices or more and all
    in a group are nearer to each other than to any other: HCCS quads, modules, sockets, NUMA nodes.
    """
    order = _canonical(devices)
    hosts = _by_host(topology, devices)
    if len(hosts) > 1:
        return tuple(map(tuple, hosts))
    found = fabric(topology, [devices[index] for index in order])
    for level in range(max(map(max, found.levels), default=0), 0, -1):
        parts = _parts(found, level)
        cliques = all(found.levels[i][j] < level for part in parts for i in part for j in part)
        if len(parts) > 1 and cliques and min(map(len, parts)) > 1:
            return tuple(tuple(order[position] for position in part) for part in parts)
    return (tuple(order),) if order else ()


def _in_given_order(topology: Topology, devices: Sequence[Device], whole: _Solve, a_part: _Solve) -> tuple[int, ...]:
    """Solve for the devices sorted by id, as a whole or host by host, and say it in the order in which they stand."""
    order = _canonical(devices)
    if not order:
        return ()
    hosts = _by_host(topology, devices)

    def solved(indices: Sequence[int], solve: _Solve) -> list[int]:
        return [indices[at] for at in solve(fabric(topology, [devices[index] for index in indices]))]

    if len(order) <= _WHOLE or len(hosts) == 1:
        return tuple(solved(order, whole))
    first_of = {members[0]: members for members in hosts}
    return tuple(index for first in solved(list(first_of), a_part) for index in solved(first_of[first], a_part))


def _by_host(topology: Topology, devices: Sequence[Device]) -> list[list[int]]:
    hosts: dict[str, list[int]] = {}
    for index in _canonical(devices):
        hosts.setdefault(topology.host_of(devices[index].id).id, []).append(index)
    return list(hosts.values())


def _canonical(devices: Sequence[Device]) -> list[int]:
    return sorted(range(len(devices)), key=lambda index: (natural(devices[index].id), index))


def _ring(found: Fabric) -> _Positions:
    if found.n <= _EXACT:
        return _best_ring(found)
    chain = _chain(found)
    if found.n > _WHOLE:
        return chain
    fastest = _improved(found, min(chain, _nearest(found), key=lambda order: score(found, order)))
    enough = -score(found, fastest)[0] * _AS_GOOD
    return min(_improved(found, chain, enough), fastest, key=lambda order: score(found, order, enough))


def score(found: Fabric, order: Sequence[int], enough: float = math.inf) -> _Score:
    """What a ring is judged by, the less the better: its bottleneck in GB/s, negative; its steps' levels, far first.

    Args:
        enough: a bottleneck above this counts as this.
    """
    return _score(found, zip(order, (*order[1:], *order[:1]), strict=True), enough)


def _score(found: Fabric, steps: Iterable[tuple[int, int]], enough: float = math.inf) -> _Score:
    loads: dict[int, int] = {}
    levels: list[int] = []
    for here, there in steps:
        levels.append(found.levels[here][there])
        for limit in found.uses[here][there]:
            loads[limit] = loads.get(limit, 0) + 1
    bottleneck = min((found.limits[limit] / load for limit, load in loads.items()), default=0.0)
    return (-min(bottleneck, enough), tuple(sorted(levels, reverse=True)))


@lru_cache(maxsize=256)
def _best_ring(found: Fabric) -> _Positions:
    """The best of all orders that start at 0; of equal ones the first. Cached: the hosts of a cluster are alike."""
    ideal = _bound(found)
    scores: dict[_Positions, _Score] = {}
    for others in permutations(range(1, found.n)):
        order = (0, *others)
        scores[order] = score(found, order)
        if scores[order] <= ideal:
            return order
    enough = min(scores.values())[0] * _AS_GOOD
    return min(scores, key=lambda order: (max(scores[order][0], enough), scores[order][1]))


def _bound(found: Fabric) -> _Score:
    """A score that no ring can beat: every position sends to the one that it reaches best."""
    others = [[j for j in range(found.n) if j != i] for i in range(found.n)]
    if found.n < 2:
        return (0.0, (0,) * found.n)
    bottleneck = min(max(found.alone(i, j) for j in others[i]) for i in range(found.n)) if found.limits else 0.0
    levels = sorted((min(found.levels[i][j] for j in others[i]) for i in range(found.n)), reverse=True)
    return (-bottleneck, tuple(levels))


def _chain(found: Fabric) -> _Positions:
    """Groups of near positions one after the other, at every scale; small groups as their best ring, opened."""
    if found.n <= _EXACT:
        return _opened(found)
    return _split(found, _chain)


def _nested(found: Fabric) -> _Positions:
    """Groups of near positions one after the other, at every scale, in the order of their ids."""
    return _split(found, _nested)


def _split(found: Fabric, solve: Callable[[Fabric], _Positions]) -> _Positions:
    """Solve each part of the coarsest split, one after the other; where none can be split off, keep the order."""
    for level in range(max(map(max, found.levels), default=0), 0, -1):
        parts = _parts(found, level)
        if len(parts) > 1:
            return tuple(part[at] for part in parts for at in solve(found.part(part)))
    return tuple(range(found.n))


def _opened(found: Fabric) -> _Positions:
    """The best ring without one of its steps: the one that is missed least."""
    ring = _best_ring(found)
    paths = [(*ring[start:], *ring[:start]) for start in range(found.n)]
    return min(paths, key=lambda path: _score(found, pairwise(path)))


def _parts(found: Fabric, level: int) -> list[list[int]]:
    """The positions split so that whoever is nearer than ``level`` stays together, directly or through others."""
    left = list(range(found.n))
    parts: list[list[int]] = []
    while left:
        part, waiting = {left[0]}, [left[0]]
        while waiting:
            here = waiting.pop()
            near = [there for there in left if there not in part and found.levels[here][there] < level]
            part.update(near)
            waiting += near
        parts.append([position for position in left if position in part])
        left = [position for position in left if position not in part]
    return parts


def _nearest(found: Fabric) -> _Positions:
    """From 0 always to the fastest and nearest that is left."""
    order = [0]
    left = list(range(1, found.n))
    while left:
        here = order[-1]
        order.append(min(left, key=lambda there: (-found.alone(here, there), found.levels[here][there], there)))
        left.remove(order[-1])
    return tuple(order)


def _improved(found: Fabric, order: _Positions, enough: float = math.inf) -> _Positions:
    """Better and better rings, until no move helps or the tries are used up."""
    ideal = _bound(found)
    ideal = (max(ideal[0], -enough), ideal[1])
    best, tries = score(found, order, enough), 0
    improving = best > ideal
    while improving:
        improving = False
        for other in _moves(order):
            its = score(found, other, enough)
            tries += 1
            if its < best:
                order, best = other, its
                improving = best > ideal
                break
            if tries == _MAX_TRIES:
                return order
    return order


def _moves(order: _Positions) -> Iterator[_Positions]:
    """Every ring with one piece turned round, or one piece of up to three moved elsewhere."""
    n = len(order)
    for start in range(n - 1):
        for end in range(start + 2, n + 1):
            yield (*order[:start], *order[start:end][::-1], *order[end:])
    for length in (1, 2, 3):
        for start in range(n - length + 1):
            piece, others = order[start : start + length], (*order[:start], *order[start + length :])
            for to in range(len(others)):
                if to != start:
                    yield (*others[:to], *piece, *others[to:])
