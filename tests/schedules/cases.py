"""Every schedule that the registry builds, with the layouts that hierarchical ones need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autotune.kernels.schedules import Schedule, build, names
from autotune.types import Collective, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One schedule of the registry."""

    collective: Collective
    name: str
    n: int
    layout: Layout | None = None

    def build(self) -> Schedule:
        return build(self.collective, self.name, self.n, self.layout)


def cases(sizes: Iterable[int]) -> Iterator[Case]:
    """All legal (collective, name, n), the grouped ones with every layout below."""
    for n in sizes:
        for collective in Collective:
            plain = names(collective, n)
            yield from (Case(collective=collective, name=name, n=n) for name in plain)
            for layout in layouts(n):
                for name in names(collective, n, layout):
                    if name not in plain:
                        yield Case(collective=collective, name=name, n=n, layout=layout)


def layouts(n: int) -> Iterator[Layout]:
    """Groups of one; equal ones, neighbouring, interleaved or in their own order; unequal ones, some of one rank."""
    ranks = tuple(range(n))
    if n >= 2:
        yield Layout(order=ranks, groups=tuple((rank,) for rank in ranks))
    for size in range(2, n // 2 + 1):
        if n % size == 0:
            neighbours = tuple(ranks[first : first + size] for first in range(0, n, size))
            interleaved = tuple(ranks[first :: n // size] for first in range(n // size))
            yield Layout(order=ranks, groups=neighbours)
            yield Layout(order=ranks, groups=interleaved)
            yield Layout(order=ranks[::-1], groups=neighbours)
    if n >= 3:
        yield Layout(order=ranks, groups=(ranks[:1], ranks[1:]))
    if n >= 6:
        yield Layout(order=ranks[1:] + ranks[:1], groups=(ranks[:3], ranks[3:5], ranks[5:]))
