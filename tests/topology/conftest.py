"""Recorded machines for the topology tests: as recordings, and as files below a root of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.topology.recording_file import from_json

MACHINES = Path(__file__).parents[1] / "golden" / "machines"


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], dict[str, str]]:
    """A fresh copy of the recording of a machine, by its name."""

    def load(name: str) -> dict[str, str]:
        file = MACHINES / name / "recording.json"
        return from_json(file.read_text("utf-8"), str(file))

    return load


@pytest.fixture(scope="session")
def plant() -> Callable[[dict[str, str], Path], None]:
    """Write a recording as files, links and folders below a root; ``!`` entries become folders, which no read gets."""

    def write(recording: dict[str, str], root: Path) -> None:
        for path, text in sorted(recording.items()):
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("../"):
                place.symlink_to(text)
                place.resolve().mkdir(parents=True, exist_ok=True)
            elif text.startswith("!") or path == "/dev/shm":
                place.mkdir()
            else:
                place.write_text(f"{text}\n", "utf-8")

    return write
