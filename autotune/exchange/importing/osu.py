"""Logs of the OSU micro-benchmarks' collective latency tests, versions 5 to 7.

Source: OSU Micro-Benchmarks, c/mpi/collective. Sizes are a rank's own part for all_gather, all_to_all, gather and
scatter, and the whole buffer for the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...types import Collective, DType, ReduceOp
from ..sizes import Counted, message_bytes_of
from .lines import Cell, Line, checked_text, lines_of, nothing_found, row_begins
from .log import Figure, Hints, Log

SIZES: Mapping[Collective, Counted] = {
    Collective.ALL_REDUCE: Counted.MESSAGE,
    Collective.BROADCAST: Counted.MESSAGE,
    Collective.REDUCE: Counted.MESSAGE,
    Collective.REDUCE_SCATTER: Counted.MESSAGE,
    Collective.ALL_GATHER: Counted.PER_RANK,
    Collective.ALL_TO_ALL: Counted.PER_RANK,
    Collective.GATHER: Counted.PER_RANK,
    Collective.SCATTER: Counted.PER_RANK,
}
_TITLES = {
    "Allreduce": Collective.ALL_REDUCE,
    "Allgather": Collective.ALL_GATHER,
    "Reduce_scatter": Collective.REDUCE_SCATTER,
    "Broadcast": Collective.BROADCAST,
    "Reduce": Collective.REDUCE,
    "Scatter": Collective.SCATTER,
    "Gather": Collective.GATHER,
    "All-to-All Personalized Exchange": Collective.ALL_TO_ALL,
}
_TYPES = {
    "MPI_FLOAT": DType.FLOAT32,
    "MPI_DOUBLE": DType.FLOAT64,
    "MPI_INT": DType.INT32,
    "MPI_CHAR": DType.INT8,
    "MPI_BYTE": DType.UINT8,
}
_TITLE = re.compile(r"#\s*OSU MPI\S* (?P<test>.+?) Latency Test")
_DATATYPE = re.compile(r"#\s*Datatype:\s*(?P<name>\w+)")
_COLUMN = re.compile(r"\S+(?: \S+)*")


@dataclass(frozen=True, slots=True)
class Osu:
    """OSU micro-benchmarks."""

    name: str = "osu"
    summary: str = "what the collective latency tests of the OSU micro-benchmarks 5 to 7 print"
    backend: None = None
    must_say: tuple[str, ...] = ("--backend", "--ranks")

    @property
    def sizes(self) -> Mapping[Collective, Counted]:
        return SIZES

    def recognises(self, text: str) -> bool:
        return _TITLE.search(text) is not None

    def parse(self, text: str, source: str, hints: Hints) -> Log:
        figures, notes = list[Figure](), list[str]()
        collective: Collective | None = None
        dtype = DType.FLOAT32
        columns: list[str] = []
        lines = list(lines_of(checked_text(text, source), source))
        for at, line in enumerate(lines):
            if title := _TITLE.match(line.text):
                collective, columns, dtype = _TITLES.get(title["test"]), [], DType.FLOAT32
                if collective is None:
                    notes.append(f"{title['test']} is no collective of ours and was passed over")
            elif datatype := _DATATYPE.match(line.text):
                if datatype["name"] not in _TYPES:
                    raise line.cells()[-1].error(f"a datatype of {', '.join(_TYPES)}")
                dtype = _TYPES[datatype["name"]]
            elif re.match(r"#\s*Size\b", line.text):
                columns = _COLUMN.findall(line.text.lstrip("# ").replace("\t", "  "))
            elif columns and collective is not None and not line.text.startswith("#"):
                cells = line.cells()
                if not row_begins(cells, len(columns), "size in bytes"):
                    notes.append("lines that are neither rows nor comments were passed over")
                elif len(cells) < len(columns) and at == len(lines) - 1:
                    notes.append(f"line {line.number}, the last one, was cut off and is left out")
                else:
                    figures.append(_figure(line, cells, columns, collective, dtype, hints, notes))
        if not figures:
            raise nothing_found(source, self.name, notes)
        return Log(format_name=self.name, figures=tuple(figures), notes=tuple(dict.fromkeys(notes)))


def _figure(
    line: Line,
    cells: list[Cell],
    columns: list[str],
    collective: Collective,
    dtype: DType,
    hints: Hints,
    notes: list[str],
) -> Figure:
    if len(cells) != len(columns):
        raise cells[-1].error(f"{len(columns)} fields, as the header has: {', '.join(columns)}; found {len(cells)}")
    row = dict(zip((name.lower().replace(" ", "") for name in columns), cells, strict=True))
    slowest, mean = row.get("maxlatency(us)"), row.get("avglatency(us)", row.get("latency(us)"))
    if slowest is None and mean is None:
        raise cells[0].error("a header with a column Avg Latency(us) or Max Latency(us)")
    if slowest is None:
        notes.append("times are means over ranks; -f prints the slowest rank's, which counts in autotune")
    n_ranks = hints.ranks_of(None, f"{line.source}, line {line.number}")
    time_cell = slowest or mean
    assert time_cell is not None, "one of the two was found above"
    return Figure(
        line=line.number,
        collective=hints.collective_of(collective, f"{line.source}, line {line.number}"),
        n_ranks=n_ranks,
        message_bytes=message_bytes_of(SIZES[collective], row["size"].whole("size in bytes", 1), n_ranks),
        time_us=time_cell.above_zero("latency in us"),
        dtype=dtype if collective.computes else None,
        op=ReduceOp.SUM if collective.computes else None,
        batch_calls=row["iterations"].whole("iterations", 1) if "iterations" in row else 1,
    )
