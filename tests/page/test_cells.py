"""What is in the heat map and behind it: the table's decisions, with the proof that belongs to them and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from page.scene import SIZES, Scene
from report.made import DIRECT, RING, a_failure, a_key, a_problem, a_trial

from autotune.report.page.cells import Cell, Kind, cell_at, kinds_of, row_sizes
from autotune.report.page.contents import Contents
from autotune.report.page.grid import heat_map
from autotune.report.page.words import card, failures, kept, summary
from autotune.table import shipped_table
from autotune.types import Collective, Trial


@pytest.fixture
def kinds(contents: Contents) -> tuple[Kind, ...]:
    return kinds_of(contents.table, contents.trials, contents.reference)


def all_reduce(kinds: tuple[Kind, ...]) -> Kind:
    return next(kind for kind in kinds if kind.key.collective is Collective.ALL_REDUCE)


def test_every_rule_has_its_cell_with_the_trials_that_prove_it(kinds: tuple[Kind, ...], scene: Scene) -> None:
    cells = [cell for kind in kinds for column in kind.columns for cell in column.cells]
    rules = [rule for rules in scene.table.rules.values() for rule in rules]
    assert sorted(rule.trial_ids for rule in rules) == sorted(cell.rule.trial_ids for cell in cells if cell.rule)
    for cell in cells:
        assert cell.rule is not None
        assert cell.proof is not None
        tried = {candidate.trial.trial_id for candidate in cell.proof.candidates}
        assert tried.issuperset(cell.rule.trial_ids)
        assert {candidate.trial.problem for candidate in cell.proof.candidates} == {cell.problem}


def test_a_card_has_time_gain_interval_and_the_runners_up(kinds: tuple[Kind, ...]) -> None:
    cell = cell_at(all_reduce(kinds).columns[0], 1 << 20)
    assert cell is not None
    assert cell.rule is not None
    found = card(cell)
    facts = dict(found.facts)
    assert found.title == "all_reduce float32 sum 1MiB, 2 ranks"
    assert facts["config"] == str(DIRECT)
    assert facts["gain"].startswith(f"{cell.rule.gain:.2f}x [{cell.rule.gain_low:.2f}, ")
    assert 1.98 < (cell.rule.gain or 0) < 2.02
    assert facts["time"].startswith("85.") or facts["time"].startswith("86.")
    assert found.runners[0].config == str(DIRECT)
    assert len(found.runners) > 2
    assert found.runners[0].against == "chosen"
    assert all("x" in runner.against for runner in found.runners[1:])
    assert found.command == "autotune explain all_reduce 1MiB --ranks 2 --dtype float32"
    assert "was replaced by direct/16KiB" in found.why
    assert "The test" not in found.why


def test_what_stayed_is_said_with_the_reason(kinds: tuple[Kind, ...]) -> None:
    rows = kept(all_reduce(kinds))
    assert [(row.ranks, row.sizes) for row in rows if row.ranks == "2 ranks"] == [("2 ranks", "1KiB")]
    assert all(row.why.startswith(("flat/", "direct/")) for row in rows)


def test_the_summary_counts_what_the_table_holds(kinds: tuple[Kind, ...]) -> None:
    first, mean, best, *_ = summary(kinds)
    assert first == ("2 of 9", "cells are faster than the default, significantly")
    assert mean[0] == "1.17x"  # two cells of nine with a gain of two: 2 ** (2 / 9)
    assert best[0] == "2.00x"
    assert summary(()) == ()


def test_a_cell_is_found_on_its_row_and_on_rows_that_its_rule_covers(kinds: tuple[Kind, ...]) -> None:
    column = all_reduce(kinds).columns[0]
    for size, expected in ((1024, 1024), (2048, 1024), (65536, 65536), (1 << 20, 1 << 20)):
        found = cell_at(column, size)
        assert found is not None
        assert found.message_bytes == expected
    assert cell_at(column, 1 << 21) is None
    assert cell_at(column, 8) is None


def test_a_size_that_was_rounded_up_is_no_row_of_its_own() -> None:
    """8 bytes are one element of 4 bytes for each of two ranks, and 16 bytes for four."""
    scatter = Collective.REDUCE_SCATTER
    two, four = a_key(2, scatter), a_key(4, scatter)
    columns = [
        replace(kind, key=kind.key)
        for kind in kinds_of(
            shipped_table(), [a_failure(1, a_problem(8, two), RING), a_failure(2, a_problem(16, four), RING)], RING
        )
    ]
    assert [row_sizes(kind) for kind in columns] == [(8,)]
    squares = heat_map(columns[0], 0).rows[0][1]
    assert [square.look for square in squares] == ["failed", "failed"]


def test_without_trials_the_rules_stand_alone_and_say_so(contents: Contents) -> None:
    bare = kinds_of(contents.table, (), contents.reference)
    assert [row_sizes(kind)[0] for kind in bare] == [SIZES[0]] * len(bare)
    cells = [cell for kind in bare for column in kind.columns for cell in column.cells]
    assert all(cell.proof is None for cell in cells)
    assert all(cell.rule and cell.rule.from_bytes <= cell.message_bytes < cell.rule.to_bytes for cell in cells)
    assert "trials behind this measured rule are not at hand" in card(cells[0]).why


def test_trials_of_another_store_prove_nothing(contents: Contents) -> None:
    """The planted fault: the same numbers, another problem."""
    others: list[Trial] = [
        a_trial(trial_id, a_problem(4 << 20), DIRECT, 10.0, confirm=12)
        for rules in contents.table.rules.values()
        for rule in rules
        for trial_id in rule.trial_ids
    ]
    cells = [
        cell
        for kind in kinds_of(contents.table, others, contents.reference)
        for column in kind.columns
        for cell in column.cells
    ]
    assert cells
    assert all(cell.proof is None for cell in cells)


def test_a_cell_without_a_decision_names_the_failure() -> None:
    cell = Cell(key=a_key(), message_bytes=8, rule=None, failure=a_failure(1, a_problem(8), RING))
    assert "No decision was possible" in card(cell).why
    assert "rank 1 has 3 at element 7" in card(cell).why


def test_failures_are_listed_up_to_fifty_and_counted_all() -> None:
    trials = [a_failure(number, a_problem(8), RING) for number in range(60)]
    rows, counts = failures(trials)
    assert (len(rows), counts) == (50, "60 wrong result")
    assert failures([]) == ((), "")
