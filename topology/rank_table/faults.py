"""Reads a JSON document and collects everything that is wrong with it, each fault with its JSON path.

In: a text. Out: ``Node``s, each a value with its place; what a node is asked for and does not hold becomes a fault in
the list that all nodes of a document share, and the answer is None. Nothing is raised before the end.
"""

from __future__ import annotations

import enum
import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Never

from ...errors import ProbeError

MAX_CHARACTERS = 64 << 20
_PLACEHOLDER = re.compile(r"<.*>|.*\$\{.*\}.*|\.{3}|(?:.*[.:])?x+(?:[.:].*)?", re.IGNORECASE | re.DOTALL)
_TEXT_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)|#[^\n]*', re.DOTALL)
_SHOWN_CHARACTERS = 60
_MOST_PLACEHOLDER_CHARACTERS = 256


class Form(enum.Enum):
    """How a file writes whole numbers."""

    TEXT = "in quotes"
    NUMBER = "without quotes"
    EITHER = "with or without quotes"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"


class Faults:
    """The faults of a document, in the order in which they were found, each once."""

    def __init__(self) -> None:
        self._found: dict[Fault, None] = {}

    def add(self, path: str, words: str) -> None:
        self._found.setdefault(Fault(path, words))

    @property
    def found(self) -> tuple[Fault, ...]:
        return tuple(self._found)

    def raise_all(self, what: str, remedy: str) -> None:
        """Raise ProbeError with every fault; without faults, return."""
        if self._found:
            fail(what, self.found, remedy)

    def unique(self, items: Iterable[tuple[object, str]], what: str) -> None:
        """A fault at the second and every later place of a value.

        Args:
            items: (value, its path); None is not compared.
        """
        first: dict[object, str] = {}
        for value, path in items:
            if value is not None and first.setdefault(value, path) != path:
                self.add(path, f"{what} {value} is also at {first[value]}")


def fail(what: str, faults: Iterable[Fault], remedy: str) -> Never:
    """Raise the error that lists all faults."""
    listed = [str(fault) for fault in faults]
    counted = "1 fault" if len(listed) == 1 else f"{len(listed)} faults"
    raise ProbeError(f"{what}: {counted}: {'; '.join(listed)}", remedy=remedy)


class _Object(dict[str, object]):
    """A JSON object that remembers the names that stood in it twice."""

    doubles: tuple[str, ...] = ()


class Node:
    """A value of a document, and where it stands."""

    __slots__ = ("faults", "path", "value")

    def __init__(self, value: object, path: str, faults: Faults) -> None:
        self.value = value
        self.path = path
        self.faults = faults
        if isinstance(value, _Object):
            for name in value.doubles:
                faults.add(f"{path}.{name}", "stands twice in its object")

    def fault(self, allowed: str) -> None:
        """Say that the value is not what is allowed."""
        if self._is_placeholder():
            self.faults.add(self.path, f"{_shown(self.value)} is a placeholder; wanted is {allowed}")
        else:
            self.faults.add(self.path, f"{_shown(self.value)}; wanted is {allowed}")

    def get(self, name: str) -> Node | None:
        """The value of a name in an object; a fault where it is missing."""
        found = self.maybe(name)
        if found is None and isinstance(self.value, dict):
            self.faults.add(f"{self.path}.{name}", "is missing")
        return found

    def maybe(self, name: str) -> Node | None:
        """The value of a name in an object; None where it is missing."""
        if not isinstance(self.value, dict):
            self.fault("an object")
            return None
        return Node(self.value[name], f"{self.path}.{name}", self.faults) if name in self.value else None

    def items(self) -> list[Node]:
        """The values of a list; a fault where there are none."""
        if not isinstance(self.value, list) or not self.value:
            self.fault("a list with something in it")
            return []
        return [Node(item, f"{self.path}[{index}]", self.faults) for index, item in enumerate(self.value)]

    def value_at(self, name: str) -> object:
        """The bare value of a name in an object; None where it is missing or no text or number."""
        found = self.value.get(name) if isinstance(self.value, dict) else None
        return found if isinstance(found, str | int | float) else None

    def list_at(self, name: str) -> list[Node]:
        """What stands in the list of a name; nothing, and no fault, where there is no such list."""
        found = self.value.get(name) if isinstance(self.value, dict) else None
        return Node(found, f"{self.path}.{name}", self.faults).items() if isinstance(found, list) and found else []

    def whole_at(self, name: str, low: int, high: int, form: Form, *, needed: bool = False) -> int | None:
        """The whole number of a name in an object, where it is there or needed."""
        found = self.get(name) if needed else self.maybe(name)
        return None if found is None else found.whole(low, high, form)

    def text(self, *, most: int = 1024) -> str | None:
        """A text of 1 to ``most`` characters that is no placeholder."""
        value = self.value
        if isinstance(value, str) and 0 < len(value) <= most and not self._is_placeholder():
            return value
        self.fault(f"a text of 1 to {most} characters")
        return None

    def word(self, allowed: Iterable[str]) -> str | None:
        """One of the words allowed."""
        words = tuple(allowed)
        if isinstance(self.value, str) and self.value in words:
            return self.value
        self.fault(" or ".join(map(repr, words)))
        return None

    def whole(self, low: int, high: int, form: Form) -> int | None:
        """A whole number from ``low`` to ``high``, written as the form says."""
        value = self.value
        number: int | None = None
        if type(value) is int and form is not Form.TEXT:
            number = value
        elif isinstance(value, str) and form is not Form.NUMBER and re.fullmatch(r"[0-9]{1,10}", value, re.ASCII):
            number = int(value)
        if number is not None and low <= number <= high:
            return number
        self.fault(f"a whole number from {low} to {high}, {form.value}")
        return None

    def _is_placeholder(self) -> bool:
        value = self.value
        return (
            isinstance(value, str)
            and len(value) <= _MOST_PLACEHOLDER_CHARACTERS
            and _PLACEHOLDER.fullmatch(value) is not None
        )

    def addresses(self) -> tuple[str, ...]:
        """IP addresses, one or several with commas between them; none in an empty text."""
        if self.value == "":
            return ()
        if isinstance(self.value, str):
            parts = tuple(map(canonical_address, self.value.split(",")))
            if all(parts):
                return tuple(part for part in parts if part is not None)
        self.fault("an IPv4 or IPv6 address")
        return ()


