"""Every export format: its golden file, what it says that it loses, and round trips where all of a table comes back."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from exchange.library_tables import hccl_table, native_table, nccl_table
from exchange.selection_tree import BASE
from hypothesis import given
from table_strategies import sample_table, tables

from autotune.errors import AutotuneError
from autotune.exchange import EXPORTERS, Exporter, Request, Wire
from autotune.exchange.csv_format import COLUMNS
from autotune.exchange.words import library_names
from autotune.table import TuningTable, native_defaults, parse_table
from autotune.types import Evidence

ROOT = Path(__file__).parents[1] / "golden"
ASKED = Request(base=BASE, channels=8, protocol=Wire.SIMPLE)
GOLDEN = {
    **{f"exports/native-{name}": (name, native_table()) for name in EXPORTERS if name not in ("json", "yaml")},
    "exports/hccl-hccl-tuner": ("hccl-tuner", hccl_table()),
    "exports/nccl-nccl-tuner": ("nccl-tuner", nccl_table()),
    "tables/v1": ("json", sample_table()),
    "tables/v1.": ("yaml", sample_table()),
}


@pytest.mark.parametrize(("name", "exporter"), EXPORTERS.items())
def test_an_exporter_describes_itself(name: str, exporter: Exporter) -> None:
    assert exporter.name == name
    assert exporter.suffix.startswith(".")
    assert exporter.summary
    assert exporter.checked
    assert all(exporter.loses) or exporter.loses == ()
    assert exporter.library is None or exporter.library in library_names()


@pytest.mark.parametrize(("place", "name", "table"), [(place, *what) for place, what in GOLDEN.items()], ids=GOLDEN)
def test_the_output_is_the_golden_one(place: str, name: str, table: TuningTable) -> None:
    exporter = EXPORTERS[name]
    exported = exporter.render(table, ASKED)
    files = exported.files(ROOT / f"{place.rstrip('.')}{exporter.suffix}")
    if place.startswith("exports/"):
        files[ROOT / f"{place}.notes.txt"] = "".join(f"{note}\n" for note in exported.notes)
    for path, text in files.items():
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", [name for name in EXPORTERS if EXPORTERS[name].library is not None])
def test_a_table_that_says_nothing_to_a_library_is_refused(name: str) -> None:
    empty = TuningTable(
        fingerprint=None,
        environment={},
        created_at="2026-01-31T12:00:00Z",
        test="none",
        rules={},
        defaults=native_defaults(),
    )
    with pytest.raises(AutotuneError, match=f"no rule can be written as {name}"):
        EXPORTERS[name].render(empty, ASKED)


@pytest.mark.parametrize("name", [name for name in EXPORTERS if EXPORTERS[name].library is not None])
def test_rules_on_other_evidence_are_left_out_unless_they_are_asked_for(name: str) -> None:
    table = native_table()
    rules = {
        key: tuple(replace(rule, evidence=Evidence.IMPORTED) for rule in found) for key, found in table.rules.items()
    }
    imported = replace(table, rules=rules)
    with pytest.raises(AutotuneError, match="rules on imported evidence are left out") as found:
        EXPORTERS[name].render(imported, ASKED)
    assert "--evidence imported" in found.value.remedy
    asked = replace(ASKED, evidence=frozenset({Evidence.IMPORTED}))
    assert EXPORTERS[name].render(imported, asked).text == EXPORTERS[name].render(table, ASKED).text


@given(table=tables())
def test_yaml_comes_back_equal(table: TuningTable) -> None:
    back = parse_table(json.dumps(yaml.safe_load(EXPORTERS["yaml"].render(table, Request()).text)), "export")
    assert back == table
    assert back.digest == table.digest


def test_yaml_keeps_texts_that_look_like_numbers_apart() -> None:
    text = EXPORTERS["yaml"].render(sample_table(), Request()).text
    assert "fingerprint: '12e4567890123456'" in text
    assert "&id" not in text


@given(table=tables())
def test_csv_holds_every_rule_and_its_figures(table: TuningTable) -> None:
    text = EXPORTERS["csv"].render(table, Request()).text
    rows = list(csv.DictReader(text.splitlines(keepends=True), strict=True))
    every = [(key, rule) for key, rules in table.rules.items() for rule in rules]
    assert len(rows) == len(every)
    assert text.startswith(",".join(COLUMNS))
    for row, (key, rule) in zip(rows, every, strict=True):
        assert (int(row["from_bytes"]), int(row["to_bytes"])) == (rule.from_bytes, rule.to_bytes)
        assert tuple(map(int, row["placement"].split("+"))) == key.placement
        assert float(row["median_us"]) == rule.median_us
        assert (row["gain"] == "") == (rule.gain is None)
        assert row["algorithm"] == rule.config.algorithm
        assert json.loads(row["knobs"]) == dict(rule.config.knobs)


@given(table=tables())
def test_markdown_has_a_line_for_every_rule(table: TuningTable) -> None:
    lines = EXPORTERS["markdown"].render(table, Request()).text.splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| sizes")]
    assert len(rows) == sum(map(len, table.rules.values()))
