"""A YAML file that a user wrote, under inspection: strict, and every complaint knows where it is. The only yaml here.

In:  bytes. Out: nodes, and the values of words. May not touch: what the words mean, which the readers say.

Nothing in a file is executed, nothing is half-loaded. Values are read as text, never as what YAML would make of them:
``1_000``, ``0x10`` and ``yes`` are words like any other. What no plan needs is refused before it can grow: aliases,
tags, depth, size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import yaml

from ..errors import UsageError
from .words import named

_MAX_WORD = 200
_MAX_DEPTH = 3

Value = TypeVar("Value")


def read_bytes(path: Path | str, what: str, most: int) -> bytes:
    """The bytes of a small file, up to one more than it may have.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(most + 1)
    except (OSError, ValueError) as err:  # ValueError: a NUL in the path
        raise UsageError(
            f"{what} {str(path)!r} cannot be read: {err}", remedy=f"give the path of a {what} file"
        ) from err


class Source:
    """A file under inspection.

    Args:
        name: as it stands in errors.
        what: it is, such as ``"plan"``.
        most_bytes: that it may have.
    """

    def __init__(self, name: str, *, what: str, most_bytes: int) -> None:
        self.name = name
        self._what = what
        self._most_bytes = most_bytes

    def error(self, mark: yaml.Mark | None, message: str, remedy: str) -> UsageError:
        place = self.name if mark is None else f"{self.name}:{mark.line + 1}:{mark.column + 1}"
        return UsageError(f"{place}: {message}", remedy=remedy)

    def text(self, data: bytes) -> str:
        if len(data) > self._most_bytes:
            remedy = f"give a {self._what} file; {self._what}s are short"
            raise self.error(None, f"more than {self._most_bytes} bytes", remedy)
        if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
            raise self.error(None, "starts with a byte order mark", f"save the {self._what} as UTF-8 without BOM")
        before, nul, _ = data.partition(b"\0")
        if nul:
            line = before.count(b"\n") + 1
            remedy = f"give a {self._what} file; this one is binary or damaged"
            raise self.error(None, f"line {line} holds a NUL byte", remedy)
        try:
            return data.decode()
        except UnicodeDecodeError as err:
            raise self.error(None, f"byte {err.start} is not UTF-8", f"save the {self._what} as UTF-8") from err

    def tree(self, text: str) -> yaml.Node:
        try:
            node = yaml.compose(text, Loader=_StrictLoader)
        except yaml.MarkedYAMLError as err:
            problem = ", ".join(part for part in (err.context, err.problem) if part)
            raise self.error(err.problem_mark, problem, f"write the {self._what} as the example in the README") from err
        except yaml.YAMLError as err:
            raise self.error(None, f"not YAML: {err}", f"write the {self._what} as the example in the README") from err
        if node is None or node.value == []:
            raise self.error(None, f"the {self._what} is empty", f"write the {self._what}, or leave the file out")
        return node

    def mapping(self, node: yaml.Node, keys: Collection[str], example: str) -> dict[str, yaml.Node]:
        """The nodes of a mapping with these keys, each at most once."""
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node.start_mark, "'key: value' lines are expected here", f"write {example}")
        values: dict[str, yaml.Node] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self.value(key_node, lambda word: named("key", word, {known: known for known in keys}))
            if key in values:
                what = f"{key} is given twice, first in line {lines[key]}"
                raise self.error(key_node.start_mark, what, f"keep one {key}")
            values[key] = value_node
            lines[key] = key_node.start_mark.line + 1
        return values

    def value(self, node: yaml.Node, parse: Callable[[str], Value]) -> Value:
        """The value of one word."""
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node.start_mark, "a list or mapping stands where one word is expected", "write one word")
        word: str = node.value
        if not word or len(word) > _MAX_WORD:
            what = "no value" if not word else f"a value of {len(word)} characters"
            raise self.error(node.start_mark, what, "write a value, or leave the key out")
        return self.parsed(node.start_mark, word, parse)

    def parsed(self, mark: yaml.Mark, word: str, parse: Callable[[str], Value]) -> Value:
        """What a word at this place stands for."""
        try:
            return parse(word)
        except UsageError as err:
            raise self.error(mark, err.message, err.remedy) from err

    def listed(self, node: yaml.Node, parse: Callable[[str], Value]) -> list[Value]:
        """The values of a list, or of one word that stands for a list of one."""
        if not isinstance(node, yaml.SequenceNode):
            return [self.value(node, parse)]
        if not node.value:
            raise self.error(node.start_mark, "the list is empty", "write a value, or leave the key out")
        return [self.value(item, parse) for item in node.value]

    def distinct(self, node: yaml.Node, parse: Callable[[str], Value]) -> tuple[Value, ...]:
        return tuple(dict.fromkeys(self.listed(node, parse)))

    def merged(self, node: yaml.Node, parse: Callable[[str], tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(sorted({number for numbers in self.listed(node, parse) for number in numbers}))


class _StrictLoader(yaml.SafeLoader):
    """Composes nodes and nothing else; refuses what no plan needs before it can grow: aliases, tags, depth."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # types-PyYAML leaves it out
        fault = None
        if event.anchor is not None:  # an alias carries the name of its anchor
            fault = "anchors and aliases have no place here"
        elif getattr(event, "tag", None) is not None:
            fault = "tags have no place here"
        elif self.depth == _MAX_DEPTH:
            fault = "nothing here is nested so deep"
        if fault is not None:
            raise yaml.MarkedYAMLError(problem=fault, problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node
