"""kernels/README.md shows what the schedules cost, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.kernels.schedules import ALGORITHMS, catalogue

README = Path(__file__).parents[2] / "kernels" / "README.md"
BEGIN, END = "<!-- algorithms:begin -->\n", "<!-- algorithms:end -->\n"


def test_the_readme_has_the_table() -> None:
    """UPDATE_GOLDEN=1 pytest writes it anew."""
    text = README.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    assert begin
    assert end
    table = catalogue.markdown_table()
    if os.environ.get("UPDATE_GOLDEN") == "1":
        README.write_text(before + BEGIN + table + END + after, encoding="utf-8")
    else:
        assert old == table


def test_the_rows_hold_every_algorithm_for_every_collective_once() -> None:
    shown = [(row.name, collective) for row in catalogue.rows() for collective in row.collectives]
    assert sorted(shown, key=str) == sorted(((a.name, c) for a in ALGORITHMS for c in a.collectives), key=str)


def test_a_cost_without_a_formula_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_STEPS", {"1": catalogue._STEPS["1"]})
    with pytest.raises(ValueError, match="no formula gives"):
        catalogue.markdown_table()
