"""The table of ``npu-smi info``: two lines a chip, in the shapes that its versions draw. Pure.

In: lines. Out: ``InfoRow``s, one a chip. The shapes: ``Chip`` alone (910A, 910B), ``Chip Phy-ID`` (A3: two dies a card)
or ``Chip Device`` (310P: several chips a card, one bus id); with or without huge pages and HBM; any widths. The table
of processes below is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .pasted import Line, Word, unreadable, whole

INFO = "npu-smi info"

_MIB = 1 << 20
_USAGE = re.compile(r"(?<!\S)([0-9]{1,12}|NA|-)\s*/\s*([0-9]{1,12}|NA|-)(?!\S)")
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_UNKNOWN = ("NA", "N/A", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoRow:
    """What the table says of one chip.

    Args:
        npu_id: the first number of its first line: the card.
        chip_id: the first number of its second line, counted within the card.
        phy_id: under ``Phy-ID``; None where the table has no such column.
        logic_id: under ``Device``; None where the table has no such column.
        memory_bytes: of its HBM, or of its DDR where it has no HBM; None where the tool does not tell.
    """

    npu_id: int
    chip_id: int
    phy_id: int | None
    logic_id: int | None
    name: str
    health: str
    bus_id: str | None
    memory_bytes: int | None


def read_info(lines: Sequence[Line]) -> list[InfoRow]:
    """The chips in the table, in its order; empty where there is no table.

    Raises:
        ProbeError: a line of the table that is cut, wrapped or in the wrong place, or a value that cannot be read.
    """
    rows: list[InfoRow] = []
    seen: set[tuple[int, int]] = set()
    second_title: list[Word] | None = None
    first: list[Word] | None = None
    in_processes = False
    for cells in _table_lines(lines):
        title = cells[0].text.replace(" ID", "").split()
        if title == ["NPU", "Name"] or title == ["NPU", "Chip"] or title == ["NPU"]:
            in_processes = title != ["NPU", "Name"]
            _expect_no_half(first)
            second_title = None
        elif in_processes:
            if len(cells) == 3:
                raise unreadable(INFO, cells[0], "4 cells, as in the table of processes above this line")
        elif title[:1] == ["Chip"]:
            _expect_no_half(first)
            _check_title(cells, title)
            second_title = cells
        elif second_title is None:
            raise unreadable(INFO, cells[0], "the titles 'NPU Name' and 'Chip' above the first chip")
        elif first is None:
            first = _first_line(cells)
        else:
            row = _row(second_title, first, cells)
            if (row.npu_id, row.chip_id) in seen:
                raise unreadable(INFO, first[0], f"NPU {row.npu_id} chip {row.chip_id} once, and it stands here again")
            seen.add((row.npu_id, row.chip_id))
            rows.append(row)
            first = None
    _expect_no_half(first)
    return rows


def _table_lines(lines: Sequence[Line]) -> Iterator[list[Word]]:
    """The cells of each line that is drawn between bars, without the line that names the version."""
    for line in lines:
        text = line.text.strip()
        if "|" not in text:
            continue
        word = Word(text=text, line=line.number, column=line.text.index(text[0]) + 1)
        if not (text.startswith("|") and text.endswith("|") and len(text) > 1):
            raise unreadable(INFO, word, "a table line that starts and ends with |; was it cut or wrapped?")
        cells = line.cells("|")[1:-1]
        if len(cells) == 1 and (cells[0].text.startswith("npu-smi ") or cells[0].text.startswith("No running process")):
            continue
        if len(cells) not in (3, 4):
            raise unreadable(INFO, word, "a table line of 3 cells (chips) or 4 cells (processes)")
        yield cells


def _expect_no_half(first: list[Word] | None) -> None:
    if first is not None:
        raise unreadable(INFO, first[0], "two lines for each chip, and the second one is not there")


def _check_title(cells: list[Word], title: list[str]) -> None:
    if title not in (["Chip"], ["Chip", "Phy-ID"], ["Chip", "Device"]) or cells[1].text != "Bus-Id":
        raise unreadable(INFO, cells[0], "the titles 'Chip', 'Chip Phy-ID' or 'Chip Device', and 'Bus-Id'")
    if not _usage_titles(cells):
        raise unreadable(INFO, cells[2], "the title 'Memory-Usage(MB)' or 'HBM-Usage(MB)'")


def _usage_titles(cells: list[Word]) -> list[str]:
    return [title for title in cells[2].text.split() if title.endswith("-Usage(MB)")]


def _first_line(cells: list[Word]) -> list[Word]:
    """``| 0     910B3 | OK | 101.8  43  0 / 0 |``."""
    if len(cells) != 3 or not re.fullmatch(r"[0-9]{1,5}\s+[A-Za-z0-9].*[A-Za-z].*", cells[0].text):
        raise unreadable(INFO, cells[0], "the number and the name of an NPU, such as '0 910B3'")
    if not cells[1].text:
        raise unreadable(INFO, cells[1], "a health, such as 'OK'")
    return cells


def _row(title: list[Word], first: list[Word], second: list[Word]) -> InfoRow:
    """Both lines of a chip; the second is ``| 0  0 | 0000:C1:00.0 | 0   0 / 0   3318 / 65536 |``."""
    kind = title[0].text.split()[-1]
    numbers = second[0].text.split()
    expected = "a chip's number" + ("" if kind == "Chip" else f" and its {kind}")
    if len(second) != 3 or len(numbers) != (1 if kind == "Chip" else 2):
        raise unreadable(INFO, second[0], expected)
    for number in numbers:
        if not re.fullmatch(r"[0-9]{1,5}", number):
            raise unreadable(INFO, second[0], expected)
    bus_id = second[1]
    if not _BUS_ID.fullmatch(bus_id.text) and bus_id.text not in _UNKNOWN:
        raise unreadable(INFO, bus_id, "a bus id such as 0000:C1:00.0")
    npu_id, name = first[0].text.split(None, 1)
    return InfoRow(
        npu_id=whole(INFO, Word(text=npu_id, line=first[0].line, column=first[0].column), "an NPU's number"),
        chip_id=int(numbers[0]),
        phy_id=int(numbers[1]) if kind == "Phy-ID" else None,
        logic_id=int(numbers[1]) if kind == "Device" else None,
        name=" ".join(name.split()),
        health=first[1].text,
        bus_id=None if bus_id.text in _UNKNOWN else bus_id.text.upper(),
        memory_bytes=_memory_bytes(title, second[2]),
    )


def _memory_bytes(title: list[Word], cell: Word) -> int | None:
    """The total of HBM, or of DDR where there is no HBM, from cells such as ``0   303 / 15171   0 / 32768``."""
    titles = _usage_titles(title)
    totals = [match[2] for match in _USAGE.finditer(cell.text)]
    if len(totals) != len(titles):
        raise unreadable(INFO, cell, f"used and total for each of {', '.join(titles)}")
    told = dict(zip(titles, totals, strict=True))
    for name in ("HBM-Usage(MB)", *titles):
        if told.get(name, "0").isdecimal() and int(told.get(name, "0")) > 0:
            return int(told[name]) * _MIB
    return None
