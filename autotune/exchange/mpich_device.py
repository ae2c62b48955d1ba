"""Which collectives of MPICH are worth rules, since rules turn off what its device has for shared memory. Pure.

In:  a table of the backend mpich, the trials behind it. Out: the table without the collectives that would lose by
     rules, and with an algorithm for every size of the others. May not touch: how a tree is written.

After a few calls MPICH's device takes over a collective, and never looks into the tree; so rules need it off, for all
sizes and rank counts of the collective. Where the table keeps MPICH's own choice, which is the device's, the fastest of
the measured algorithms takes its place, and a collective that is clearly slower somewhere by that is left to MPICH.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from ..table import Rule, TuningTable
from ..types import Collective, RuleKey
from .exporter import Request
from .one_for_all import Cell, weighted_cells
from .words import LIBRARY_CHOICE, Library

_CLEARLY = 1.1
"""Such medians are of the few rounds of a race."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutDevice:
    """A table whose rules hold with the device's algorithms off.

    Args:
        notes: what is left to MPICH, and what the others lose; a sentence each.
    """

    table: TuningTable
    notes: tuple[str, ...] = ()


def without_device(table: TuningTable, request: Request, words: Library) -> WithoutDevice:
    """The rules that are worth the device's algorithms; other tables than MPICH's own tell nothing of these."""
    if table.defaults.backend not in words.backends:
        return WithoutDevice(table=table)
    by_collective: defaultdict[Collective, list[RuleKey]] = defaultdict(list)
    for key in table.rules:
        by_collective[key.collective].append(key)
    rules: dict[RuleKey, tuple[Rule, ...]] = {}
    notes: list[str] = []
    for collective, keys in by_collective.items():
        cells = {key: weighted_cells(key, table.rules[key], table, request) for key in keys}
        every = [
            cell
            for key, own in cells.items()
            for rule, cell in zip(table.rules[key], own, strict=True)
            if rule.evidence in request.evidence
        ]
        if all(cell.free.algorithm == LIBRARY_CHOICE for cell in every):
            continue
        ratio, worst = max(((_over_device(cell) or 0.0, cell) for cell in every), key=lambda pair: pair[0])
        if ratio > _CLEARLY:
            notes.append(
                f"{collective.value} is left to MPICH: rules turn its device's algorithms off, and without them "
                f"{worst} takes {ratio:.2g} times as long at best"
            )
            continue
        for key, own in cells.items():
            rules[key] = tuple(_host(rule, cell) for rule, cell in zip(table.rules[key], own, strict=True))
    return WithoutDevice(table=replace(table, rules=rules), notes=tuple(notes))


def _over_device(cell: Cell) -> float | None:
    """The time without the device's algorithms over that with them; None where one is not known, or does not count."""
    own = [us for config, us in cell.times_us.items() if config.algorithm == LIBRARY_CHOICE]
    others = [us for config, us in cell.times_us.items() if config.algorithm != LIBRARY_CHOICE]
    return min(others) / min(own) if own and others and cell.weight > 0.0 else None


def _host(rule: Rule, cell: Cell) -> Rule:
    others = [config for config in cell.times_us if config.algorithm != LIBRARY_CHOICE]
    if rule.config.algorithm != LIBRARY_CHOICE or not others:
        return rule
    return replace(rule, config=min(others, key=lambda config: (cell.times_us[config], str(config))))