def canonical_address(text: str) -> str | None:
    """An IP address in its usual form, so that equal ones compare equal; None where it is none."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def document(text: str, what: str, remedy: str) -> tuple[Node, Faults]:
    """The document's root and the list of faults, in which comments already are.

    Raises:
        ProbeError: no JSON even without its comments: with line and column, and the comments that were found.
    """
    faults = Faults()
    if len(text) > MAX_CHARACTERS:
        fail(what, [Fault("$", f"{len(text)} characters; wanted are at most {MAX_CHARACTERS}")], remedy)
    text = text.removeprefix("\ufeff")
    try:
        try:
            value = _parsed(text)
        except json.JSONDecodeError:
            value = _parsed(_without_comments(text, faults))
    except json.JSONDecodeError as err:
        fail(what, [*faults.found, Fault(_place(err.lineno, err.colno), err.msg)], remedy)
    except (RecursionError, ValueError) as err:  # nested without end; a number of thousands of digits
        fail(what, [*faults.found, Fault("$", f"cannot be read ({err})")], remedy)
    return Node(value, "$", faults), faults


def _parsed(text: str) -> object:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)


def _without_comments(text: str, faults: Faults) -> str:
    """The text with blanks in place of comments, which JSON does not have, so that lines and columns stay."""
    parts: list[str] = []
    line, line_start, end = 1, 0, 0
    for match in _TEXT_OR_COMMENT.finditer(text):
        before = text[end : match.start()]
        line += before.count("\n")
        if "\n" in before:
            line_start = end + before.rindex("\n") + 1
        words = match[0]
        end = match.end()
        parts += [before, words if words.startswith('"') else re.sub(r"[^\n]", " ", words)]
        if not words.startswith('"'):
            at = _place(line, match.start() - line_start + 1)
            faults.add(at, f"{_shown(words)} is a comment, which JSON does not have")
        if "\n" in words:
            line += words.count("\n")
            line_start = match.start() + words.rindex("\n") + 1
    return "".join([*parts, text[end:]])


def _place(line: int, column: int) -> str:
    return f"line {line}, column {column}"


def _object(pairs: list[tuple[str, object]]) -> _Object:
    found = _Object()
    doubles: list[str] = []
    for name, value in pairs:
        if name in found:
            doubles.append(name)
        found[name] = value
    found.doubles = tuple(doubles)
    return found


def _no_number(word: str) -> Never:
    raise ValueError(f"{word} is no JSON number")


def _shown(value: object) -> str:
    try:
        words = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        words = "a value nested without end"
    return words if len(words) <= _SHOWN_CHARACTERS else f"{words[: _SHOWN_CHARACTERS - 3]}..."
