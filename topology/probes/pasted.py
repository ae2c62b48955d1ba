"""Text that a program printed for people, as it arrives here: from a pipe, a terminal's copy, a mail or a page.

In: a recording and the command it was printed by. Out: lines and words that know where they stood, facts of the form
``key : value``, and the error for a word that cannot be read. Colours, CRLF, byte order marks and blanks at the ends
are taken away; nothing else is repaired. Pure; every function is linear in its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...errors import ProbeError
from ..cpulist import format_cpu_list
from .recording import Recording

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Za-z])")
_WORD = re.compile(r"\S+")
_MOST_SHOWN = 8
_MAX_SHOWN_CHARACTERS = 120
_FAILURES = {"!absent": "is not installed", "!denied": "may not be run", "!timeout": "did not answer in time"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A piece of a line; ``line`` and ``column`` count from 1, after colours are taken away."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line without its end."""

    text: str
    number: int

    @property
    def words(self) -> list[Word]:
        return [Word(text=match[0], line=self.number, column=match.start() + 1) for match in _WORD.finditer(self.text)]

    def cells(self, separator: str) -> list[Word]:
        """What stands between separators, without blanks around it; an empty cell is an empty word."""
        found: list[Word] = []
        start = 0
        for piece in self.text.split(separator):
            lead = len(piece) - len(piece.lstrip())
            found.append(Word(text=piece.strip(), line=self.number, column=start + lead + 1))
            start += len(piece) + len(separator)
        return found


def lines_of(text: str) -> list[Line]:
    """The lines that hold something, in order."""
    plain = _ESCAPES.sub("", text.removeprefix("\ufeff"))
    return [
        Line(text=line.rstrip(), number=number)
        for number, line in enumerate(plain.split("\n"), start=1)
        if not line.isspace() and line
    ]


def facts_of(lines: Iterable[Line]) -> Iterator[tuple[str, Word]]:
    """``key : value`` of every line and of every cell of a drawn table; the key loses the blanks around it."""
    for line in lines:
        for cell in line.cells("|"):
            key, colon, value = cell.text.partition(":")
            if colon and key.strip():
                lead = len(key) + 1 + len(value) - len(value.lstrip())
                yield key.strip(), Word(text=value.strip(), line=cell.line, column=cell.column + lead)


def fact_of(command: str, lines: Iterable[Line], key: str) -> Word | None:
    """The value of the one fact of this key; None where there is none.

    Raises:
        ProbeError: a second one with another value, as when answers for several devices were joined.
    """
    found: Word | None = None
    for name, word in facts_of(lines):
        if name == key:
            if found is not None and found.text != word.text:
                raise unreadable(command, word, f"one value of {key!r}, and {found.text!r} stood before it")
            found = word
    return found


def printed(recording: Recording, command: str) -> tuple[list[Line], str]:
    """(lines, empty) of what a command printed, or (no lines, why there are none) in words for people."""
    text = recording.get(command)
    program = command.split()[0]
    if text is None:
        return [], f"{command} is not in the recording"
    if text in _FAILURES:
        return [], f"{program} {_FAILURES[text]}"
    if text.startswith("!"):
        return [], f"{command} failed ({shortened(text[1:])})"
    lines = lines_of(text)
    return lines, "" if lines else f"{command} printed nothing"


def unreadable(command: str, word: Word, allowed: str, remedy: str | None = None) -> ProbeError:
    """The error for a word that cannot be read without guessing: where it stands, what it is, what may stand there."""
    return ProbeError(
        f"{command}, line {word.line}, column {word.column}: got {shortened(word.text)!r}, expected {allowed}",
        remedy=remedy or f"write it to a file, so that no terminal wraps or joins words: {command} > FILE",
    )


def whole(command: str, word: Word, what: str) -> int:
    """A number as tools print it, from 0 up.

    Raises:
        ProbeError: the word is no such number.
    """
    if not re.fullmatch(r"[0-9]{1,12}", word.text):
        raise unreadable(command, word, f"{what}, a whole number")
    return int(word.text)


def shortened(text: str) -> str:
    """The first line of a text, at most 120 characters of it."""
    line = next((line.strip() for line in text.split("\n", 20) if line.strip()), "")
    return line if len(line) <= _MAX_SHOWN_CHARACTERS else f"{line[: _MAX_SHOWN_CHARACTERS - 3]}..."


def numbered(what: str, numbers: Iterable[int]) -> str:
    """``NPU 7``, ``NPUs 0-3,6``."""
    known = sorted(set(numbers))
    return f"{what}{'' if len(known) == 1 else 's'} {format_cpu_list(known)}"


def listed(names: Iterable[str]) -> str:
    """``NPU0, NPU1 and 6 more``: at most eight names."""
    shown = list(names)
    more = f" and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
    return ", ".join(shown[:_MOST_SHOWN]) + more
