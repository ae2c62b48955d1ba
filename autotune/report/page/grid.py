"""The cells of a kind as a heat map: rows of sizes, columns of rank counts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ...types import RuleKey
from ...units import format_bytes
from ..figures import UNKNOWN, config_text, gain_text, ranks_text
from .cells import Cell, Kind, cell_at, rounded_size, row_sizes
from .words import Card, Kept, card, kept, kind_title

_STEPS = (1.1, 1.25, 1.5, 2.0)
"""Gains from which a cell is a shade darker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """A cell as it is drawn; the shade says the gain once more, never alone.

    Args:
        name: unique on the page.
        look: ``won``, ``kept``, ``failed`` or ``none``.
        shade: 1 to 5 where it won, else 0.
        algorithm: of the chosen config.
        rest: of that config: segment, codec, knobs.
        gain: in words.
        aside: what is not as in most cells: that its size was not measured; empty otherwise.
        card: None where there is nothing to say.
    """

    name: str
    look: str
    shade: int
    algorithm: str
    rest: str
    gain: str
    aside: str
    card: Card | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """One kind."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Square, ...]], ...]
    kept: tuple[Kept, ...]


LEGEND = (
    (1, f"up to {gain_text(_STEPS[0])}"),
    *((i + 2, f"from {gain_text(step)}") for i, step in enumerate(_STEPS)),
)
"""Shades with their words."""


def heat_map(kind: Kind, number: int) -> HeatMap:
    """A kind; `number` tells the kinds of a page apart."""
    rows = []
    for i, size in enumerate(row_sizes(kind)):
        squares = (_square(cell_at(c, size), size, f"cell-{number}-{i}-{j}") for j, c in enumerate(kind.columns))
        rows.append((format_bytes(size), tuple(squares)))
    return HeatMap(
        name=f"kind-{number}",
        title=kind_title(kind),
        columns=tuple(column_title(column.key) for column in kind.columns),
        rows=tuple(rows),
        kept=kept(kind),
    )


def column_title(key: RuleKey) -> str:
    """``8 ranks``, or ``8 ranks as 4+4`` on several hosts."""
    hosts = f" as {'+'.join(map(str, key.placement))}" if len(key.placement) > 1 else ""
    return ranks_text(key.n_ranks) + hosts


def _square(cell: Cell | None, size: int, name: str) -> Square:
    if cell is None:
        return Square(
            name=name, look="none", shade=0, algorithm=UNKNOWN, rest="", gain="not measured", aside="", card=None
        )
    if cell.rule is None:
        return Square(
            name=name,
            look="failed",
            shade=0,
            algorithm="failed",
            rest="",
            gain="no decision",
            aside="",
            card=card(cell),
        )
    rule = cell.rule
    algorithm, _, rest = config_text(rule.config, cell.message_bytes).partition("/")
    is_here = cell.message_bytes in (size, rounded_size(size, cell.key))
    changed = rule.evidence.value if rule.gain is None else gain_text(rule.gain)
    return Square(
        name=name,
        look="kept" if rule.is_default else "won",
        shade=1 + sum(rule.gain >= step for step in _STEPS) if rule.gain is not None else 0,
        algorithm=algorithm,
        rest=rest,
        gain="= default" if rule.is_default else changed,
        aside="" if is_here else f"measured at {format_bytes(cell.message_bytes)}",
        card=card(cell),
    )
