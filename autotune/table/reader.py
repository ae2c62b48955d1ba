"""Strict reading of JSON: text in, nodes out that know their place. Knows nothing of tables; touches no file.

Every complaint is a TableFormatError that says source, line and column or JSON path, what was found and what is
allowed. json's own habits that hide damage are refused: repeated names, NaN, numbers beyond 64 bits, deep nesting.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from ..errors import TableFormatError
from .rule import MAX_WHOLE, check_text

REMEDY = "restore the file from where it came, or write a new table: autotune run"
_SHOWN = 40
_DIGITS = 20  # enough for 64 bits and a sign, and far below the length from which int() itself refuses
Word = TypeVar("Word", bound=Enum)


class _Object(dict[str, object]):
    """A JSON object that remembers whether a name was repeated."""

    repeated: str | None = None


class _TooLong(str):
    """The digits of a whole number that no field can hold."""


def read_json(text: str, source: str) -> Node:
    """The root of a JSON text.

    Args:
        source: names the text in errors, usually the file's path.

    Raises:
        TableFormatError: not JSON, with line and column.
    """
    try:
        value: object = json.loads(text, object_pairs_hook=_object, parse_int=_whole)
    except json.JSONDecodeError as err:
        place = f"{source}, line {err.lineno}, column {err.colno}"
        end = text.rstrip()
        cut_off = err.pos >= len(end) or (end.lstrip().startswith("{") and not end.endswith("}"))
        ending = "; the text ends early, so it was cut off" if cut_off else ""
        raise TableFormatError(f"{place}: {err.msg}{ending}", remedy=REMEDY) from err
    except RecursionError as err:
        raise TableFormatError(f"{source}: brackets are nested too deep for a table", remedy=REMEDY) from err
    return Node(value, "$", source)


class Node:
    """A value of a JSON text with its path, such as ``$.rules[2].sizes[0]``, and checked ways to take it apart."""

    __slots__ = ("path", "source", "value")

    def __init__(self, value: object, path: str, source: str) -> None:
        self.value = value
        self.path = path
        self.source = source

    def error(self, found: str) -> TableFormatError:
        """What is wrong at this place."""
        return TableFormatError(f"{self.source}: {self.path}: {found}", remedy=REMEDY)

    def members(self, *names: str, may_have: tuple[str, ...] = ()) -> dict[str, Node]:
        """An object that has these names, perhaps some of those that it may have, and no others."""
        members = self.entries()
        allowed = (*names, *may_have)
        for name in members:
            if name not in allowed:
                meant = did_you_mean(name, allowed)
                raise self.error(f"unknown name {_shown(name)}{meant}; allowed: {', '.join(allowed)}")
        for name in names:
            if name not in members:
                raise self.error(f"{name!r} is missing")
        return members

    def entries(self) -> dict[str, Node]:
        """An object with any names."""
        if not isinstance(self.value, _Object):
            raise self._unlike("an object")
        if self.value.repeated is not None:
            raise self.error(f"the name {_shown(self.value.repeated)} stands there twice")
        return {
            name: Node(value, f"{self.path}.{_shown_in_path(name)}", self.source) for name, value in self.value.items()
        }

    def items(self) -> list[Node]:
        """An array."""
        if not isinstance(self.value, list):
            raise self._unlike("an array")
        return [Node(item, f"{self.path}[{index}]", self.source) for index, item in enumerate(self.value)]

    def optional(self) -> Node | None:
        """None for ``null``, else the node itself."""
        return None if self.value is None else self

    def whole(self, low: int = 0, high: int = MAX_WHOLE) -> int:
        """A whole number from low to high."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._unlike(f"a whole number from {low} to {high}")
        return value

    def number(self) -> float:
        """A finite number."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self._unlike("a finite number")
        return float(value)

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            raise self._unlike("true or false")
        return self.value

    def text(self) -> str:
        """Text without control characters."""
        if not isinstance(self.value, str) or isinstance(self.value, _TooLong):
            raise self._unlike("text")
        try:
            check_text(self.value)
        except ValueError as err:
            raise self.error(str(err)) from err
        return self.value

    def word(self, kind: type[Word]) -> Word:
        """A member of an enum, by its value."""
        allowed = [member.value for member in kind]
        if self.value not in allowed or not isinstance(self.value, str):
            meant = did_you_mean(self.value, allowed) if isinstance(self.value, str) else ""
            raise self.error(f"found {_shown(self.value)}{meant}; allowed: {', '.join(allowed)}")
        return kind(self.value)

    def _unlike(self, allowed: str) -> TableFormatError:
        return self.error(f"found {_shown(self.value)}; allowed: {allowed}")


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """``" (did you mean 'ring'?)"``, or nothing if no allowed word is near."""
    from difflib import get_close_matches  # only a wrong word pays for the import

    near = get_close_matches(word[:_SHOWN], list(allowed), n=1, cutoff=0.4)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _object(pairs: list[tuple[str, object]]) -> _Object:
    members = _Object()
    for name, value in pairs:
        if name in members:
            members.repeated = name
        members[name] = value
    return members


def _whole(digits: str) -> int | _TooLong:
    return int(digits) if len(digits) <= _DIGITS else _TooLong(digits)


def _shown(value: object) -> str:
    """A found value in an error: short, on one line."""
    if isinstance(value, _TooLong):
        return f"the number {value[:12]}... of {len(value)} digits"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def _shown_in_path(name: str) -> str:
    return name if name.isidentifier() else _shown(name)
