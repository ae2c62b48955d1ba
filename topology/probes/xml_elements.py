"""XML as plain elements, without what can be used against the reader: no declarations of a DTD, no entities, no depth.

In: a text. Out: the root ``Element``. Expat of the standard library reads it; no file and no address is ever opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Never
from xml.parsers import expat

from ...errors import ProbeError

MAX_CHARACTERS = 64 << 20
_MOST_DEPTH = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element, its attributes, the elements in it, and the text between them."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()

    def named(self, name: str) -> Iterator[Element]:
        """The elements directly inside that have this name."""
        return (child for child in self.children if child.name == name)


def read_elements(text: str, what: str, remedy: str) -> Element:
    """The root of a document.

    Args:
        what: names the text in errors.

    Raises:
        ProbeError: not well-formed, a declaration inside the DTD, nested too deep, or too long: with line and column.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    stack: list[Element] = []
    roots: list[Element] = []

    def refuse(words: str) -> Never:
        line, column = parser.CurrentLineNumber, parser.CurrentColumnNumber + 1
        raise ProbeError(f"{what}, line {line}, column {column}: {words}", remedy=remedy)

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(stack) >= _MOST_DEPTH:
            refuse(f"more than {_MOST_DEPTH} elements inside each other")
        element = Element(name=name, attributes=attributes, line=parser.CurrentLineNumber)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def characters(data: str) -> None:
        if stack and not data.isspace():
            stack[-1].texts.append(data)

    def declared(*_: object) -> None:
        refuse("a declaration (entity, element, attribute or notation), which is not read for safety's sake")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.EntityDeclHandler = declared
    parser.ElementDeclHandler = declared
    parser.AttlistDeclHandler = declared
    parser.NotationDeclHandler = declared
    if len(text) > MAX_CHARACTERS:
        raise ProbeError(f"{what}: {len(text)} characters, at most {MAX_CHARACTERS} are read", remedy=remedy)
    try:
        parser.Parse(text.removeprefix("\ufeff").encode("utf-8", "replace"), True)
    except expat.ExpatError as err:
        words = expat.ErrorString(err.code)
        raise ProbeError(f"{what}, line {err.lineno}, column {err.offset + 1}: {words}", remedy=remedy) from err
    return roots[0]
