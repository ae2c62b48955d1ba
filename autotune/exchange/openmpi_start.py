"""A table whose configs carry settings of a whole job, for a job that can have only one set of them. Pure.

In:  a table, the trials behind it, a library that has such settings. Out: the settings that lose least over all sizes,
     and the table that holds under them. May not touch: how a format writes either.

Under one start, a size whose choice has another start gets the fastest config that was measured with the chosen one,
and any size the library's own choice where no other is faster under this start. In the comparison of starts no config
counts as faster than the table's choice: what seems to be was not significantly so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..table import Rule, TuningTable
from ..types import Config
from .exporter import Request
from .one_for_all import Cell, Loss, least_loss, weighted_cells
from .words import LIBRARY_CHOICE, Library, Start

_CLEARLY = 1.05
"""Such medians are of the few rounds of a race, which nothing has confirmed."""
_PROVED_ELSEWHERE = 1.03
"""The table's choice was proved against the default, whose ranks are others: it may be faster for its ranks' sake
alone, which is then true of the library's own choice among these as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderOneStart:
    """A table without settings of a job, and the settings that it holds under.

    Args:
        notes: what the choice loses; a sentence each.
    """

    table: TuningTable
    start: Start
    notes: tuple[str, ...] = ()


def under_one_start(table: TuningTable, request: Request, words: Library) -> UnderOneStart:
    """The start that loses least, weighted by the sizes that the user asked for."""
    if table.defaults.backend not in words.backends:
        return UnderOneStart(table=table, start=())
    cells = {key: weighted_cells(key, rules, table, request) for key, rules in table.rules.items()}
    every = [
        cell
        for key, own in cells.items()
        for rule, cell in zip(table.rules[key], own, strict=True)
        if rule.evidence in request.evidence
    ]
    # What no size chose was looked at in a few rounds only.
    starts = {(), *(words.start_of(cell.free) for cell in every)}
    if starts == {()}:
        return UnderOneStart(table=table, start=())

    def meaning(config: Config) -> Start | None:
        start = words.start_of(config)
        return start if start in starts else None

    found = least_loss([_at_most_the_choice(cell) for cell in every], meaning)[0]
    rules = {
        key: tuple(_under(rule, cell, found.choice, words) for rule, cell in zip(table.rules[key], own, strict=True))
        for key, own in cells.items()
    }
    return UnderOneStart(table=replace(table, rules=rules), start=found.choice, notes=_said(found, request))


def _at_most_the_choice(cell: Cell) -> Cell:
    return replace(cell, times_us={config: max(time_us, cell.free_us) for config, time_us in cell.times_us.items()})


def _under(rule: Rule, cell: Cell, start: Start, words: Library) -> Rule:
    own = Config(algorithm=LIBRARY_CHOICE, knobs=start)
    times = {config: time_us for config, time_us in cell.times_us.items() if words.start_of(config) == start}
    chosen = words.start_of(cell.free) == start
    config = cell.free if chosen else min(times, key=lambda config: (times[config], str(config)), default=own)
    least = _CLEARLY if not chosen else _PROVED_ELSEWHERE if start else 1.0
    if own in times and times[own] < least * times[config]:
        config = own
    return replace(rule, config=replace(config, knobs=tuple(knob for knob in config.knobs if knob not in start)))


def _said(found: Loss[Start], request: Request) -> tuple[str, ...]:
    settings = " ".join(f"{name}={value}" for name, value in found.choice) or "none"
    lost = (
        "" if found.loss is None else f"; {100 * found.loss:.1f} % slower on average than the best ones for each size"
    )
    said = [f"settings of the whole job, the same for every size: {settings}{lost}"]
    if found.worst is not None and found.worst[1] > 0.0:
        said.append(f"at worst {100 * found.worst[1]:.1f} %: {found.worst[0]}")
    if found.unknown:
        said.append(f"not measured under them, so left to the library: {', '.join(map(str, found.unknown))}")
    if not request.trials:
        said.append("the trials behind the table are not at hand (--db), so of each size only two configs are known")
    return tuple(said)
