"""What is said of one algorithm: its name, its source, and where it is legal.

In:  what makes its schedules, by collective. Out: its limits, and why it is not legal somewhere.
May not touch: any schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...types import Collective
from .hierarchical import Groups
from .ir import Schedule

DENSE_LIMIT = 1024
"""Positions up to which a schedule with about n * n stored transfers is made; none of these is a candidate above."""

Builder = Callable[[int], Schedule]
GroupedBuilder = Callable[[Groups], Schedule]


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One name for one idea, carried out for every collective where it makes sense.

    Args:
        summary: one line.
        source: author, year, title or place in it.
        plain: makes the schedule from the number of positions.
        grouped: the same, from groups of positions; an algorithm has one or the other.
        dense: collectives for which it is legal up to DENSE_LIMIT positions.
        equal_groups: collectives for which it needs groups of equal size.
        groups_of_one: whether it is something of its own where every group has one position.
    """

    name: str
    summary: str
    source: str
    plain: Mapping[Collective, Builder] = field(default_factory=dict)
    grouped: Mapping[Collective, GroupedBuilder] = field(default_factory=dict)
    dense: frozenset[Collective] = frozenset()
    equal_groups: frozenset[Collective] = frozenset()
    groups_of_one: bool = False

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """In the order of the enum."""
        return tuple(c for c in Collective if c in self.plain or c in self.grouped)

    def limits(self, collective: Collective) -> str:
        """Where it is legal, for people."""
        size = f"1 to {DENSE_LIMIT}" if collective in self.dense else "any"
        if collective not in self.grouped:
            return size
        groups = "equal groups" if collective in self.equal_groups else "groups"
        return f"two or more {groups}" + (f", {size}" if size != "any" else "")

    def objection(self, collective: Collective, n: int, groups: Groups) -> str | None:
        """Why it is not legal; None if it is."""
        if collective not in self.collectives:
            return f"it does not do {collective.value}"
        if collective in self.dense and n > DENSE_LIMIT:
            return f"it has about n * n transfers and stops at {DENSE_LIMIT} ranks"
        if collective not in self.grouped:
            return None
        sizes = [len(group) for group in groups]
        if len(groups) < 2 or (max(sizes) < 2 and not self.groups_of_one):
            sizes_needed = "" if self.groups_of_one else ", one of them of two or more"
            return f"it needs two or more groups of ranks{sizes_needed}"
        if collective in self.equal_groups and len(set(sizes)) > 1:
            return f"it needs groups of equal size, and these have {', '.join(map(str, sizes))} ranks"
        return None
