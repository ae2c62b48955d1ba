"""docs/table.schema.json and docs/table.md against the code: what is written down is what is built."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator
from table_strategies import sample_table, tables

from autotune.table import TuningTable, document, dump_table, parse_table, shipped_table

DOCS = Path(__file__).parents[2] / "docs"
VALIDATOR = Draft202012Validator(json.loads((DOCS / "table.schema.json").read_text(encoding="utf-8")))

Place = tuple[str | int, ...]
KEY: Place = ("rules", 0)
SIZE: Place = (*KEY, "sizes", 1)
CONFIG: Place = (*SIZE, "config")
ROW: Place = ("defaults", "rows", 0)
FAULTS: list[tuple[Place, object]] = [
    (("schema_version",), 2),
    (("schema_version",), "1"),
    (("digest",), "abc"),
    (("fingerprint",), "0123"),
    (("host_fingerprints",), ["a" * 16, "a" * 16]),
    (("environment",), {"python": 3}),
    (("environment",), {"python": "3\n"}),
    (("created_at",), "2026-01-31"),
    (("test",), None),
    (("rules",), {}),
    (("defaults", "rows"), []),
    (("defaults", "backend"), 1),
    (("comment",), ""),
    ((*KEY, "collective"), "allreduce"),
    ((*KEY, "dtype"), "fp32"),
    ((*KEY, "dtype"), None),
    ((*KEY, "op_class"), None),
    ((*KEY, "n_ranks"), 0),
    ((*KEY, "n_ranks"), "4"),
    ((*KEY, "placement"), []),
    ((*KEY, "memory"), "shared"),
    ((*ROW, "memory"), "shared"),
    ((*ROW, "memory"), None),
    ((*ROW, "spread"), "two_hosts"),
    ((*ROW, "spread"), None),
    ((*KEY, "max_error"), 0),
    ((*KEY, "sizes"), []),
    (("rules", 2, "dtype"), "float32"),
    ((*SIZE, "from_bytes"), "8"),
    ((*SIZE, "from_bytes"), 8.5),
    ((*SIZE, "to_bytes"), 1 << 60),
    ((*SIZE, "evidence"), "guessed"),
    ((*SIZE, "is_default"), 0),
    ((*SIZE, "is_default"), True),
    ((*SIZE, "n_rounds"), 0),
    ((*SIZE, "median_us"), 0),
    ((*SIZE, "low_us"), None),
    ((*SIZE, "gain"), None),
    ((*SIZE, "gain_high"), None),
    ((*SIZE, "ring_gain"), -1),
    ((*SIZE, "trial_ids"), []),
    ((*SIZE, "trial_ids"), [1, 1]),
    ((*SIZE, "note"), ""),
    ((*CONFIG, "algorithm"), ""),
    ((*CONFIG, "algorithm"), "x" * 65),
    ((*CONFIG, "segment_bytes"), 0),
    ((*CONFIG, "codec"), "int8"),
    ((*CONFIG, "knobs"), {"slices": 1.5}),
    ((*CONFIG, "knobs"), {"slices": True}),
    ((*ROW, "ranks_from"), 0),
    ((*ROW, "ranks_to"), 1),
    ((*ROW, "config", "codec"), "int8"),
    ((*ROW, "backend"), "native"),
]


def valid(root: object) -> bool:
    return bool(VALIDATOR.is_valid(root))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(VALIDATOR.schema)


@given(table=tables())
def test_what_is_written_fits_the_schema(table: TuningTable) -> None:
    VALIDATOR.validate(json.loads(dump_table(table)))


def test_the_shipped_table_fits_the_schema() -> None:
    VALIDATOR.validate(json.loads(dump_table(shipped_table())))


@pytest.mark.parametrize(("place", "value"), FAULTS)
def test_the_schema_refuses_planted_faults(place: Place, value: object) -> None:
    root = json.loads(json.dumps(document(sample_table())))
    assert valid(root)
    inside: Any = root
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    assert not valid(root)


def test_the_schema_refuses_a_missing_name_at_every_level() -> None:
    good = json.dumps(document(sample_table()))
    for path in ((), KEY, SIZE, CONFIG, ("defaults",), ROW):
        count = len(at(json.loads(good), path))
        for index in range(count):
            root = json.loads(good)
            inside = at(root, path)
            del inside[list(inside)[index]]
            assert not valid(root), (path, index)


def at(root: dict[str, Any], path: Place) -> dict[str, Any]:
    found: Any = root
    for step in path:
        found = found[step]
    assert isinstance(found, dict)
    return found


def test_the_example_in_the_documentation_is_a_table() -> None:
    text = (DOCS / "table.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    table = parse_table(example, "docs/table.md")
    assert dump_table(table) == example
    VALIDATOR.validate(json.loads(example))


def test_the_documentation_explains_every_field() -> None:
    text = (DOCS / "table.md").read_text(encoding="utf-8")
    names = set(re.findall(r'"(\w+)":', dump_table(sample_table()))) - {"python", "cpu_model", "outbox_store", "slices"}
    assert {name for name in names if f"| `{name}` |" not in text} == set()
