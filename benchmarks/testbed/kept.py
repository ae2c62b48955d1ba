"""The samples of a folder, one CSV for each scene: written as they come, read when a run goes on with what is there.

In:  samples; a folder. Out: rows in files; `CellRecord`s with the configs that ours ran with.
May not touch: what is measured.

A cell that goes on keeps the config that its race chose and the numbers of its rounds: rounds are paired by number, and
two runs never share one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers import earlier
from peers.cells import Cell
from peers.output import SampleFile
from peers.rounds import CellRecord


@contextmanager
def appended(path: Path) -> Iterator[SampleFile]:
    """The scene's file, for samples that are added."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists() or path.stat().st_size == 0
    with path.open("a", newline="") as file:
        yield SampleFile(file, begun=not new)


def read_back(path: Path) -> tuple[dict[Cell, CellRecord], dict[Cell, dict[str, str]]]:
    """(cell -> what was measured in it, cell -> contender -> its config); nothing where there is no file.

    Raises:
        UsageError: the file is of something else, or was cut short within a row.
    """
    if not path.exists() or path.stat().st_size == 0:  # interrupted before its first line
        return {}, {}
    found = earlier.read(path)
    configs: dict[Cell, dict[str, str]] = {}
    for contender in found.contenders.values():
        for cell, words in contender.configs.items():
            configs.setdefault(cell, {})[contender.name] = words
    return found.records, configs
