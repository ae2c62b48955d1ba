"""What a thread of the machine can do to memory. Values only; machine.py says what they mean to whom.

Words are atomic, places are not. Both have any names.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

Name = Hashable


@dataclass(frozen=True, slots=True)
class Write:
    """A plain store."""

    place: Name
    value: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """A plain load; any value but `value` is a fault, unless it is None."""

    place: Name
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """An atomic store."""

    word: Name
    value: int
    release: bool = True


@dataclass(frozen=True, slots=True)
class Load:
    """An atomic load, once; it goes on at `otherwise` unless low <= value <= high. It may keep the value.

    With `otherwise` None it is repeated until then.
    """

    word: Name
    low: int
    high: int
    acquire: bool = True
    otherwise: int | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Add:
    """An atomic read-modify-write, of the newest value, that acquires and releases. Never stronger: it is no fence."""

    word: Name
    amount: int


@dataclass(frozen=True, slots=True)
class Fence:
    """Two threads pass a full fence at the same time, whatever the other one is doing: one IPI of membarrier(2)."""

    other: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """futex(FUTEX_WAIT): sleep unless the word has changed from the kept value."""

    word: Name


@dataclass(frozen=True, slots=True)
class Wake:
    """futex(FUTEX_WAKE): everybody who sleeps on the word."""

    word: Name


@dataclass(frozen=True, slots=True)
class Jump:
    """Go on at another operation."""

    to: int


Operation = Write | Read | Store | Load | Add | Fence | Sleep | Wake | Jump
