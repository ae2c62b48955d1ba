"""The best config by size and ranks: one block for each collective and type. Pure.

In:  what was decided, by problem. Out: renderables that fit a width; colours say the gain, figures say it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..distil import Verdict
from ..types import Problem, RuleKey, round_up_message
from ..units import format_bytes
from .figures import UNKNOWN, config_text, gain_text, group_text, kind_text
from .grid import Cell, grid

KEPT = "="
_GAP = 2
_LEGEND = (
    f"best config, with its segment where that cuts the message; {UNKNOWN} not measured",
    f"gain: over the default, {KEPT} where that stayed; ring: over ring/64KiB",
)
_HEADINGS = (">gain", ">ring")
_STRONG, _CLEAR = 1.5, 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """The cells of one rank count: config, gain and gain over the ring, for each size."""

    title: str
    cells: tuple[tuple[Text, Text, Text], ...]

    @property
    def width(self) -> int:
        rows = [(Text(self.title), *(Text(heading[1:]) for heading in _HEADINGS)), *self.cells]
        return sum(max(len(row[i]) for row in rows) + _GAP for i in range(3))


def heat_map(
    verdicts: Mapping[Problem, Verdict],
    *,
    keys: Sequence[RuleKey],
    sizes: Sequence[int],
    failed: Set[Problem] = frozenset(),
    width: int,
) -> Group:
    """All blocks, with lines that say how to read them.

    Args:
        keys: what was to be measured, rank counts included.
        sizes: message_bytes as planned; a cell's own size may be rounded up.
        failed: cells on which no decision was possible.
        width: of the terminal in columns; rank counts that do not fit beside each other stand below each other.
    """
    blocks: dict[RuleKey, list[RuleKey]] = {}
    for key in sorted(keys, key=lambda key: key.n_ranks):
        blocks.setdefault(replace(key, n_ranks=1, placement=(1,)), []).append(key)
    parts: list[RenderableType] = [Text(line, style="dim") for line in _LEGEND]
    for kind, of_kind in blocks.items():
        columns = [_column(key, sizes, verdicts, failed) for key in of_kind]
        parts += [Text(), Text(kind_text(kind), style="bold")]
        parts += _tables(columns, [format_bytes(size) for size in sizes], width)
    return Group(*parts)


def _column(key: RuleKey, sizes: Sequence[int], verdicts: Mapping[Problem, Verdict], failed: Set[Problem]) -> _Column:
    cells = []
    for size in sizes:
        itemsize = key.dtype.itemsize if key.dtype else 1
        problem = Problem(key=key, message_bytes=round_up_message(key.collective, size, key.n_ranks, itemsize))
        verdict = verdicts.get(problem)
        if verdict is not None:
            cells.append(_cell(verdict))
        else:
            word = Text("failed", style="bold red") if problem in failed else Text(UNKNOWN, style="dim")
            cells.append((word, Text(), Text()))
    return _Column(title=group_text(key), cells=tuple(cells))


def _cell(verdict: Verdict) -> tuple[Text, Text, Text]:
    gain = None if verdict.is_default or verdict.gain is None else verdict.gain.median
    style = _style(gain)
    ring = "" if verdict.reference_gain is None else gain_text(verdict.reference_gain.median)
    config = config_text(verdict.config, verdict.problem.message_bytes)
    return Text(config, style=style), Text(KEPT if gain is None else gain_text(gain), style=style), Text(ring)


def _style(gain: float | None) -> str:
    if gain is None:
        return "dim"
    return "bold black on green" if gain >= _STRONG else "bold green" if gain >= _CLEAR else "green"


def _tables(columns: Sequence[_Column], sizes: Sequence[str], width: int) -> Iterator[Table]:
    """As many rank counts beside each other as fit; at least one."""
    first_width = max(len("size"), *(len(size) for size in sizes)) + _GAP
    waiting = list(columns)
    while waiting:
        taken = [waiting.pop(0)]
        while waiting and first_width + sum(column.width for column in (*taken, waiting[0])) <= width + _GAP:
            taken.append(waiting.pop(0))
        headings = [">size", *(heading for column in taken for heading in (column.title, *_HEADINGS))]
        rows: list[list[Cell]] = [
            [size, *(c for column in taken for c in column.cells[i])] for i, size in enumerate(sizes)
        ]
        yield grid(headings, rows)
