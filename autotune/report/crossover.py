"""From which number of rows on fusing a product with its collective pays: for people, and as plain values.

In:  crossovers (autotune/table/tiles.py). Out: a table. May not touch: how they were measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..table.tiles import Crossover, Tiling


def crossover_view(found: Sequence[Crossover]) -> RenderableType:
    """One table for each set of calls that differ in rows only, with a sentence under it."""
    parts: list[RenderableType] = []
    for one in found:
        product = f"x (m, {one.shape.k}) @ w ({one.shape.k}, {one.shape.p})"
        table = Table(title=f"{_what(one)}; {product}", title_justify="left")
        for name in ("m", "unfused us", "collective us", "best", "gain", "hides", "choice"):
            table.add_column(name, justify="right")
        for rows, tiling in zip(one.rows, one.tilings, strict=True):
            table.add_row(
                str(rows),
                f"{tiling.unfused_us:.1f}",
                f"{tiling.collective_us:.1f}",
                tiling.best,
                f"{tiling.gain:.3f} ({tiling.gain_low:.3f} to {tiling.gain_high:.3f})",
                f"{tiling.hidden:.0%}",
                choice(tiling),
            )
        parts += [table, Text(sentence(one))]
    return Group(*parts)


def crossover_document(found: Sequence[Crossover]) -> list[dict[str, Any]]:
    """For ``--json``."""
    return [
        {
            "call": one.shape.fusion.value,
            "k": one.shape.k,
            "p": one.shape.p,
            "dtype": one.shape.dtype,
            "placement": list(one.shape.placement),
            "pays_from_m": one.pays_from,
            "measured": [
                {
                    "m": rows,
                    "choice": choice(tiling),
                    "best": tiling.best,
                    "gain": tiling.gain,
                    "gain_low": tiling.gain_low,
                    "gain_high": tiling.gain_high,
                    "hidden": tiling.hidden,
                }
                for rows, tiling in zip(one.rows, one.tilings, strict=True)
            ],
        }
        for one in found
    ]


def choice(tiling: Tiling) -> str:
    """What a call of the shape does."""
    return tiling.best if tiling.fused else "unfused"


def sentence(one: Crossover) -> str:
    """At which size it starts to pay."""
    measured = ", ".join(map(str, one.rows))
    if one.pays_from is None:
        return f"Fusing does not pay up to m = {one.rows[-1]} (measured: {measured})."
    start = "already at" if one.pays_from == one.rows[0] else "from"
    return f"Fusing pays {start} m = {one.pays_from} on (measured: {measured})."


def _what(one: Crossover) -> str:
    hosts = " + ".join(map(str, one.shape.placement))
    ranks = f"{hosts} ranks" if len(one.shape.placement) == 1 else f"{hosts} ranks on {len(one.shape.placement)} hosts"
    return f"{one.shape.fusion.value}, {one.shape.dtype}, {ranks}"
