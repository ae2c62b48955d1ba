"""Shells for the tests of the command line, one of them with a table that was really measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.session import Here, Shell, here_in


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
    return here_in(tmp_path, monkeypatch, capsys)


@pytest.fixture
def tuned_here(tuned: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Command lines in this process, on the host that was tuned."""
    return here_in(tuned.home, monkeypatch, capsys)
