"""Logs of the Intel MPI Benchmarks (IMB-MPI1).

Source: Intel MPI Benchmarks User Guide, "Collective Benchmarks". ``t_max`` is the slowest rank's mean. Sizes are a
rank's own part for all_gather, all_to_all, gather and scatter, and the whole buffer for the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...types import Collective, DType, ReduceOp, TrialState
from ..sizes import Counted, message_bytes_of
from .lines import Cell, checked_text, lines_of, nothing_found, row_begins
from .log import Figure, Hints, Log
from .osu import SIZES

_NAMES = {
    "Allreduce": Collective.ALL_REDUCE,
    "Allgather": Collective.ALL_GATHER,
    "Reduce_scatter": Collective.REDUCE_SCATTER,
    "Bcast": Collective.BROADCAST,
    "Reduce": Collective.REDUCE,
    "Scatter": Collective.SCATTER,
    "Gather": Collective.GATHER,
    "Alltoall": Collective.ALL_TO_ALL,
}
_BENCHMARK = re.compile(r"#\s*Benchmarking\s+(?P<name>\w+)\s*$")
_PROCESSES = re.compile(r"#\s*#processes\s*=\s*(?P<n>\d+)")
_TYPE = re.compile(r"#\s*MPI_Datatype for reductions\s*:\s*(?P<name>\w+)")
_OP = re.compile(r"#\s*MPI_Op\s*:\s*(?P<name>\w+)")
_TYPES = {"MPI_FLOAT": DType.FLOAT32, "MPI_DOUBLE": DType.FLOAT64, "MPI_INT": DType.INT32, "MPI_CHAR": DType.INT8}
_OPS = {"MPI_SUM": ReduceOp.SUM, "MPI_PROD": ReduceOp.PROD, "MPI_MAX": ReduceOp.MAX, "MPI_MIN": ReduceOp.MIN}


@dataclass(slots=True)
class _Run:
    """What the lines before a row have said."""

    benchmark: str | None = None
    n_ranks: int | None = None
    dtype: DType = DType.FLOAT32
    op: ReduceOp = ReduceOp.SUM
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imb:
    """Intel MPI Benchmarks."""

    name: str = "imb"
    summary: str = "what the Intel MPI Benchmarks (IMB-MPI1) print"
    backend: None = None
    must_say: tuple[str, ...] = ("--backend",)

    @property
    def sizes(self) -> Mapping[Collective, Counted]:
        return SIZES

    def recognises(self, text: str) -> bool:
        return "# Benchmarking " in text and "t_max[usec]" in text

    def parse(self, text: str, source: str, hints: Hints) -> Log:
        run, figures, notes = _Run(), list[Figure](), list[str]()
        lines = list(lines_of(checked_text(text, source), source))
        for at, line in enumerate(lines):
            cells = line.cells()
            if cells[0].text == "#bytes":
                run.columns = tuple(cell.text for cell in cells)
            elif line.text.startswith("#"):
                _learn(line.text, cells, run)
            elif not run.columns or not row_begins(cells, len(run.columns), "#bytes"):
                notes.append("lines that are neither rows nor comments were passed over")
            elif run.benchmark in _NAMES:
                if len(cells) < len(run.columns) and at == len(lines) - 1:
                    notes.append(f"line {line.number}, the last one, was cut off and is left out")
                    continue
                figure = _figure(cells, run, hints)
                if figure is not None:
                    figures.append(figure)
            else:
                notes.append(f"{run.benchmark} is no collective of ours and was passed over")
        if not figures:
            raise nothing_found(source, self.name, notes)
        return Log(format_name=self.name, figures=tuple(figures), notes=tuple(dict.fromkeys(notes)))


def _learn(text: str, cells: list[Cell], run: _Run) -> None:
    if found := _BENCHMARK.match(text):
        run.benchmark, run.n_ranks, run.columns = found["name"], None, ()
    elif found := _PROCESSES.match(text):
        run.n_ranks = int(found["n"])
    elif _TYPE.match(text):
        run.dtype = cells[-1].one_of(_TYPES, "datatype")
    elif _OP.match(text):
        run.op = cells[-1].one_of(_OPS, "operation")


def _figure(cells: list[Cell], run: _Run, hints: Hints) -> Figure | None:
    """None for a row of nothing: 0 bytes, one process, or another number of them than was asked for."""
    if len(cells) != len(run.columns):
        raise cells[-1].error(f"{len(run.columns)} fields, as the header has; found {len(cells)}")
    row = dict(zip(run.columns, cells, strict=True))
    if "t_max[usec]" not in row:
        raise cells[0].error("a header with a column t_max[usec]")
    size_bytes = row["#bytes"].whole("#bytes")
    if size_bytes == 0 or run.n_ranks == 1 or (hints.n_ranks and run.n_ranks and run.n_ranks != hints.n_ranks):
        return None
    where = f"{cells[0].source}, line {cells[0].line}"
    found = _NAMES[run.benchmark or ""]
    if hints.collective not in (None, found):
        return None
    n_ranks = hints.ranks_of(run.n_ranks, where)
    failed = "defects" in row and row["defects"].from_zero("defects") > 0.0
    return Figure(
        line=cells[0].line,
        collective=found,
        n_ranks=n_ranks,
        message_bytes=message_bytes_of(SIZES[found], size_bytes, n_ranks),
        time_us=None if failed else row["t_max[usec]"].above_zero("t_max in us"),
        state=TrialState.WRONG_RESULT if failed else TrialState.OK,
        message=f"defects {row['defects'].text}" if failed else "",
        dtype=run.dtype if found.computes else None,
        op=run.op if found.computes else None,
        batch_calls=row["#repetitions"].whole("#repetitions", 1) if "#repetitions" in row else 1,
    )
