"""The samples of a folder, one CSV for each scene: written as they come, read when a run goes on with what is there.

In:  samples; a folder. Out: rows in files; `CellRecord`s with the configs that ours ran with.
May not touch: what is measured.

A cell that goes on keeps the config that its race chose and the numbers of its rounds: rounds are paired by number, and
two runs never share one.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers.cells import Cell
from peers.output import COLUMNS, SampleFile
from peers.rounds import CellRecord

from autotune.errors import UsageError
from autotune.types import Collective, Config, Phase, Sample


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
    records: dict[Cell, CellRecord] = {}
    configs: dict[Cell, dict[str, str]] = {}
    if not path.exists():
        return records, configs
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames is not None and tuple(rows.fieldnames) != COLUMNS:
            raise _unreadable(path, 1, "other columns than this version writes")
        for row in rows:
            try:
                cell = Cell(
                    collective=Collective(row["collective"]),
                    n_ranks=int(row["n_ranks"]),
                    size_bytes=int(row["size_bytes"]),
                )
                sample = Sample(
                    kind=cell.kind,
                    phase=Phase.CONFIRM,
                    round=int(row["round"]),
                    position=int(row["position"]),
                    batch_calls=int(row["batch_calls"]),
                    time_us=float(row["time_us"]),
                )
            except (ValueError, TypeError) as err:
                raise _unreadable(path, rows.line_num, str(err)) from err
            record = records.setdefault(cell, CellRecord(cell=cell))
            record.samples.setdefault(row["contender"], []).append(sample)
            record.n_rounds = max(record.n_rounds, sample.round + 1)
            if row["config"]:
                configs.setdefault(cell, {})[row["contender"]] = row["config"]
    return records, configs


def config_of(words: str) -> Config:
    """A config from the words that `ours.config_words` writes."""
    fields = json.loads(words)
    return Config(
        algorithm=fields["algorithm"],
        segment_bytes=fields["segment_bytes"],
        codec=fields["codec"],
        knobs=tuple(sorted(fields["knobs"].items())),
    )


def _unreadable(path: Path, line: int, why: str) -> UsageError:
    return UsageError(f"{path}, line {line}: {why}", remedy="take another --out, or remove the line")
