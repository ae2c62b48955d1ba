"""Shells for the tests of the command line, one of them with a table that was really measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli.session import Here, Result, Shell, folders

from autotune.cli.main import main


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Nothing was measured yet."""
    return Shell(home=tmp_path)


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """After a small real run; tests only read it."""
    shell = Shell(home=tmp_path_factory.mktemp("tuned"))
    done = shell("run", "--collective", "broadcast", "--sizes", "1K,64K", "--ranks", "2")
    assert done.code == 0, done.err
    return shell


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Command lines in this process, in the folders of a fresh home."""
    return _runner(tmp_path, monkeypatch, capsys)


@pytest.fixture
def tuned_here(tuned: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Command lines in this process, on the host that was tuned."""
    return _runner(tuned.home, monkeypatch, capsys)


def _runner(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    for name in ("AUTOTUNE_TABLE", "AUTOTUNE_DB", "AUTOTUNE_STAGING", "AUTOTUNE_TIMEOUT", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in folders(home).items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(words)
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Result(code=end.value.code, out=captured.out, err=captured.err)

    return run
