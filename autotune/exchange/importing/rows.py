"""CSV with named columns, strictly: every column known, every row as long as the header. Pure."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from .lines import Cell
from .log import LogError


def header_of(text: str) -> tuple[str, ...]:
    """The column names of a CSV text: its first line that is neither blank nor a ``#`` comment."""
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            return tuple(name.strip() for name in next(csv.reader([line])))
    return ()


def rows_of(text: str, source: str, *, required: Sequence[str], optional: Sequence[str]) -> Iterator[dict[str, Cell]]:
    """The rows as cells by column; an empty cell is left out. Comment lines start with ``#``.

    A column of a cell is the number of its field, from 1.

    Raises:
        LogError: a column that is missing, unknown or there twice; a row of another length; a quote that is not closed.
    """
    names: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            fields = next(csv.reader([line], strict=True))
        except csv.Error as err:
            raise LogError(f"{source}, line {number}: {err}", remedy="close the quote in its line") from err
        cells = [Cell(text=field.strip(), source=source, line=number, column=at) for at, field in enumerate(fields, 1)]
        if names:
            if len(cells) != len(names):
                raise LogError(
                    f"{source}, line {number}: {len(cells)} fields under a header of {len(names)}",
                    remedy="give every row a field for each column, empty where there is nothing to say",
                )
            yield {name: cell for name, cell in zip(names, cells, strict=True) if cell.text}
            continue
        names = [cell.text for cell in cells]
        for at, cell in enumerate(cells):
            if cell.text not in (*required, *optional):
                raise cell.error(f"the columns {', '.join((*required, *optional))}")
            if cell.text in names[:at]:
                raise cell.error("each column once")
        missing = [name for name in required if name not in names]
        if missing:
            raise LogError(
                f"{source}, line {number}: the column {missing[0]!r} is missing; found {', '.join(names)}",
                remedy=f"the columns that must be there: {', '.join(required)}",
            )


def needed(row: dict[str, Cell], name: str) -> Cell:
    """A cell that may not be empty.

    Raises:
        LogError: it is.
    """
    if name in row:
        return row[name]
    near = next(iter(row.values()))
    raise LogError(
        f"{near.source}, line {near.line}: the column {name!r} is empty", remedy="fill it in, or take the row out"
    )
