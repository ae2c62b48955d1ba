"""What comes with the package: each backend's default rules, and tables that hold nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from ..errors import UsageError
from ..types import Collective, Config
from .decode import check_version, parse_defaults, parse_rows
from .defaults import DefaultRow, DefaultRules
from .load import read_text
from .reader import Node, read_json
from .tuning_table import TuningTable

BACKENDS = ("native", "torch", "gloo", "hccl", "openmpi", "mpich")
"""Those whose configs this host can run; each has tables of its own."""

LIBRARY = Config(algorithm="library")
"""The collective of the library that a backend runs over, as the library itself chooses to do it."""

_OWN_CHOICE = dict.fromkeys(("hccl", "openmpi", "mpich"), Config(algorithm="auto"))
"""The same where the library's algorithms are configs by name: what logs and exporters call it."""


def native_defaults(l2_bytes: int | None = None) -> DefaultRules:
    """What a good engineer would choose unmeasured: for shared memory on one host, and for sockets between several.

    Args:
        l2_bytes: of a core's second-level cache on the host; None where it is not known, and for any host's.
    """
    return shipped_table(l2_bytes=l2_bytes).defaults


def shipped_table(backend: str = "native", *, l2_bytes: int | None = None) -> TuningTable:
    """A table without rules, so that every call gets the backend's default.

    Args:
        l2_bytes: as for `native_defaults`.

    Raises:
        UsageError: no such backend.
    """
    if backend not in BACKENDS:
        raise UsageError(
            f"backend {backend!r} has no default rules; the backends are {', '.join(BACKENDS)}",
            remedy=f"use one of them, or a table of {backend!r}",
        )
    return _library_table(backend) if backend != "native" else _native_table(l2_bytes)


@cache
def _library_table(backend: str) -> TuningTable:
    return _table(_library_defaults(backend), "2026-11-29T00:00:00Z")


@cache
def _native_table(l2_bytes: int | None) -> TuningTable:
    path = Path(__file__).with_name("native_defaults.json")
    root = read_json(read_text(path), path.name)
    check_version(root)
    parts = root.members("schema_version", "created_at", "defaults", "large_l2")
    rules = parse_defaults(parts["defaults"])
    large = parts["large_l2"].members("above_bytes", "rows")
    if l2_bytes is not None and l2_bytes > large["above_bytes"].whole():
        rules = _with(rules, large["rows"])
    return _table(rules, parts["created_at"].text())


def _with(rules: DefaultRules, node: Node) -> DefaultRules:
    """The rules, with other rows for each kind of call (collective, memory, spread) that these name."""
    others = parse_rows(node)
    named = {(row.collective, row.memory, row.spread) for row in others}
    kept = (row for row in rules.rows if (row.collective, row.memory, row.spread) not in named)
    return replace(rules, rows=(*kept, *others))


def _library_defaults(backend: str) -> DefaultRules:
    """What runs without us: the library's own collective, whatever the call."""
    config = _OWN_CHOICE.get(backend, LIBRARY)
    rows = (
        DefaultRow(collective=collective, ranks_from=1, ranks_to=None, from_bytes=0, config=config)
        for collective in Collective
    )
    return DefaultRules(backend=backend, rows=tuple(rows))


def _table(defaults: DefaultRules, created_at: str) -> TuningTable:
    return TuningTable(
        fingerprint=None,
        environment={},
        created_at=created_at,
        test="none: shipped rules, not measured on this machine",
        rules={},
        defaults=defaults,
    )
