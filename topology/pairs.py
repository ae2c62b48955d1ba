"""Which pairs of CPUs to measure: enough to see every class of distance, not every pair. Pure and deterministic."""

from __future__ import annotations

from dataclasses import dataclass

from .devices import Cpu, DeviceId
from .graph import Distance, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPair:
    """Two CPUs that ranks may be pinned to, and the class that they stand for; ``str(distance)`` names it."""

    a: Cpu
    b: Cpu
    distance: Distance


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


def pinning_order(topology: Topology) -> tuple[int, ...]:
    """Numbers of the CPUs that ranks are pinned to, in order: one of each core first, then their siblings."""
    order: list[tuple[int, int]] = []
    threads: dict[DeviceId | None, int] = {}
    for cpu in sorted(topology.allowed_cpus, key=lambda cpu: cpu.number):
        order.append((threads.setdefault(cpu.parent, 0), cpu.number))
        threads[cpu.parent] += 1
    return tuple(number for _, number in sorted(order))
