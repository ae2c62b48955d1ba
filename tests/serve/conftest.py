"""A tuned machine for the tests of the server, and clean settings for each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from page.scene import Scene, make_scene


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("served") / "trials.sqlite")


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUTOTUNE_TABLE", "AUTOTUNE_DB", "AUTOTUNE_TOKEN", "AUTOTUNE_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOTUNE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
