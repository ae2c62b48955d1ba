"""What comes with the package: the native backend's default rules, and a table that holds nothing else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .decode import check_version, parse_defaults
from .defaults import DefaultRules
from .load import read_text
from .reader import read_json
from .tuning_table import TuningTable


def native_defaults() -> DefaultRules:
    """What a good engineer would choose unmeasured, for shared memory on one host."""
    return shipped_table().defaults


@cache
def shipped_table() -> TuningTable:
    """A table without rules, so that every call gets the default."""
    path = Path(__file__).with_name("native_defaults.json")
    root = read_json(read_text(path), path.name)
    check_version(root)
    parts = root.members("schema_version", "created_at", "defaults")
    return TuningTable(
        fingerprint=None,
        environment={},
        created_at=parts["created_at"].text(),
        test="none: shipped rules, not measured on this machine",
        rules={},
        defaults=parse_defaults(parts["defaults"]),
    )
