"""A user's shell for the tests: command lines in this process or in one of their own, with folders of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from autotune.db import TrialStore, open_store
from autotune.types import Sample

TIMEOUT_S = 120.0
Tree = dict[str, Any]  # Any: what JSON holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Tree:
        found: Tree = json.loads(self.out)
        return found

    def assert_refused(self, *words: str, code: int = 1) -> None:
        """An error and what helps, a line each, no traceback, nothing on standard output."""
        assert "Traceback" not in self.err, self.err
        error, remedy = self.err.splitlines()[-2:]
        assert error.startswith("error: "), error
        assert remedy.startswith("try: "), remedy
        assert remedy.removeprefix("try: ").strip(), self.err
        missing = [word for word in words if word not in f"{error}\n{remedy}"]
        assert not missing, self.err
        assert (self.code, self.out) == (code, ""), self


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Runs ``python -m autotune`` in processes of their own.

    Args:
        home: holds data, cache and database.
        variables: laid over the environment.
    """

    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOTUNE_", "COLUMNS"))}
        return kept | folders(self.home) | self.variables

    @property
    def database(self) -> Path:
        return self.home / "data" / "trials.sqlite"

    @property
    def tables(self) -> list[Path]:
        return sorted(self.home.glob("data/tables/*/*.json"))

    def __call__(self, *words: str) -> Result:
        done = subprocess.run(
            self.command(*words), env=self.environment, cwd=self.home, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        return Result(code=done.returncode, out=done.stdout, err=done.stderr)

    @staticmethod
    def command(*words: str) -> list[str]:
        return [sys.executable, "-m", "autotune", *words]

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command line in a process group of its own, as a shell starts it; it is gone when the block ends."""
        process = subprocess.Popen(
            self.command(*words),
            env=self.environment,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            with process:
                yield process
        finally:
            process.kill()

    @contextmanager
    def store(self) -> Iterator[TrialStore]:
        with closing(open_store(str(self.database))) as store:
            yield store

    def samples(self) -> dict[int, tuple[Sample, ...]]:
        """Every stored sample, by trial."""
        with self.store() as store:
            return {trial.trial_id: trial.samples for trial in store.trials() if trial.trial_id is not None}


def folders(home: Path) -> dict[str, str]:
    """Variables that keep a command line below ``home``."""
    return {"AUTOTUNE_DATA_DIR": str(home / "data"), "AUTOTUNE_CACHE_DIR": str(home / "cache"), "NO_COLOR": "1"}


Here = Callable[..., Result]
"""Runs a command line in this process: ``here("show", "--json")``."""


def here_in(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Command lines in this process, in the folders of a home."""
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
