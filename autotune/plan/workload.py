"""What a job calls in one step, read from a file: where the time of tuning goes, and what a table is worth to the job.

In:  a YAML or CSV file. Out: a checked `Workload`. May not touch: what is measured for it (plan).

A YAML file is a list of calls, a CSV file has a line for each below a heading; both have the same five columns, in any
order. ``dtype`` may be left out where elements are only moved.

    - {collective: all_reduce, bytes: 16MiB, ranks: 8, dtype: bfloat16, calls: 160}

    collective,bytes,ranks,dtype,calls
    all_reduce,16MiB,8,bfloat16,160

Sizes are message_bytes, as everywhere. A call that stands twice counts as often as both together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from ..errors import UsageError
from ..types import Collective, DType
from ..units import parse_bytes, parse_ranks
from .source import Source, read_bytes
from .words import named, parse_collective, parse_dtype

MAX_WORKLOAD_BYTES = 4 << 20
MAX_CALLS = 20_000
_COLUMNS = ("collective", "bytes", "ranks", "dtype", "calls")
_NEEDED = ("collective", "bytes", "ranks", "calls")
_EXAMPLE = "{collective: all_reduce, bytes: 16MiB, ranks: 8, dtype: bfloat16, calls: 160}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCall:
    """One kind of call.

    Args:
        message_bytes: the larger of a rank's input and output buffer.
        dtype: None where it is not known, which is allowed where elements are only moved.
        calls_per_step: how often a step of the job makes it.
    """

    collective: Collective
    message_bytes: int
    n_ranks: int
    dtype: DType | None
    calls_per_step: float

    def __post_init__(self) -> None:
        if self.message_bytes < 1 or self.n_ranks < 1 or not 0.0 < self.calls_per_step < math.inf:
            raise ValueError(f"not a call: {self}")
        if self.collective.computes and self.dtype is None:
            raise ValueError(f"{self.collective.value} combines elements, and their type is missing")

    @property
    def key_dtype(self) -> DType | None:
        """The type as a rule's key has it: None where elements are only moved."""
        return self.dtype if self.collective.computes else None

    @property
    def canonical(self) -> str:
        """What decides which cell is measured, in a word."""
        dtype = self.key_dtype.value if self.key_dtype else "-"
        return f"{self.collective.value} {dtype} {self.message_bytes} {self.n_ranks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The calls of one step, as the file lists them."""

    calls: tuple[WorkloadCall, ...]

    def __post_init__(self) -> None:
        if not self.calls:
            raise ValueError("a workload without calls")

    def by_ranks(self) -> list[WorkloadCall]:
        """The calls in the order in which they are measured: rank counts outermost, sizes ascending."""
        return sorted(self.calls, key=lambda c: (c.n_ranks, c.canonical.rsplit(maxsplit=2)[0], c.message_bytes))


