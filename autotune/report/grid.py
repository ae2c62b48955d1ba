"""The look of every table: columns two blanks apart, no lines, bold headings; the same as text in a file.

In:  headings and rows of cells. Out: a rich Table. Cells are shown as they are, even where they look like markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

Cell = str | Text

_GAP = 2
_NO_FOLDS: Mapping[str, int] = MappingProxyType({})


def grid(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, folds: Mapping[str, int] = _NO_FOLDS) -> Table:
    """A table.

    Args:
        headings: one a column; one that begins with ``>`` makes its column stand to the right.
        folds: columns that are broken over lines where the terminal is narrow, by heading, with their least width.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    table = _Grid(show_header=True)
    for at, heading in enumerate(headings):
        name = heading.removeprefix(">")
        width = max([len(name), *(_width(row[at]) for row in cells)])
        table.add(name, width=width, least=min(width, folds.get(name, width)), right=name != heading)
    for row in cells:
        table.add_row(*row)
    return table


def listing(rows: Iterable[tuple[Cell, Cell]], *, least: int = 40) -> Table:
    """Names and what belongs to them, without headings; the second column may be broken over lines."""
    cells = [(_text(name), _text(words)) for name, words in rows]
    table = _Grid(show_header=False)
    table.add("", width=max(_width(name) for name, _ in cells))
    table.add("", width=max(_width(words) for _, words in cells), least=least)
    for name, words in cells:
        table.add_row(name, words)
    return table


class _Grid(Table):
    """A table that leaves the screen to the right rather than drop digits: rich would cut what does not fit."""

    def __init__(self, *, show_header: bool) -> None:
        super().__init__(
            box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold", show_header=show_header
        )
        self._widths: list[tuple[int, int]] = []  # natural and least

    def add(self, name: str, *, width: int, least: int | None = None, right: bool = False) -> None:
        self.add_column(Text(name), justify="right" if right else "left", overflow="fold")
        self._widths.append((width, width if least is None else min(width, least)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = _fitted(self._widths, options.max_width - _GAP * (len(self._widths) - 1))
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        return super().__rich_console__(console, options.update(width=sum(widths) + _GAP * len(widths)))


def _fitted(widths: Sequence[tuple[int, int]], available: int) -> list[int]:
    """Natural widths, the widest that may give way being cut until all fit or nobody gives way any more."""
    found = [natural for natural, _ in widths]
    while sum(found) > available:
        giving = [at for at, (_, least) in enumerate(widths) if found[at] > least]
        if not giving:
            break
        found[max(giving, key=found.__getitem__)] -= 1
    return found


def _width(text: Text) -> int:
    return max(line.cell_len for line in text.split("\n", allow_blank=True))


def _text(cell: Cell) -> Text:
    return Text(cell) if isinstance(cell, str) else cell
