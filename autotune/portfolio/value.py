"""The chosen groups and which call goes to which, as a value and as a file. Standard library only.

In:  a portfolio, or the text of its file. Out: the other of the two. May not touch: files, torch.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..table.fields import config_fields, key_fields
from ..table.reader import Node, read_json
from ..types import Collective, Config, DType, KnobValue, OpClass, RuleKey
from ..units import MAX_BYTES

FORMAT = "autotune-portfolio"
VERSION = 1
_MAX_RANKS = 1 << 20
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A process group to make.

    Args:
        options: what it is made with, sorted by name: ``hccl_config`` on NPUs.
        memory_bytes: of each rank.
    """

    name: str
    options: tuple[tuple[str, KnobValue], ...]
    memory_bytes: int

    def __post_init__(self) -> None:
        if (
            not _NAME.match(self.name)
            or self.memory_bytes < 0
            or list(self.options) != sorted(dict(self.options).items())
        ):
            raise ValueError(f"not a group: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where calls of some sizes go.

    Args:
        group: number in the portfolio.
        loss: time over the free choice's, less one.
    """

    key: RuleKey
    from_bytes: int
    to_bytes: int
    group: int
    config: Config
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Portfolio:
    """Groups and routes.

    Args:
        process: variables that every process of the job needs.
        max_groups: what was allowed.
        loss: weighted mean of the routes' losses.
        bound: no portfolio within the limits loses less.
        proved: whether this is the best there is.
    """

    backend: str
    process: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]
    routes: tuple[Route, ...]
    max_groups: int
    loss: float
    bound: float
    proved: bool

    def __post_init__(self) -> None:
        if not 1 <= len(self.groups) <= self.max_groups or len({group.name for group in self.groups}) != len(
            self.groups
        ):
            raise ValueError(f"{len(self.groups)} groups, of which {self.max_groups} are allowed, or two of one name")
        by_key: dict[RuleKey, list[Route]] = {}
        for route in self.routes:
            if not 0 <= route.group < len(self.groups) or not 0 <= route.from_bytes < route.to_bytes <= MAX_BYTES + 1:
                raise ValueError(f"not a route: {route}")
            by_key.setdefault(route.key, []).append(route)
        for key, routes in by_key.items():
            if any(a.to_bytes > b.from_bytes for a, b in pairwise(routes)):
                raise ValueError(f"{key}: sizes overlap, or do not ascend")

    @property
    def memory_bytes(self) -> int:
        """Of all groups, on each rank."""
        return sum(group.memory_bytes for group in self.groups)

    @property
    def digest(self) -> str:
        """sha256 of what decides, 64 hex digits; equal on ranks that make and choose alike."""
        decides = {
            "process": self.process,
            "groups": [[group.name, group.options] for group in self.groups],
            "routes": [_route_fields(route) for route in self.routes],
        }
        text = json.dumps(decides, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def document(portfolio: Portfolio) -> dict[str, Any]:
    """As plain dicts and lists; Any: the tree of JSON."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "backend": portfolio.backend,
        "max_groups": portfolio.max_groups,
        "loss": portfolio.loss,
        "bound": portfolio.bound,
        "proved": portfolio.proved,
        "process": dict(portfolio.process),
        "groups": [
            {"name": group.name, "options": dict(group.options), "memory_bytes": group.memory_bytes}
            for group in portfolio.groups
        ],
        "routes": [{**_route_fields(route), "loss": route.loss} for route in portfolio.routes],
    }


def dump_portfolio(portfolio: Portfolio) -> str:
    """The text of a file, one group and one route a line."""
    fields = document(portfolio)
    lines = []
    for name, value in fields.items():
        if isinstance(value, list):
            rows = ",\n".join(f"    {json.dumps(row)}" for row in value)
            lines.append(f"  {json.dumps(name)}: [\n{rows}\n  ]" if value else f"  {json.dumps(name)}: []")
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def parse_portfolio(text: str, source: str) -> Portfolio:
    """The inverse of ``dump_portfolio``.

    Raises:
        TableFormatError: with the place.
    """
    root = read_json(text, source)
    at = root.members(
        "format", "version", "backend", "max_groups", "loss", "bound", "proved", "process", "groups", "routes"
    )
    if at["format"].text() != FORMAT or at["version"].whole() != VERSION:
        raise root.error(f"not version {VERSION} of {FORMAT!r}")
    try:
        return Portfolio(
            backend=at["backend"].text(),
            process=tuple((name, value.text()) for name, value in sorted(at["process"].entries().items())),
            groups=tuple(_group(node) for node in at["groups"].items()),
            routes=tuple(_route(node) for node in at["routes"].items()),
            max_groups=at["max_groups"].whole(1),
            loss=at["loss"].number(),
            bound=at["bound"].number(),
            proved=at["proved"].truth(),
        )
    except ValueError as err:
        raise root.error(str(err)) from err


def _route_fields(route: Route) -> dict[str, object]:
    key = {name: value for name, value in key_fields(route.key).items() if name not in ("memory", "max_error")}
    sizes = {"from_bytes": route.from_bytes, "to_bytes": route.to_bytes}
    return {**key, **sizes, "group": route.group, "config": config_fields(route.config)}


def _group(node: Node) -> Group:
    at = node.members("name", "options", "memory_bytes")
    options = tuple(sorted((name, _value(value)) for name, value in at["options"].entries().items()))
    return Group(name=at["name"].text(), options=options, memory_bytes=at["memory_bytes"].whole())


def _value(node: Node) -> KnobValue:
    return node.text() if isinstance(node.value, str) else node.whole()


def _route(node: Node) -> Route:
    at = node.members(
        "backend", "collective", "dtype", "op_class", "n_ranks", "placement", "from_bytes", "to_bytes", "group",
        "config", "loss",
    )  # fmt: skip
    dtype, op_class = at["dtype"].optional(), at["op_class"].optional()
    key = RuleKey(
        backend=at["backend"].text(),
        collective=at["collective"].word(Collective),
        dtype=None if dtype is None else dtype.word(DType),
        op_class=None if op_class is None else op_class.word(OpClass),
        n_ranks=at["n_ranks"].whole(1, _MAX_RANKS),
        placement=tuple(part.whole(1, _MAX_RANKS) for part in at["placement"].items()),
    )
    parts = at["config"].members("algorithm", "segment_bytes", "codec", "knobs")
    segment = parts["segment_bytes"].optional()
    config = Config(
        algorithm=parts["algorithm"].text(),
        segment_bytes=None if segment is None else segment.whole(1),
        codec=parts["codec"].text(),
        knobs=tuple(sorted((name, _value(value)) for name, value in parts["knobs"].entries().items())),
    )
    return Route(
        key=key,
        from_bytes=at["from_bytes"].whole(),
        to_bytes=at["to_bytes"].whole(),
        group=at["group"].whole(),
        config=config,
        loss=at["loss"].number(),
    )
