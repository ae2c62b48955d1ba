from __future__ import annotations

import pytest
from report.made import lines
from rich.text import Text

from autotune.report.grid import grid, listing


def test_columns_are_aligned_and_two_blanks_apart() -> None:
    table = grid(("name", ">us"), [("ring", "9.5"), ("tree", "10.25")])
    assert lines(table) == ["name     us", "ring    9.5", "tree  10.25"]


def test_what_looks_like_markup_is_shown() -> None:
    assert lines(grid(("a",), [("[bold]x[/bold] [1.25, 1.38] :smile:",)]))[1] == "[bold]x[/bold] [1.25, 1.38] :smile:"


@pytest.mark.parametrize("width", [1, 10, 20, 40])
def test_a_figure_is_never_cut(width: int) -> None:
    table = grid(
        (">us", "config", "note"), [("123456.789", "recursive_halving_doubling/64KiB", "x")], folds={"note": 1}
    )
    assert any("123456.789  recursive_halving_doubling/64KiB  x" in line for line in lines(table, width))


def test_a_column_that_may_fold_gives_way_down_to_its_least_width() -> None:
    words = "one two three four five"
    narrow = lines(grid(("n", "words"), [("1", words)], folds={"words": 9}), 12)
    assert narrow == ["n  words", "1  one two", "   three", "   four five"]
    assert lines(grid(("n", "words"), [("1", words)], folds={"words": 9}), 80)[1] == f"1  {words}"


def test_a_table_without_rows_has_its_headings() -> None:
    assert lines(grid(("a", ">b"), [])) == ["a  b"]


def test_a_listing_keeps_the_lines_of_its_cells() -> None:
    assert lines(listing([("error", "memory: too little\ntry: more"), (Text("ok"), "load")])) == [
        "error  memory: too little",
        "       try: more",
        "ok     load",
    ]
