"""Command lines in this process, as the tests of the command line have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.session import Here, Result, folders

from autotune.cli.main import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """In the folders of a fresh home."""
    monkeypatch.delenv("AUTOTUNE_TABLE", raising=False)
    for name, value in folders(tmp_path).items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(words)
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Result(code=end.value.code, out=captured.out, err=captured.err)

    return run
