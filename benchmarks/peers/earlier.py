"""What an earlier piece of the same run left in its CSV: its samples, and the configs that were chosen.

In:  the file. Out: `CellRecord`s to go on with; contenders as they were. May not touch: processes, judgement.

A whole table takes longer than most people leave a machine alone, so it can be measured piece by piece: every piece
reads the file and appends to it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autotune.backends.mpi_ranks import RankSet
from autotune.errors import UsageError
from autotune.types import Collective, Memory, Phase, Sample, SampleKind

from .cells import Cell
from .output import COLUMNS
from .rounds import CellRecord, Contender


@dataclass(slots=True)
class Earlier:
    """The rows of the file, by cell; empty where there is none yet."""

    records: dict[Cell, CellRecord] = field(default_factory=dict)
    contenders: dict[tuple[int, str], Contender] = field(default_factory=dict)

    def record(self, cell: Cell) -> CellRecord:
        """What is known of a cell, to be added to."""
        return self.records.setdefault(cell, CellRecord(cell=cell))

    def known(self, n_ranks: int) -> list[Contender]:
        """Those that took part at a number of ranks; they cannot be started."""
        return [contender for (ranks, _), contender in self.contenders.items() if ranks == n_ranks]

    def restore(self, contender: Contender, cells: Iterable[Cell]) -> None:
        """Give a contender the configs that it ran; it may only go on as the version that it was."""
        for cell in cells:
            before = self.contenders.get((cell.n_ranks, contender.name))
            if before is not None:
                contender.expected_version = before.version
                if cell in before.configs:
                    contender.configs[cell] = before.configs[cell]

    def rounds(self, cells: Iterable[Cell]) -> int:
        """The rounds of all these cells together."""
        return sum(self.records[cell].n_rounds for cell in cells if cell in self.records)


def read(path: Path) -> Earlier:
    """The samples of a CSV that `output.SampleFile` wrote; nothing where it does not exist.

    Raises:
        UsageError: it is no such file.
    """
    found = Earlier()
    if not path.exists():
        return found
    with open(path, newline="") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != COLUMNS:
            raise UsageError(
                f"{path}, line 1: this is no CSV of this benchmark: its columns differ", remedy="give another name"
            )
        for number, row in enumerate(rows, start=2):
            try:
                _take(found, row)
            except (KeyError, TypeError, ValueError) as err:
                where = f"{path}, line {number}"
                raise UsageError(f"{where}: {err}", remedy="remove the line, or give another name") from None
    return found


def _take(found: Earlier, row: Mapping[str, str]) -> None:
    cell = Cell(
        collective=Collective(row["collective"]),
        n_ranks=int(row["n_ranks"]),
        size_bytes=int(row["size_bytes"]),
        kind=SampleKind(row["kind"]),
    )
    sample = Sample(
        kind=cell.kind,
        phase=Phase.CONFIRM,
        round=int(row["round"]),
        position=int(row["position"]),
        batch_calls=int(row["batch_calls"]),
        time_us=float(row["time_us"]),
    )
    record, name = found.record(cell), row["contender"]
    record.samples.setdefault(name, []).append(sample)
    record.n_rounds = max(record.n_rounds, sample.round + 1)
    key = (cell.n_ranks, name)
    if key not in found.contenders:
        found.contenders[key] = Contender(
            name=name,
            role=row["role"],
            memory=Memory(row["memory"]),
            settings=row["settings"],
            start=_gone,
            version=row["version"],
        )
    if row["config"]:
        found.contenders[key].configs[cell] = row["config"]


def _gone() -> RankSet:
    raise AssertionError("a contender of an earlier piece was started")
