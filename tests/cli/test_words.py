"""Words that cannot be meant: exit code 2, an ``error:`` and a ``try:`` line with the nearest right word, no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.session import Here


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rnu"], ["unknown command 'rnu'", "try: autotune run"]),
        (["xyzzy"], ["unknown command 'xyzzy'", "try: autotune --help"]),
        (["run", "--rank", "2"], ["no such option", "--rank", "try: autotune run --ranks"]),
        (["run", "--xyzzy"], ["no such option", "--xyzzy", "try: autotune run --help"]),
        (["run", "--sizes"], ["--sizes", "try: autotune run --help"]),
        (["run", "a.yaml", "b.yaml"], ["b.yaml", "try: autotune run --help"]),
        (["bench"], ["missing argument", "COLLECTIVE", "try: autotune bench --help"]),
        (["export"], ["missing option '--format'", "try: autotune export --help"]),
        (["explain", "all_reduce"], ["one size and number of ranks", "try: give SIZE and --ranks"]),
        (["explain", "all_reduce", "4MiB"], ["one size and number of ranks", "try: give SIZE and --ranks"]),
        (["--verbose"], ["no such option", "--verbose"]),
        (["--version=2"], ["--version"]),
    ],
)
def test_words_that_no_command_takes(here: Here, words: list[str], says: list[str]) -> None:
    here(*words).assert_refused(*says, code=2)


@pytest.mark.parametrize("size", ["12MB", "1e6k", "", "-8", "8-", "64MiB-8", "1.5K", "9999999999999999999999", "8\0"])
def test_sizes_that_cannot_be_meant(here: Here, size: str) -> None:
    here("run", f"--sizes={size}").assert_refused("size", code=2)
    here("bench", "all_reduce", f"--sizes={size}").assert_refused("size", code=2)


@pytest.mark.parametrize("ranks", ["0", "", "two", "2,,4", "-1", "1025", "2.0", "٣"])
def test_rank_counts_that_cannot_be_meant(here: Here, ranks: str) -> None:
    for words in (["run"], ["explain", "all_reduce", "4MiB"], ["bench", "all_reduce"], ["algorithms"], ["doctor"]):
        here(*words, f"--ranks={ranks}").assert_refused("rank count", code=2)


@pytest.mark.parametrize("words", [["explain", "all_reduce", "4MiB"], ["algorithms"], ["doctor"]])
def test_one_rank_count_is_asked_for_where_one_is_shown(here: Here, words: list[str]) -> None:
    here(*words, "--ranks", "2,4").assert_refused("2 rank counts", "try: give one: --ranks 2", code=2)


@pytest.mark.parametrize("budget", ["2", "0s", "two minutes", "", "-1m", "1e9h"])
def test_budgets_that_cannot_be_meant(here: Here, budget: str) -> None:
    here("run", f"--budget={budget}").assert_refused("duration", "2m", code=2)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--collective", "allreduce"],
        ["explain", "allreduce", "4MiB", "--ranks", "2"],
        ["bench", "allreduce"],
        ["algorithms", "--collective", "allreduce"],
    ],
)
def test_an_unknown_collective_is_answered_with_the_nearest(here: Here, words: list[str]) -> None:
    here(*words).assert_refused("'allreduce'", "all_reduce", code=2)


@pytest.mark.parametrize(("option", "word", "nearest"), [("--dtype", "float3", "float32"), ("--op", "summ", "sum")])
def test_unknown_types_and_operations_are_answered_with_the_nearest(
    here: Here, option: str, word: str, nearest: str
) -> None:
    here("bench", "all_reduce", option, word).assert_refused(repr(word), nearest, code=2)
    here("explain", "all_reduce", "4MiB", "--ranks", "2", option, word).assert_refused(repr(word), nearest, code=2)


def test_an_unknown_memory_is_answered_with_the_nearest(here: Here) -> None:
    for words in (["run"], ["bench", "all_reduce"], ["explain", "all_reduce", "4MiB", "--ranks", "2"]):
        here(*words, "--memory", "symetric").assert_refused("'symetric'", "symmetric", code=2)


@pytest.mark.parametrize("rounds", ["8", "1001", "nine", ""])
def test_rounds_are_nine_to_a_thousand(here: Here, rounds: str) -> None:
    here("bench", "all_reduce", f"--rounds={rounds}").assert_refused("rounds", "9", code=2)


def test_an_algorithm_that_cannot_run_is_refused_before_ranks_start(here: Here) -> None:
    words = ["bench", "all_reduce", "--ranks", "2", "--algorithm"]
    here(*words, "rng").assert_refused("algorithm 'rng'", "try: write ring", code=2)
    here(*words, "").assert_refused("algorithm ''", code=2)
    here(*words, "ring", "--segment", "0").assert_refused("segment '0'", code=2)
    here(*words, "pairwise").assert_refused("pairwise", "all_reduce", "ring", code=2)


def test_a_format_that_is_not_known_is_answered_with_the_nearest(here: Here) -> None:
    here("export", "--format", "jsn").assert_refused("'jsn'", "try: write json", code=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colectives: [all_reduce]\n", ["plan.yaml:1:1", "'colectives'", "try: write collectives"]),
        ("collectives: [allreduce]\n", ["plan.yaml:1:15", "'allreduce'", "try: write all_reduce"]),
        ("sizes: 12MB\n", ["plan.yaml:1:8", "'12MB'"]),
        ("ranks: 0\n", ["plan.yaml:1:8", "'0'"]),
        ("", ["plan.yaml", "empty"]),
        ("a: [1\n", ["plan.yaml"]),
        ("sizes: \x07\n", ["plan.yaml"]),
    ],
)
def test_a_plan_that_cannot_be_meant(here: Here, tmp_path: Path, text: str, says: list[str]) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(text, "utf-8")
    here("run", str(plan)).assert_refused(*says, code=2)


def test_a_plan_that_is_not_there(here: Here) -> None:
    here("run", "nowhere.yaml").assert_refused("'nowhere.yaml'", "No such file", code=2)


def test_a_plan_file_and_quick_are_two_plans(here: Here, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("ranks: 2\n", "utf-8")
    here("run", str(plan), "--quick").assert_refused("--quick", "effort: quick", code=2)


def test_a_variable_that_cannot_be_meant_is_named(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_TIMEOUT", "soon")
    here("settings").assert_refused("AUTOTUNE_TIMEOUT", "'soon'", code=2)


def test_nothing_was_written_by_words_that_were_refused(here: Here, tmp_path: Path) -> None:
    here("run", "--sizes", "12MB")
    here("explain", "all_reduce", "4MiB", "--ranks", "0")
    assert list(tmp_path.iterdir()) == []
