"""The algorithms of the registry with steps, bytes on the wire and limits, as formulas or for n ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..kernels.schedules.catalogue import Row, rows
from ..kernels.schedules.registry import ALGORITHMS, cost_figures
from ..types import Collective
from .figures import ranks_text
from .grid import Cell, grid, listing

_FOLDS = {"algorithm": 28, "bytes on the wire": 12, "legal n": 12}

_LEGEND = (
    "bytes on the wire: of the busiest rank, in units of message_bytes; formulas are exact from n = 4 on",
    "p: the largest power of two up to n; f: 1 where n is not one, else 0; b: the binary ones in 1 ... n - 1 together",
    "n = Gg ranks stand in G groups of g",
)


def algorithms_view(collectives: Sequence[Collective], n_ranks: int | None) -> RenderableType:
    """All algorithms that carry out one of the collectives, first in a line each, then by cost."""
    named = [a for a in ALGORITHMS if set(a.collectives) & set(collectives)]
    summaries = listing((a.name, a.summary) for a in named)
    if n_ranks is None:
        return Group(summaries, Text(), _formulas(collectives), Text(), *(Text(line, style="dim") for line in _LEGEND))
    figures = [
        (name, collective.value, str(steps), f"{wire:.4g}")
        for name, collective, steps, wire in _costs(collectives, n_ranks)
    ]
    table = grid(("algorithm", "collective", ">steps", ">bytes on the wire"), figures)
    legend = f"{ranks_text(n_ranks)}; bytes on the wire: of the busiest rank, in units of message_bytes"
    return Group(summaries, Text(), table, Text(), Text(legend, style="dim"))


def algorithms_document(collectives: Sequence[Collective], n_ranks: int | None) -> dict[str, Any]:
    """The same for programs; ``costs`` holds formulas, or figures where a number of ranks is given."""
    named = [a for a in ALGORITHMS if set(a.collectives) & set(collectives)]
    costs: list[dict[str, Any]]
    if n_ranks is None:
        costs = [
            {
                "algorithm": row.name,
                "collective": collective.value,
                "steps": row.steps,
                "bytes_on_wire_per_message_byte": row.bytes_on_wire,
                "legal_n_ranks": row.limits,
            }
            for row in rows()
            for collective in _of(row, collectives)
        ]
    else:
        costs = [
            {
                "algorithm": name,
                "collective": collective.value,
                "steps": steps,
                "bytes_on_wire_per_message_byte": wire,
            }
            for name, collective, steps, wire in _costs(collectives, n_ranks)
        ]
    listed = [
        {
            "name": a.name,
            "summary": a.summary,
            "source": a.source,
            "collectives": [collective.value for collective in a.collectives],
        }
        for a in named
    ]
    return {"n_ranks": n_ranks, "algorithms": listed, "costs": costs}


def _formulas(collectives: Sequence[Collective]) -> RenderableType:
    """A line for each algorithm, and below it one for each cost."""
    cells: list[tuple[Cell, ...]] = []
    for name, costs in groupby(rows(), key=lambda row: row.name):
        lines = [(", ".join(c.value for c in of_row), row) for row in costs if (of_row := _of(row, collectives))]
        if lines:
            gap = [("",) * 4] if cells else []
            cells += [*gap, (Text(name, style="bold"), "", "", "")]
            cells += [(words, row.steps, row.bytes_on_wire, row.limits) for words, row in lines]
    return grid(("algorithm", "steps", "bytes on the wire", "legal n"), cells, folds=_FOLDS)


def _of(row: Row, collectives: Sequence[Collective]) -> tuple[Collective, ...]:
    return tuple(collective for collective in row.collectives if collective in collectives)


def _costs(collectives: Sequence[Collective], n_ranks: int) -> Iterator[tuple[str, Collective, int, float]]:
    """(name, collective, steps, bytes on the wire over message_bytes) of what is legal without groups."""
    for algorithm in ALGORITHMS:
        for collective in collectives:
            if algorithm.objection(collective, n_ranks, ()) is None:
                steps, wire = cost_figures(collective, algorithm.name, n_ranks)
                yield algorithm.name, collective, steps, float(wire)
