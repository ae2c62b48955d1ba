"""Command lines in this process, as the tests of the command line have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.session import Here, here_in


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """In the folders of a fresh home."""
    return here_in(tmp_path, monkeypatch, capsys)
