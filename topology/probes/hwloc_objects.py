"""The objects of hwloc's XML and how it writes their values: sets of CPUs, numbers, info pairs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import ProbeError
from .xml_elements import Element

_MOST_WORDS = 4096  # of 32 CPUs each
_WORD = re.compile(r"(?:0x)?[0-9a-f]{1,8}", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """An object and where it stands.

    Args:
        kind: hwloc's type.
        cpus: in it; empty for what hangs on PCI.
        above: the objects around it, inside out.
    """

    kind: str
    element: Element
    cpus: frozenset[int]
    above: tuple[Element, ...]


def objects_of(machine: Element) -> list[Object]:
    """Every object, in the order of the file."""
    found: list[Object] = []
    stack: list[tuple[Element, tuple[Element, ...]]] = [(machine, ())]
    while stack:
        element, above = stack.pop()
        cpuset = element.attributes.get("cpuset")
        found.append(
            Object(
                kind=element.attributes.get("type", ""),
                element=element,
                cpus=frozenset() if cpuset is None else bits(element, cpuset),
                above=above,
            )
        )
        stack += [(child, (element, *above)) for child in reversed(list(element.named("object")))]
    return found


def bits(element: Element, text: str) -> frozenset[int]:
    """``0x00000003,0x80000000`` -> {31, 32, 33}: 32 bits a word, the highest first; an empty word is 0.

    Raises:
        ProbeError: another text, or a set without end (``0xf...f``).
    """
    words = text.split(",")
    if len(words) > _MOST_WORDS or not all(word == "" or _WORD.fullmatch(word) for word in words):
        raise unreadable(element, text, "a set such as 0x000000ff,0xffffffff")
    mask = 0
    for word in words:
        mask = mask << 32 | int(word or "0", 16)
    return frozenset(index for index in range(mask.bit_length()) if mask >> index & 1)


def number(element: Element, name: str) -> int | None:
    """The whole number of an attribute; None where it is not there.

    Raises:
        ProbeError: it is no whole number.
    """
    text = element.attributes.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise unreadable(element, text, f"{name}, a whole number")
    return int(text)


def info(element: Element, name: str) -> str | None:
    """The value of an info pair of an object; None where it has none of this name."""
    pairs = (pair.attributes for pair in element.named("info") if pair.attributes.get("name") == name)
    return next((pair.get("value") or None for pair in pairs), None)


def unreadable(element: Element, got: str, expected: str) -> ProbeError:
    """The error for a value that cannot be read without guessing."""
    shown = got if len(got) <= 80 else f"{got[:77]}..."
    return ProbeError(
        f"hwloc XML, line {element.line}, element {element.name!r}: got {shown!r}, expected {expected}",
        remedy="write it again with: lstopo --of xml FILE",
    )
