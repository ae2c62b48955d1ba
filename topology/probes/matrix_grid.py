"""A table whose rows and columns are named after the same devices: which words stand in which row. Pure.

In: lines. Out: a ``Grid``, with each word in its place, or an error with line and column. What the words mean is not
known here: ``relation_matrix`` reads relations from them, ``rocm_smi`` weights, hops and kinds of links.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import ProbeError
from .pasted import Line, Word, listed, unreadable

_ACCELERATOR = re.compile(r"(?:NPU|Phy-ID|GPU)[0-9]{1,5}")
_NAME = re.compile(r"(?:NPU|Phy-ID|GPU|NIC)[0-9]{1,5}|[a-z][a-z0-9_.-]*[0-9][a-z0-9_.-]*")
# A device's name with something glued before it, as when a line break was lost.
_GLUED = re.compile(r"\w(?:NPU|Phy-ID|GPU)[0-9]")
# What a row consists of, after its name: one that was broken in two leaves a line of nothing else.
_PIECE = re.compile(
    r"X|SIO|HCCS(?:_SW)?|UB|NV[0-9]{1,3}|PIX|PSB|PXB|PHB|NODE|SYS|SOC|XGMI|PCIE|NA|N/A|[0-9]{1,5}(?:[-,][0-9]{1,5})*"
)
_LEGEND = re.compile(r"\s*\S+\s*(?:=|:(?:\s|\Z))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The words of a table, in place.

    Args:
        columns: names of devices, in the order of the header.
        rows: by name of the device, one word for each of ``columns``.
        beside_columns: the names of the columns beside the table that the header has.
        beside: by row, the words in those columns; an empty cell is not in it.
    """

    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Word, ...]]
    beside_columns: tuple[str, ...]
    beside: Mapping[str, Mapping[str, Word]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    names: tuple[str, ...]
    beside: tuple[str, ...]
    tabs: bool


def read_grid(command: str, lines: Sequence[Line], beside: Sequence[str] = ()) -> Grid | None:
    """The one table among these lines; None where no line belongs to a table.

    Args:
        beside: names of the columns that may stand beside the table, such as ``"CPU Affinity"``.

    Raises:
        ProbeError: two headers, a row that stands twice, is cut, glued or broken in two, or has no column.
    """
    header: _Header | None = None
    others: list[Line] = []
    for line in lines:
        found = _header(line, beside)
        if found is None:
            others.append(line)
        elif header is None:
            header = found
            _check_header(command, line, found)
        else:
            raise unreadable(command, line.words[0], "one header line, and this is a second one")
    names = () if header is None else header.names
    row_lines: list[Line] = []
    for line in others:
        first = line.words[0].text
        if first in names or is_accelerator(first):
            row_lines.append(line)
        else:
            _check_outside(command, line)
    if header is None and not row_lines:
        return None
    if header is None:
        header = _header_from_rows(command, row_lines)
    rows: dict[str, tuple[Word, ...]] = {}
    besides: dict[str, Mapping[str, Word]] = {}
    for line in row_lines:
        name, cells, its_beside = _row(command, line, header)
        if name.text in rows:
            raise unreadable(command, name, f"each row once, and {name.text} stands here again")
        rows[name.text], besides[name.text] = cells, its_beside
    return Grid(columns=header.names, rows=rows, beside_columns=header.beside, beside=besides)


def is_accelerator(name: str) -> bool:
    """Whether a row or column of this name is an NPU or a GPU; others are network interfaces."""
    return _ACCELERATOR.fullmatch(name) is not None


def _header(line: Line, beside: Sequence[str]) -> _Header | None:
    """The header that this line is: names of devices, then names of columns beside the table, and nothing else."""
    text = line.text
    found: list[tuple[int, str]] = []
    for title in beside:
        match = re.search(rf"(?<!\S){re.escape(title)}(?!\S)", text)
        if match is not None:
            found.append((match.start(), title))
            text = f"{text[: match.start()]}{' ' * len(title)}{text[match.end() :]}"
    names = text.split()
    if not names or not all(_NAME.fullmatch(name) for name in names):
        return None
    if not any(map(is_accelerator, names)):
        return None
    last_name = max(match.end() for match in re.finditer(r"\S+", text))
    titles = tuple(title for start, title in sorted(found) if start >= last_name)
    if len(titles) != len(found):
        return None
    cells = [cell.text for cell in line.cells("\t") if cell.text]
    return _Header(names=tuple(names), beside=titles, tabs="\t" in line.text and cells == [*names, *titles])


def _check_header(command: str, line: Line, header: _Header) -> None:
    seen: set[str] = set()
    for word in line.words[: len(header.names)]:
        if word.text in seen:
            raise unreadable(command, word, f"each device once, and {word.text} has a column already")
        seen.add(word.text)


def _header_from_rows(command: str, row_lines: Sequence[Line]) -> _Header:
    """Rows without a header name their own columns, when the n-th of n rows has its X in the n-th of n cells."""
    names = tuple(line.words[0].text for line in row_lines)
    for index, line in enumerate(row_lines):
        cells = line.words[1:]
        if len(cells) != len(names) or [at for at, cell in enumerate(cells) if cell.text == "X"] != [index]:
            raise ProbeError(
                f"{command}, line {line.number}: the header line, which names the columns, is not there, and with "
                f"{len(names)} rows and {len(cells)} cells in this one the columns cannot be told from the rows",
                remedy=f"paste the whole output, with the line that names the devices: {command} > FILE",
            )
    return _Header(names=names, beside=(), tabs=False)


def _check_outside(command: str, line: Line) -> None:
    """Legends and prompts may stand around a table; a piece of it that came loose may not."""
    if _LEGEND.match(line.text):
        return
    words = line.words
    for word in words:
        if is_accelerator(word.text) or _GLUED.search(word.text):
            raise unreadable(command, word, "a header line or a row, and this line is neither")
    cells = words[1:] if _NAME.fullmatch(words[0].text) else words
    if cells and all(_PIECE.fullmatch(word.text) for word in cells):
        raise unreadable(command, words[0], "a row that starts with the name of a device in the header")


def _row(command: str, line: Line, header: _Header) -> tuple[Word, tuple[Word, ...], Mapping[str, Word]]:
    """(the row's name, a word for each column, the words beside the table by the names of their columns)."""
    tabbed = header.tabs and "\t" in line.text
    name, *cells = line.cells("\t") if tabbed else line.words
    if name.text == "" and cells:
        name, *cells = cells
    if name.text not in header.names:
        raise unreadable(command, name, f"a device that has a column: {listed(header.names)}")
    n_columns = len(header.names)
    loose = cells[n_columns:]
    if tabbed:
        while loose and not loose[-1].text:
            loose.pop()
        # nvidia-smi prints one more tab before the last of these columns than its header has.
        if len(loose) == len(header.beside) + 1 and not loose[-2].text:
            del loose[-2]
    counted = cells[:n_columns]
    n_cells = len([cell for cell in counted if cell.text])
    fits = len(loose) <= len(header.beside) if tabbed else len(loose) in (0, len(header.beside))
    if n_cells != n_columns or not fits:
        beside = f" and {len(header.beside)} beside them" if header.beside else ""
        got = Word(text=f"{n_cells} cells, {len(loose)} beside them", line=name.line, column=name.column)
        raise unreadable(command, got, f"{n_columns} cells{beside} in the row of {name.text}, as in the header")
    its_beside = {title: word for title, word in zip(header.beside, loose, strict=False) if word.text}
    return name, tuple(counted), its_beside
