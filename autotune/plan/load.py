"""The YAML a user writes -> a checked `Plan`. Nothing in the file is executed, nothing is half-loaded.

    collectives: [all_reduce, all_gather]
    sizes: 8-64MiB            # a range in powers of four, or a list such as [8, 4KiB, 1MiB]
    ranks: [2, 4]
    dtypes: [float32, bfloat16]
    op: sum
    memory: private           # or symmetric, or a list of both
    budget: 10m
    effort: normal            # quick, normal, thorough
    rounds: 15                # at least 9

Every key may be left out and then means what the default plan says. Values are read as text, never as what YAML would
make of them: ``1_000``, ``0x10`` and ``yes`` are refused like any other wrong word. Errors say file, line and column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import yaml

from ..errors import UsageError
from ..units import parse_duration, parse_ranks, parse_sizes
from .plan import (
    Plan,
    default_plan,
    named,
    parse_collective,
    parse_dtype,
    parse_effort,
    parse_memory,
    parse_op,
    parse_rounds,
)

MAX_PLAN_BYTES = 64 << 10
_MAX_WORD = 200
_KEYS = ("collectives", "sizes", "ranks", "dtypes", "op", "memory", "budget", "effort", "rounds")

Value = TypeVar("Value")


def load_plan(path: Path | str, *, n_cores: int) -> Plan:
    """Read a plan file.

    Args:
        n_cores: for the rank counts, where the file gives none.

    Raises:
        UsageError: the file cannot be read, is not YAML, or says something that cannot be meant.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_PLAN_BYTES + 1)
    except (OSError, ValueError) as err:  # ValueError: a NUL in the path
        raise UsageError(f"plan {str(path)!r} cannot be read: {err}", remedy="give the path of a YAML file") from err
    return parse_plan(data, name=str(path), n_cores=n_cores)


def parse_plan(data: bytes, *, name: str, n_cores: int) -> Plan:
    """Check the bytes of a plan file; `name` stands in errors. Raises like `load_plan`."""
    source = _Source(name)
    values = source.mapping(source.tree(source.text(data)))
    plan = default_plan(n_cores)
    if "collectives" in values:
        plan = replace(plan, collectives=source.distinct(values["collectives"], parse_collective))
    if "sizes" in values:
        plan = replace(plan, sizes=source.merged(values["sizes"], parse_sizes))
    if "ranks" in values:
        plan = replace(plan, ranks=source.merged(values["ranks"], parse_ranks))
    if "dtypes" in values:
        plan = replace(plan, dtypes=source.distinct(values["dtypes"], parse_dtype))
    if "op" in values:
        plan = replace(plan, op=source.value(values["op"], parse_op))
    if "memory" in values:
        plan = replace(plan, memories=source.distinct(values["memory"], parse_memory))
    if "budget" in values:
        plan = replace(plan, budget_s=source.value(values["budget"], parse_duration))
    if "effort" in values:
        plan = replace(plan, effort=source.value(values["effort"], parse_effort))
    if "rounds" in values:
        rounds = source.value(values["rounds"], parse_rounds)
        plan = replace(plan, effort=replace(plan.effort, race_rounds=rounds, confirm_rounds=rounds))
    return plan


class _Source:
    """A plan file under inspection: every complaint knows where it is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def error(self, mark: yaml.Mark | None, message: str, remedy: str) -> UsageError:
        place = self.name if mark is None else f"{self.name}:{mark.line + 1}:{mark.column + 1}"
        return UsageError(f"{place}: {message}", remedy=remedy)

    def text(self, data: bytes) -> str:
        if len(data) > MAX_PLAN_BYTES:
            raise self.error(None, f"more than {MAX_PLAN_BYTES} bytes", "give a plan file; plans are a few lines long")
        if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
            raise self.error(None, "starts with a byte order mark", "save the plan as UTF-8 without BOM")
        before, nul, _ = data.partition(b"\0")
        if nul:
            line = before.count(b"\n") + 1
            raise self.error(None, f"line {line} holds a NUL byte", "give a plan file; this one is binary or damaged")
        try:
            return data.decode()
        except UnicodeDecodeError as err:
            raise self.error(None, f"byte {err.start} is not UTF-8", "save the plan as UTF-8") from err

    def tree(self, text: str) -> yaml.Node:
        try:
            node = yaml.compose(text, Loader=_StrictLoader)
        except yaml.MarkedYAMLError as err:
            problem = ", ".join(part for part in (err.context, err.problem) if part)
            raise self.error(err.problem_mark, problem, "write the plan as the example in the README") from err
        except yaml.YAMLError as err:
            raise self.error(None, f"not YAML: {err}", "write the plan as the example in the README") from err
        if node is None or node.value == []:
            raise self.error(None, "the plan is empty", "write what to measure, or leave the file out for the default")
        return node

    def mapping(self, node: yaml.Node) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node.start_mark, "a plan is made of 'key: value' lines", "write collectives: [all_reduce]")
        values: dict[str, yaml.Node] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self.value(key_node, lambda word: named("key", word, {known: known for known in _KEYS}))
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
        try:
            return parse(word)
        except UsageError as err:
            raise self.error(node.start_mark, err.message, err.remedy) from err

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
            fault = "anchors and aliases have no place in a plan"
        elif getattr(event, "tag", None) is not None:
            fault = "tags have no place in a plan"
        elif self.depth == 3:
            fault = "a plan is not nested so deep"
        if fault is not None:
            raise yaml.MarkedYAMLError(problem=fault, problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node
