"""The main job from end to end, as a user types it: run, show, explain, export, bench."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from cli.session import Here, Shell

from autotune.cli.tuning import _typed
from autotune.runtime import Selector, open_table
from autotune.table import load_table
from autotune.types import Memory


def test_a_run_leaves_a_table_that_a_job_finds(tuned: Shell) -> None:
    (path,) = tuned.tables
    selector = Selector(open_table(path))
    for message_bytes in (1024, 65536):
        choice = selector.select("broadcast", message_bytes=message_bytes, n_ranks=2)
        assert (choice.tuned, choice.evidence is not None) == (True, True)
    with tuned.store() as store:
        (session,) = store.sessions()
        assert session.state.value == "finished"
        assert session.command.endswith("run --collective broadcast --sizes 1K,64K --ranks 2")
        assert {trial.problem.message_bytes for trial in store.trials()} == {1024, 65536}


def test_a_run_prints_map_table_and_next_step_and_its_progress_elsewhere(shell: Shell, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    words = ("--collective", "all_reduce", "--sizes", "1K,4K", "--ranks", "2,3", "--quick", "--budget", "20s")
    done = shell("run", *words, "--table", str(copy))
    assert done.code == 0
    found = done.out.splitlines()
    assert "all_reduce float32 sum" in found
    heading = found.index("all_reduce float32 sum") + 1
    assert found[heading].split()[:3] == ["size", "2", "ranks"]
    assert [line.split()[0] for line in found[heading + 1 : heading + 3]] == ["1KiB", "4KiB"]
    assert found[-2].split()[:2] == ["table", str(copy)]
    assert found[-1].startswith("next ")
    assert load_table(copy) == load_table(shell.tables[0])
    progress = done.err.splitlines()
    assert progress[0] == "reading the host"
    cells = [line for line in progress if line.startswith("[")]
    assert cells[0].startswith("[0/4] all_reduce float32 sum, ")
    # In whichever order: with a budget the cells that promise most come first.
    for ranks in ("2 ranks", "3 ranks"):
        assert any(line[len("[0/4] ") :].startswith(f"all_reduce float32 sum, {ranks}") for line in cells)


def test_symmetric_memory_is_tuned_benched_and_explained_like_private(shell: Shell) -> None:
    words = ("--collective", "all_gather", "--sizes", "64K", "--ranks", "2", "--quick")
    done = shell("run", *words, "--memory", "symmetric", "--memory", "private")
    assert done.code == 0, done.err
    assert {"all_gather, symmetric memory", "all_gather"} < set(done.out.splitlines())
    (path,) = shell.tables
    for memory in ("symmetric", "private"):
        choice = Selector(open_table(path)).select("all_gather", message_bytes=65536, n_ranks=2, memory=memory)
        assert choice.tuned
    with shell.store() as store:
        trials = store.trials()
        zero_copy = {trial.problem.key.memory for trial in trials if ("exchange", "zero_copy") in trial.config.knobs}
        assert zero_copy == {Memory.SYMMETRIC}
        assert {trial.problem.key.memory for trial in trials} == set(Memory)
        assert {trial.state.value for trial in trials} == {"ok"}
    explained = shell("explain", "all_gather", "64K", "--ranks", "2", "--memory", "symmetric")
    assert "all_gather 64KiB, 2 ranks, symmetric memory" in explained.out
    assert "exchange=zero_copy" in explained.out
    assert "zero_copy" not in shell("explain", "all_gather", "64K", "--ranks", "2").out
    benched = shell("bench", *words[1:6], "--memory", "symmetric", "--tuned", "--rounds", "9", "--json")
    (result,) = benched.document["results"]
    assert (result["memory"], result["state"], result["n_wrong"], result["has_rule"]) == ("symmetric", "ok", 0, True)


def test_a_run_adds_to_the_table_of_earlier_ones(shell: Shell) -> None:
    for collective in ("broadcast", "all_gather"):
        assert shell("run", "--collective", collective, "--sizes", "1K", "--ranks", "2").code == 0
    document = shell("show", "--json").document
    assert sorted(key["collective"] for key in document["table"]["rules"]) == ["all_gather", "broadcast"]
    assert "v000002.json" in document["origin"]


def test_the_json_of_a_run_says_all_that_the_text_says(shell: Shell, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("collectives: [broadcast]\nsizes: [1K]\nranks: [2]\neffort: quick\n", "utf-8")
    done = shell("run", str(plan), "--json")
    assert done.code == 0
    document = done.document
    (cell,) = document["cells"]
    assert (cell["collective"], cell["message_bytes"], cell["n_ranks"]) == ("broadcast", 1024, 2)
    assert cell["low_us"] <= cell["median_us"] <= cell["high_us"]
    assert cell["n_rounds"] >= 9
    assert (document["cells_failed"], document["cells_not_measured"], document["failures"]) == ([], [], [])
    assert (document["resumed"], document["interrupted"]) == (False, False)
    assert load_table(document["table"]).digest == document["table_digest"]
    assert document["database"] == str(shell.database)


def test_a_budget_that_is_too_short_says_so_and_fails(shell: Shell) -> None:
    words = ("run", "--collective", "broadcast", "--sizes", "1K", "--ranks", "2", "--budget", "1ms")
    done = shell(*words)
    assert done.code == 1
    assert "not measured: 1 cell" in done.out
    assert "--budget" in done.out.splitlines()[-1]
    assert shell(*words, "--json").document["cells_not_measured"][0]["message_bytes"] == 1024
    assert shell("run", "--collective", "broadcast", "--sizes", "1K", "--ranks", "2").code == 0
    with shell.store() as store:
        assert len(store.sessions()) == 1


def test_a_dry_run_says_what_would_be_measured_and_touches_nothing(here: Here, tmp_path: Path) -> None:
    document = here("run", "--dry-run", "--quick", "--ranks", "2", "--budget", "2m", "--json").document
    assert document["collectives"] == ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
    assert (document["ranks"], document["budget_s"], document["cells"]) == ([2], 120.0, 32)
    assert document["configs"] > document["cells"]
    assert document["memory"] == ["private"]
    both = here("run", "--dry-run", "--quick", "--ranks", "2", "--memory", "symmetric", "--memory", "private", "--json")
    assert (both.document["memory"], both.document["cells"]) == (["symmetric", "private"], 64)
    text = here("run", "--dry-run", "--quick").out
    assert all(name in text for name in ("collectives", "sizes", "budget", "database"))
    assert list(tmp_path.iterdir()) == []


def test_the_command_is_stored_without_the_database() -> None:
    url = "postgresql://me:s3cret@host/db"
    assert (
        _typed(["/bin/autotune", "run", "a plan.yaml", "--db", url, "--quick"]) == "autotune run 'a plan.yaml' --quick"
    )
    assert _typed(["x", "run", f"--db={url}", "--json"]) == "autotune run --json"


def test_show_prints_every_rule(tuned_here: Here) -> None:
    found = tuned_here("show").out
    assert "broadcast, 2 ranks (native)" in found
    document = tuned_here("show", "--json").document
    assert "newest table" in document["origin"]
    assert len(document["table"]["rules"][0]["sizes"]) == 2


def test_show_without_a_table_says_what_to_do_and_shows_the_defaults(here: Here) -> None:
    found = here("show")
    assert found.code == 0
    assert "autotune probe" in found.out
    assert "default rules (native)" in found.out


def test_explain_finds_the_trials_behind_the_rule(tuned: Shell, tuned_here: Here) -> None:
    document = tuned_here("explain", "broadcast", "64KiB", "--ranks", "2", "--json").document
    assert document["tuned"] is True
    assert document["measured_message_bytes"] == 65536
    with tuned.store() as store:
        stored = {trial.trial_id: trial for trial in store.trials() if trial.problem.message_bytes == 65536}
    assert {candidate["trial_id"] for candidate in document["candidates"]} == stored.keys()
    chosen = document["candidates"][0]
    assert "chosen" in chosen["roles"]
    assert chosen["trial_id"] in document["rule"]["trial_ids"]
    assert chosen["n_confirm_samples"] == document["rule"]["n_rounds"]
    assert chosen["median_us"] == document["rule"]["median_us"]
    assert {role for candidate in document["candidates"] for role in candidate["roles"]} >= {
        "winner",
        "default",
        "ring",
    }
    text = tuned_here("explain", "broadcast", "64KiB", "--ranks", "2").out
    assert f"trials are in {tuned.database}" in text
    assert all(str(trial_id) in text for trial_id in stored)


def test_explain_outside_what_was_measured_says_that_the_default_stands(tuned_here: Here) -> None:
    document = tuned_here("explain", "broadcast", "1GiB", "--ranks", "2", "--json").document
    assert (document["tuned"], document["rule"], document["candidates"]) == (False, None, [])
    assert "outside the sizes" in document["reason"]


def test_explain_without_the_database_still_shows_the_rule(tuned_here: Here, tmp_path: Path) -> None:
    missing = tmp_path / "missing.sqlite"
    found = tuned_here("explain", "broadcast", "1KiB", "--ranks", "2", "--db", str(missing))
    assert found.code == 0
    assert found.out.splitlines()[-1] == f"no trials: there is no database {missing}; name theirs with --db"
    assert not missing.exists()


def test_explain_does_not_take_the_trials_of_another_run_for_those_of_the_rule(tuned_here: Here, shell: Shell) -> None:
    assert shell("run", "--collective", "all_gather", "--sizes", "1K", "--ranks", "2").code == 0
    found = tuned_here("explain", "broadcast", "1KiB", "--ranks", "2", "--db", str(shell.database))
    assert found.code == 0
    another = re.compile(rf"no trials: trial \d+ of {re.escape(str(shell.database))} is of another call")
    assert another.search(found.out) or "has no trial" in found.out


@pytest.mark.parametrize("name", ["json", "yaml"])
def test_an_exported_table_holds_the_same_decisions(tuned: Shell, tuned_here: Here, tmp_path: Path, name: str) -> None:
    printed = tuned_here("export", "--format", name)
    assert printed.code == 0
    assert ("AUTOTUNE_TABLE" in printed.err) == (name == "json"), "a JSON table is one that a job can be given"
    path = tmp_path / f"table.{name}"
    saved = tuned_here("export", "--format", name, "--output", str(path))
    assert (saved.code, saved.out) == (0, "")
    assert path.read_text("utf-8") == printed.out
    assert str(path) in saved.err
    document = json.loads(printed.out) if name == "json" else yaml.safe_load(printed.out)
    assert document["digest"] == load_table(tuned.tables[0]).digest


def test_an_exported_json_table_is_a_table(tuned: Shell, tuned_here: Here, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    tuned_here("export", "--format", "json", "--output", str(path))
    assert load_table(path) == load_table(tuned.tables[0])
    assert f"the table {path}" in tuned_here("show", "--table", str(path)).out


def test_export_without_a_table_is_an_error(here: Here) -> None:
    here("export", "--format", "json").assert_refused("no table to export", "try: autotune run --quick")


def test_bench_compares_the_tuned_config_with_the_ring(tuned_here: Here) -> None:
    words = (
        "bench",
        "broadcast",
        "--sizes",
        "1K,64K",
        "--ranks",
        "2",
        "--tuned",
        "--algorithm",
        "ring",
        "--rounds",
        "9",
    )
    found = tuned_here(*words)
    assert found.code == 0
    lines = [line for line in found.out.splitlines() if not line.startswith("#")]
    assert lines[0].split()[:6] == ["ranks", "size", "count", "type", "op", "config"]
    assert [line.split()[1] for line in lines[1:]] == ["1KiB", "1KiB", "64KiB", "64KiB"]
    assert ["tuned" in line for line in lines[1:]] == [False, True, False, True]  # which may be a ring, too
    document = tuned_here(*words, "--json").document
    assert document["n_rounds"] == 9
    for result in document["results"]:
        assert (result["state"], result["n_wrong"], result["n_rounds"]) == ("ok", 0, 9)
        expected = result["message_bytes"] / result["median_us"] / 1e3
        assert result["algbw_gb_per_s"] == pytest.approx(expected)
        assert result["link_gb_per_s"] is None or result["utilisation"] > 0.0
    rings, tuned = ([r for r in document["results"] if (r["contender"] == "tuned") is tunes] for tunes in (False, True))
    for ring, best in zip(rings, tuned, strict=True):
        if ring["config"] == best["config"]:  # one contender under two names: nothing was measured against itself
            assert best["gain"] is None
        else:
            assert best["gain_low"] <= best["gain"] <= best["gain_high"]


def test_bench_scales_over_rank_counts(here: Here) -> None:
    words = ("bench", "all_reduce", "--sizes", "1K", "--ranks", "2,3", "--rounds", "9", "--scaling")
    found = here(*words)
    assert found.code == 0
    lines = [line for line in found.out.splitlines() if not line.startswith("#")]
    assert lines[0].split()[-1] == "speed-up"
    assert [line.split()[-1] for line in lines[1:2]] == ["1.00"]
    assert len(lines) == 3
    assert any(line.startswith("measuring ") for line in found.err.splitlines())  # the links, since no run did
    assert all(" % " in line for line in lines[1:])
    assert found.err.splitlines()[-2:] == [
        "[0/2] all_reduce float32 sum 1KiB, 2 ranks",
        "[1/2] all_reduce float32 sum 1KiB, 3 ranks",
    ]


def test_bench_of_what_is_tuned_needs_a_table(here: Here) -> None:
    here("bench", "broadcast", "--ranks", "2", "--tuned").assert_refused(
        "nothing is tuned here", "autotune run --quick"
    )
