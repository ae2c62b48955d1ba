"""docs/export.md and docs/import.md are those that the formats make, and what they show works."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from exchange.pages import export_page, import_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "made"), [("export.md", export_page), ("import.md", import_page)])
def test_the_page_is_the_one_that_the_formats_make(name: str, made: object) -> None:
    assert callable(made)
    text = made()
    if os.environ.get("UPDATE_GOLDEN") == "1":
        (DOCS / name).write_text(text, encoding="utf-8")
    assert (DOCS / name).read_text(encoding="utf-8") == text


def test_files_that_the_pages_name_exist() -> None:
    assert all((DOCS / "examples" / f"eight_npus.{end}").exists() for end in ("csv", "json"))
    assert "docs/examples/eight_npus.csv" in import_page()
