"""How far the devices of a group are from each other, and which limits their messages share. Pure.

In: a topology and what the ranks sit on. Out: ``Fabric``, plain numbers by position, which ``orders`` searches. It says
the same on every rank: it depends on the devices and figures, not on the order in which they are listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .devices import Cpu, Device, DeviceId
from .graph import Topology
from .links import SharedResource
from .routes import Route, Routes

_Near = tuple[int, int, int]
_SAME: _Near = (-1, 0, 0)  # two ranks on one device
_NOWHERE: _Near = (1 << 30, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """All pairs of some positions.

    Args:
        levels: ``levels[i][j]``, how far j is from i: 0 is the nearest class of pairs, then 1 and so on.
        uses: ``uses[i][j]``, which limits a message from i to j takes a share of.
        limits: GB/s (1e9 bytes per second) of each limit; empty where the figures of some pair are not known, since
            half of the figures would make the unknown look fast.
    """

    levels: tuple[tuple[int, ...], ...]
    uses: tuple[tuple[tuple[int, ...], ...], ...]
    limits: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.levels)

    def alone(self, i: int, j: int) -> float:
        """GB/s of a message from i to j with nothing else on the way; infinite where it is not known."""
        return min((self.limits[limit] for limit in self.uses[i][j]), default=math.inf)

    def part(self, positions: Sequence[int]) -> Fabric:
        """The pairs of some positions, with limits numbered as they are met, so that equal parts are equal values."""
        numbers: dict[int, int] = {}
        uses = tuple(
            tuple(tuple(numbers.setdefault(limit, len(numbers)) for limit in self.uses[i][j]) for j in positions)
            for i in positions
        )
        return Fabric(
            levels=tuple(tuple(self.levels[i][j] for j in positions) for i in positions),
            uses=uses,
            limits=tuple(self.limits[limit] for limit in numbers),
        )


def fabric(topology: Topology, devices: Sequence[Device]) -> Fabric:
    """The fabric between what the ranks sit on, position by position.

    Raises:
        KeyError: a device that is not in the topology.
    """
    routes = Routes(topology)
    limits = _Limits(topology)
    near: list[list[_Near]] = []
    uses: list[list[tuple[int, ...]]] = []
    known = True
    for a in devices:
        near.append([])
        uses.append([])
        for b in devices:
            if a.id == b.id:
                near[-1].append(_SAME)
                uses[-1].append(())
                continue
            if isinstance(a, Cpu) and isinstance(b, Cpu) and topology.host_of(a.id) == topology.host_of(b.id):
                near[-1].append((0, *topology.distance(a, b).order))
                uses[-1].append(limits.between_cpus(a, b))
            else:
                route = routes.between(a.id, b.id)
                near[-1].append(_NOWHERE if route is None else (route.reach, -_bonds(route), 0))
                uses[-1].append(() if route is None else limits.on(route))
            known = known and bool(uses[-1][-1])
    rank = {value: index for index, value in enumerate(sorted({value for row in near for value in row} - {_SAME}))}
    return Fabric(
        levels=tuple(tuple(rank.get(value, 0) for value in row) for row in near),
        uses=tuple(tuple(row if known else () for row in line) for line in uses),
        limits=tuple(limits.figures) if known else (),
    )


def _bonds(route: Route) -> int:
    """Of two ways of one class, the one of more bonded links counts as nearer."""
    return min((link.n_bonded or 1 for link in route.links), default=1)


class _Limits:
    """Numbers the limits that messages meet."""

    def __init__(self, topology: Topology) -> None:
        self.figures: list[float] = []
        self._topology = topology
        self._numbers: dict[object, int] = {}
        self._receivers: dict[str, frozenset[DeviceId]] = {}
        self._sent_by: dict[DeviceId, list[SharedResource]] = {}
        for resource in topology.shared:
            self._receivers[resource.name] = frozenset(resource.receivers)
            for sender in resource.senders:
                self._sent_by.setdefault(sender, []).append(resource)
        self._classes: dict[object, float | None] = {}

    def on(self, route: Route) -> tuple[int, ...]:
        """The limits that a route meets: of its links, and shared ones between any two devices next to each other."""
        found = [
            self._number(link, link.bandwidth_gb_per_s) for link in route.links if link.bandwidth_gb_per_s is not None
        ]
        for hop in pairwise(route.devices):
            found += self._shared(*hop)
        return tuple(dict.fromkeys(found))

    def between_cpus(self, a: Cpu, b: Cpu) -> tuple[int, ...]:
        """The limit of a pair of CPUs: the figure of its class, so that a class is not split by noise."""
        distance = self._topology.distance(a, b)
        if distance not in self._classes:
            self._classes[distance] = self._topology.class_bandwidth(distance)
        figure = self._classes[distance]
        if figure is None:
            return ()
        return (self._number((a.id, b.id), figure), *self._shared(a.id, b.id))

    def _shared(self, src: DeviceId, dst: DeviceId) -> Iterator[int]:
        for resource in self._sent_by.get(src, ()):
            if dst in self._receivers[resource.name]:
                yield self._number(resource.name, resource.bandwidth_gb_per_s)

    def _number(self, key: object, figure: float) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.figures)
            self.figures.append(figure)
        return self._numbers[key]
