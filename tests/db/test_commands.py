"""The commands of ``autotune db``: each through the command line, in words and in JSON."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli.session import Result
from store_contract import RING, SMALL, TREE, opened, timed

from autotune.cli.main import main
from autotune.db import open_store
from autotune.db.models import SCHEMA_VERSION

GOLDEN = Path(__file__).parents[1] / "golden" / "db"
Run = Callable[..., Result]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of one session."""
    path = tmp_path / "trials.sqlite"
    with closing(open_store(str(path))) as store:
        store.add_round(opened(store).session_id, [timed(SMALL, RING, 0), timed(SMALL, TREE, 0)])
    return path


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``autotune db ...`` in this process, on that store."""
    monkeypatch.setenv("AUTOTUNE_DB", str(path))

    def run(*words: str) -> Result:
        with pytest.raises(SystemExit) as end:
            main(["db", *words])
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Result(code=end.value.code, out=captured.out, err=captured.err)

    return run


def test_status(run: Run, path: Path) -> None:
    document = run("status", "--json").document
    assert (document["shown"], document["schema_version"], document["is_current"]) == (str(path), SCHEMA_VERSION, True)
    assert document["sessions"] == {"running": 1, "interrupted": 0, "finished": 0}
    assert document["rows"]["trials"] == 2
    words = run("status").out
    assert f"version {SCHEMA_VERSION}\n" in words
    assert "1 running, 0 interrupted, 0 finished" in words


def test_status_of_an_old_schema_says_how_to_upgrade(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "old.sqlite"
    shutil.copyfile(GOLDEN / "v1.sqlite", old)
    assert "autotune db upgrade" in run("status", "--db", str(old)).out


def test_upgrade(run: Run, tmp_path: Path) -> None:
    for words in ((), ("--json",)):
        old = tmp_path / "old.sqlite"
        shutil.copyfile(GOLDEN / "v2.sqlite", old)
        done = run("upgrade", "--db", str(old), *words)
        assert (done.code, f"{old}.v2" in done.out) == (0, True)
    assert done.document == {"before": 2, "after": SCHEMA_VERSION, "backup": f"{old}.v2"}
    assert "nothing to do" in run("upgrade", "--db", str(old)).out


def test_prune_deletes_only_with_yes(run: Run, path: Path) -> None:
    with closing(open_store(str(path))) as store:
        before = store.trials()
        assert "would be deleted: 0 sessions" in run("prune").out
        assert run("prune", "--json").document == {
            "sessions": 0,
            "cells": 0,
            "trials": 0,
            "samples": 0,
            "tables": 0,
            "deleted": False,
        }
        assert run("prune", "--yes", "--json").document["deleted"] is True
        assert store.trials() == before
    run("prune", "--older-than", "0").assert_refused("--older-than 0 is below 1", code=2)


def test_merge_twice(run: Run, tmp_path: Path) -> None:
    ours = str(tmp_path / "ours.sqlite")
    other = str(tmp_path / "trials.sqlite")
    first = run("merge", other, "--db", ours, "--json").document
    assert (first["sessions"], first["trials"], first["samples"]) == (1, 2, 2)
    assert run("merge", other, "--db", ours).out.startswith("new: 0 sessions, 0 trials, 0 samples")
    run("merge", ours, "--db", ours).assert_refused("is the database itself")


def test_optuna_export(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="needs optuna")
    target = tmp_path / "optuna.sqlite"
    done = run("optuna-export", "--output", str(target))
    assert (done.code, target.exists()) == (0, True)
    assert f"1 studies of 2 trials: optuna-dashboard sqlite:///{target}" in done.out
    run("optuna-export", "--output", str(target)).assert_refused("is there already")


@pytest.mark.parametrize("words", [["status"], ["upgrade"], ["prune"], ["optuna-export", "--output", "x"]])
def test_a_missing_database_is_an_error_and_is_not_made(run: Run, tmp_path: Path, words: list[str]) -> None:
    missing = tmp_path / "missing.sqlite"
    run(*words, "--db", str(missing)).assert_refused(str(missing))
    assert not missing.exists()


def test_a_password_is_never_shown(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg")
    done = run("status", "--db", f"postgresql://me:geheim@/db?host={tmp_path}")
    done.assert_refused("me:***@")
    assert "geheim" not in done.err


@pytest.mark.parametrize("words", [[], ["frobnicate"]])
def test_a_group_alone_and_an_unknown_command_of_it_are_refused(run: Run, words: list[str]) -> None:
    done = run(*words)
    done.assert_refused("autotune db --help", code=2)
