"""Every export format: what it writes can be read back, and it says what it loses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from table_strategies import sample_table, tables

from autotune.exchange import EXPORTERS, Exporter
from autotune.table import TuningTable, parse_table

GOLDEN = Path(__file__).parents[1] / "golden" / "tables"


@pytest.mark.parametrize(("name", "exporter"), EXPORTERS.items())
def test_an_exporter_describes_itself(name: str, exporter: Exporter) -> None:
    assert exporter.name == name
    assert exporter.suffix.startswith(".")
    assert all(exporter.loses) or exporter.loses == ()


@pytest.mark.parametrize("exporter", EXPORTERS.values(), ids=EXPORTERS)
def test_the_output_is_the_golden_one(exporter: Exporter) -> None:
    path = GOLDEN / f"v1{exporter.suffix}"
    text = exporter.render(sample_table())
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@given(table=tables())
def test_yaml_comes_back_equal(table: TuningTable) -> None:
    back = parse_table(json.dumps(yaml.safe_load(EXPORTERS["yaml"].render(table))), "export")
    assert back == table
    assert back.digest == table.digest


def test_yaml_keeps_texts_that_look_like_numbers_apart() -> None:
    text = EXPORTERS["yaml"].render(sample_table())
    assert "fingerprint: '12e4567890123456'" in text
    assert "&id" not in text
