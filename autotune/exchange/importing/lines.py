"""Lines and words of a log, each with its place, and strict ways to read them. Pure.

Launchers put a prefix before each line (``[1,0]<stdout>:``, ``0: ``, ``hosta: ``); it is taken off, and the columns in
errors are those of the line as it stands in the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .log import LogError

MAX_BYTES = 1 << 46
Word = TypeVar("Word")

_TAG = re.compile(r"\[[^\]\s]*\]<std(?:out|err)>:? ?")
_LABEL = re.compile(r"[A-Za-z0-9][\w.-]*: +(?=[#0-9])")
_WORD = re.compile(r"\S+")
_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A word and its place.

    Args:
        column: of its first character, from 1.
    """

    text: str
    source: str
    line: int
    column: int

    def error(self, allowed: str) -> LogError:
        """What stands here, and what may."""
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}..."
        return LogError(
            f"{self.source}, line {self.line}, column {self.column}: found {text!r}; allowed: {allowed}",
            remedy="correct the line or take it out, and import the file again",
        )

    def whole(self, what: str, low: int = 0, high: int = MAX_BYTES) -> int:
        """A whole number from low to high.

        Raises:
            LogError: anything else.
        """
        text = self.text
        if text.isascii() and text.isdigit() and len(text) <= 15 and low <= int(text) <= high:
            return int(text)
        raise self.error(f"{what}, a whole number from {low} to {high}")

    def above_zero(self, what: str) -> float:
        """A finite number above 0.

        Raises:
            LogError: anything else.
        """
        number = self.number()
        if not 0.0 < number < math.inf:
            raise self.error(f"{what}, a number above 0")
        return number

    def from_zero(self, what: str) -> float:
        """A finite number from 0.

        Raises:
            LogError: anything else.
        """
        number = self.number()
        if not 0.0 <= number < math.inf:
            raise self.error(f"{what}, a number from 0")
        return number

    def number(self) -> float:
        """As a number; not a number where it is none."""
        try:
            return float(self.text) if self.text.isascii() and "_" not in self.text else math.nan
        except ValueError:
            return math.nan

    def one_of(self, words: Mapping[str, Word], what: str) -> Word:
        """A known word.

        Raises:
            LogError: another one.
        """
        if self.text not in words:
            raise self.error(f"{what}, one of {', '.join(words)}")
        return words[self.text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line without its launcher's prefix.

    Args:
        number: from 1.
        tag: the prefix, by which ranks can be told apart; empty where there is none.
        shift: how many characters were taken off.
        whole: it ends in a line end; False for a last line that may have been cut off.
    """

    number: int
    tag: str
    text: str
    shift: int
    whole: bool
    source: str

    def cells(self) -> list[Cell]:
        """The words between white space."""
        return [
            Cell(text=m[0], source=self.source, line=self.number, column=m.start() + self.shift + 1)
            for m in _WORD.finditer(self.text)
        ]

    def split(self, separator: str) -> list[Cell]:
        """What stands between separators, without the white space around it."""
        cells, at = [], 0
        for part in self.text.split(separator):
            start = at + len(part) - len(part.lstrip())
            cells.append(Cell(text=part.strip(), source=self.source, line=self.number, column=start + self.shift + 1))
            at += len(part) + len(separator)
        return cells


def lines_of(text: str, source: str) -> Iterator[Line]:
    """The lines of a text that are not blank."""
    ends = text.count("\n")
    for number, raw in enumerate(text.split("\n"), 1):
        match = _TAG.match(raw) or _LABEL.match(raw)
        prefix = match[0] if match else ""
        rest = raw[len(prefix) :].rstrip()
        if rest:
            yield Line(
                number=number, tag=prefix.strip(), text=rest, shift=len(prefix), whole=number <= ends, source=source
            )


def row_begins(cells: Sequence[Cell], n_columns: int, what: str) -> bool:
    """Whether a line that is no comment is a row: it begins with a size.

    Raises:
        LogError: it does not, but has a row's length and ends like one, so a row was spoiled.
    """
    first = cells[0]
    if first.text.isascii() and first.text.isdigit():
        return True
    if len(cells) == n_columns and (cells[-1].text == "N/A" or not math.isnan(cells[-1].number())):
        raise first.error(f"{what}, a whole number from 0 to {MAX_BYTES}")
    return False


def checked_text(text: str, source: str) -> str:
    """A log's text with plain line ends.

    Raises:
        LogError: a NUL, which no log has.
    """
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise LogError(f"{source}, line {line}: holds a NUL, so it is no text", remedy="give the log as text")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def nothing_found(source: str, format_name: str, notes: Iterable[str] = ()) -> LogError:
    """A log without a single figure."""
    why = next(iter(notes), None)
    return LogError(
        f"{source}: holds no row of {format_name}" + ("" if why is None else f": {why}"),
        remedy="give the program's whole output, or say what it is: --format NAME",
    )