def load_workload(path: Path | str) -> Workload:
    """Read a workload; the file's name ends in ``.yaml``, ``.yml`` or ``.csv``.

    Raises:
        UsageError: the file cannot be read, is of another kind, or says something that cannot be meant; with line and
            column.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".yaml", ".yml", ".csv"):
        raise UsageError(
            f"workload {str(path)!r} ends neither in .yaml nor in .csv", remedy="name the file for what it holds"
        )
    return parse_workload(read_bytes(path, "workload", MAX_WORKLOAD_BYTES), name=str(path), csv=suffix == ".csv")


def parse_workload(data: bytes, *, name: str, csv: bool) -> Workload:
    """Check the bytes of a workload; `name` stands in errors. Raises like `load_workload`."""
    source = Source(name, what="workload", most_bytes=MAX_WORKLOAD_BYTES)
    text = source.text(data)
    calls = _csv_calls(source, text) if csv else _yaml_calls(source, source.tree(text))
    return Workload(calls=tuple(calls))


def workload_text(workload: Workload) -> str:
    """The workload as a YAML file that `load_workload` reads."""
    lines = []
    for call in workload.calls:
        dtype = "" if call.dtype is None else f", dtype: {call.dtype.value}"
        words = f"collective: {call.collective.value}, bytes: {call.message_bytes}, ranks: {call.n_ranks}{dtype}"
        lines.append(f"- {{{words}, calls: {call.calls_per_step:g}}}\n")
    return "".join(lines)


def _yaml_calls(source: Source, tree: yaml.Node) -> list[WorkloadCall]:
    if not isinstance(tree, yaml.SequenceNode):
        raise source.error(tree.start_mark, "a workload is a list of calls", f"write - {_EXAMPLE}")
    _check_count(source, len(tree.value))
    calls = []
    for node in tree.value:
        nodes = source.mapping(node, _COLUMNS, _EXAMPLE)
        _check_needed(source, node.start_mark, list(nodes))
        words = {key: (value.start_mark, source.value(value, str)) for key, value in nodes.items()}
        calls.append(_call(source, node.start_mark, words))
    return calls


def _csv_calls(source: Source, text: str) -> list[WorkloadCall]:
    lines = [(number, line) for number, line in enumerate(text.splitlines()) if line.strip()]
    if not lines:
        raise source.error(None, "the workload is empty", "write a heading and a line for each kind of call")
    _check_count(source, len(lines) - 1)
    heading: list[str] = []
    for mark, word in _fields(source, *lines[0]):
        column = source.parsed(mark, word, _column)
        if column in heading:
            raise source.error(mark, f"column {column} stands twice", f"keep one {column}")
        heading.append(column)
    _check_needed(source, _mark(source, lines[0][0], 0), heading)
    if len(lines) == 1:
        raise source.error(None, "the workload has a heading, but no calls", "write a line for each kind of call")
    calls = []
    for number, line in lines[1:]:
        found = _fields(source, number, line)
        start = _mark(source, number, 0)
        if len(found) != len(heading):
            what = f"{len(found)} fields below a heading of {len(heading)}"
            raise source.error(start, what, f"write {','.join(heading)}")
        words = {key: field for key, field in zip(heading, found, strict=True) if field[1]}
        _check_needed(source, start, list(words))
        calls.append(_call(source, start, words))
    return calls


def _fields(source: Source, number: int, line: str) -> list[tuple[yaml.Mark, str]]:
    """The words of a CSV line, each with its place. Nothing in a workload needs quotes, so there are none."""
    quote = line.find('"')
    if quote >= 0:
        raise source.error(
            _mark(source, number, quote), "quotes have no place in a workload", "write the words without quotes"
        )
    found, at = [], 0
    for part in line.split(","):
        column = at + len(part) - len(part.lstrip())
        found.append((_mark(source, number, column), part.strip()))
        at += len(part) + 1
    return found


def _mark(source: Source, line: int, column: int) -> yaml.Mark:
    return yaml.Mark(source.name, 0, line, column, None, 0)


def _call(source: Source, start: yaml.Mark, words: Mapping[str, tuple[yaml.Mark, str]]) -> WorkloadCall:
    collective = source.parsed(*words["collective"], parse_collective)
    dtype = source.parsed(*words["dtype"], parse_dtype) if "dtype" in words else None
    if dtype is None and collective.computes:
        what = f"{collective.value} combines elements, and their type is missing"
        raise source.error(start, what, "write dtype: bfloat16, or whatever it is")
    return WorkloadCall(
        collective=collective,
        message_bytes=source.parsed(*words["bytes"], _size),
        n_ranks=source.parsed(*words["ranks"], _rank_count),
        dtype=dtype,
        calls_per_step=source.parsed(*words["calls"], _rate),
    )


def _size(text: str) -> int:
    size = parse_bytes(text)
    if size < 1:
        raise UsageError("a call of 0 bytes moves nothing", remedy="leave the call out")
    return size


def _rank_count(text: str) -> int:
    ranks = parse_ranks(text)
    if len(ranks) != 1:
        raise UsageError(f"{len(ranks)} rank counts in one call", remedy="write a call for each")
    return ranks[0]


def _column(text: str) -> str:
    return named("column", text, {known: known for known in _COLUMNS})


def _rate(text: str) -> float:
    try:
        value = float(text) if text.replace(".", "", 1).isdigit() and text.isascii() else 0.0
    except ValueError:  # only a point
        value = 0.0
    if not 0.0 < value <= 1e9:
        raise UsageError(f"calls {text!r} is not a number above 0", remedy="write calls in one step, as 160 or 0.5")
    return value


def _check_needed(source: Source, mark: yaml.Mark, given: Sequence[str]) -> None:
    missing = [name for name in _NEEDED if name not in given]
    if missing:
        raise source.error(mark, f"{missing[0]} is missing", f"write all of {', '.join(_COLUMNS)}")


def _check_count(source: Source, count: int) -> None:
    if count > MAX_CALLS:
        raise source.error(None, f"{count} calls, above {MAX_CALLS}", "add up the calls of the same kind")
