"""What a run leaves: tables for people, a CSV of every sample, a JSON summary.

In:  judgements, samples, contenders. Out: text, files. May not touch: processes.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from autotune.measure import Comparison, median_interval
from autotune.types import Sample
from autotune.units import format_bytes, format_us

from .cells import Cell
from .judgement import Judgement, Verdict, geometric_means
from .rounds import CellRecord, Contender

COLUMNS = (
    "collective",
    "n_ranks",
    "size_bytes",
    "message_bytes",
    "kind",
    "contender",
    "role",
    "memory",
    "version",
    "settings",
    "config",
    "round",
    "position",
    "batch_calls",
    "time_us",
    "flag_us",
)


class SampleFile:
    """The CSV of every sample, flushed as they come, so that an interrupted run keeps what it has.

    Args:
        begun: the file has its first line already.
    """

    def __init__(self, file: TextIO, *, begun: bool = False) -> None:
        self._file = file
        self._rows = csv.writer(file, lineterminator="\n")
        if not begun:
            self._rows.writerow(COLUMNS)

    def keep(self, cell: Cell, contender: Contender, sample: Sample, flag_us: float | None = None) -> None:
        """Write one sample.

        Args:
            flag_us: what a word took from one core to another and back just before its round: which state the host
                was in.
        """
        self._rows.writerow(
            (
                cell.collective.value,
                cell.n_ranks,
                cell.size_bytes,
                cell.message_bytes,
                cell.kind.value,
                contender.name,
                contender.role,
                contender.memory.value,
                contender.version,
                contender.settings,
                contender.configs.get(cell, ""),
                sample.round,
                sample.position,
                sample.batch_calls,
                f"{sample.time_us:.5f}",
                "" if flag_us is None else f"{flag_us:.4f}",
            )
        )
        self._file.flush()


def tables(
    records: Sequence[CellRecord], contenders: Sequence[Contender], notes: Mapping[tuple[Cell, str], str]
) -> str:
    """One table for each collective, rank count and kind of memory.

    Args:
        notes: (cell, contender) -> the config that it ran, for people.
    """
    others = [c.name for c in contenders if c.role in ("peer", "prototype")]
    parts = []
    for (collective, n_ranks), group in itertools.groupby(records, lambda r: (r.cell.collective, r.cell.n_ranks)):
        listed = list(group)
        for ours in (c for c in contenders if c.role == "ours"):
            head = (
                f"{collective.value}, {n_ranks} ranks, {ours.memory.value} buffers, {listed[0].cell.kind.value} inputs"
            )
            rows = [
                ["size", "ours us", "config", "best peer / ours", "95 %", "rounds", "verdict", "floor/ours", *others]
            ]
            rows += [_row(record, ours, contenders, others, notes) for record in listed]
            parts.append(f"{head}\n{aligned(rows)}")
    return "\n\n".join(parts)


def _row(
    record: CellRecord,
    ours: Contender,
    contenders: Sequence[Contender],
    others: Sequence[str],
    notes: Mapping[tuple[Cell, str], str],
) -> list[str]:
    cell = record.cell
    found = [j for j in record.judgements(contenders) if j.memory is ours.memory]
    own = record.samples.get(ours.name)
    words = [format_bytes(cell.size_bytes)]
    words.append(format_us(median_interval([sample.time_us for sample in own]).median) if own else "-")
    words.append(notes.get((cell, ours.name), "-"))
    if not found or not own:
        return [*words, *["-"] * (5 + len(others))]
    judgement = found[0]
    words.append(f"{judgement.ratio.median:.2f} {judgement.best_peer}")
    words.append(_interval(judgement.ratio))
    words.append(str(judgement.ratio.n_rounds))
    words.append(judgement.verdict.value)
    words.append("-" if judgement.floor_share is None else f"{100 * judgement.floor_share.median:.0f} %")
    for name in others:
        ratio = judgement.ratios.get(name) or judgement.prototypes.get(name)
        words.append("-" if ratio is None else f"{ratio.median:.2f}")
    return words


def _interval(ratio: Comparison) -> str:
    return "-" if ratio.low is None or ratio.high is None else f"{ratio.low:.2f} to {ratio.high:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of words, right-aligned in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def verdicts(judgements: Sequence[Judgement]) -> str:
    """Geometric means and how many cells are won, held, undecided and lost."""
    lines = ["geometric means of best peer / ours"]
    for mean in geometric_means(judgements):
        bound = "" if mean.at_floor is None else f"; {mean.at_floor:.2f} if ours were at the floors"
        lines.append(f"  {mean.ratio:5.2f}  {mean.label} ({mean.n_decided} of {mean.n_cells} cells decided){bound}")
    counts = {verdict: sum(j.verdict is verdict for j in judgements) for verdict in Verdict}
    lines.append(", ".join(f"{n} {verdict.value}" for verdict, n in counts.items()) + f" of {len(judgements)} cells")
    return "\n".join(lines)


def write_summary(
    path: Path,
    judgements: Sequence[Judgement],
    contenders: Sequence[Contender],
    notes: Mapping[tuple[Cell, str], str],
    environment: Mapping[str, object],
) -> None:
    """The JSON summary: environment, who took part, every cell's judgement, geometric means."""
    summary = {
        "environment": environment,
        "contenders": [
            {
                "name": c.name,
                "role": c.role,
                "memory": c.memory.value,
                "version": c.version,
                "settings": c.settings,
                "idle_cpu_s": round(c.idle_cpu_s, 2),
                "faults": c.faults,
            }
            for c in contenders
        ],
        "cells": [_cell_fields(judgement, notes) for judgement in judgements],
        "geometric_means": [
            {
                "label": mean.label,
                "ratio": mean.ratio,
                "n_cells": mean.n_cells,
                "n_decided": mean.n_decided,
                "at_floor": mean.at_floor,
            }
            for mean in geometric_means(judgements)
        ],
    }
    path.write_text(json.dumps(summary, indent=1) + "\n")


def _cell_fields(judgement: Judgement, notes: Mapping[tuple[Cell, str], str]) -> dict[str, object]:
    cell = judgement.cell
    ours = f"ours {judgement.memory.value}"
    return {
        "collective": cell.collective.value,
        "n_ranks": cell.n_ranks,
        "size_bytes": cell.size_bytes,
        "message_bytes": cell.message_bytes,
        "kind": cell.kind.value,
        "memory": judgement.memory.value,
        "config": notes.get((cell, ours)),
        "best_peer": judgement.best_peer,
        "verdict": judgement.verdict.value,
        "ratios": {name: _ratio_fields(ratio) for name, ratio in judgement.ratios.items()},
        "prototypes": {name: _ratio_fields(ratio) for name, ratio in judgement.prototypes.items()},
        "floor_share": None if judgement.floor_share is None else _ratio_fields(judgement.floor_share),
    }


def _ratio_fields(ratio: Comparison) -> dict[str, object]:
    return {"median": ratio.median, "low": ratio.low, "high": ratio.high, "n_rounds": ratio.n_rounds}
