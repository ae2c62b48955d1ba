"""Logs of nccl-tests and rccl-tests (``all_reduce_perf`` ...).

Source: NVIDIA/nccl-tests, src/util.cu and doc/PERFORMANCE.md. The columns are those that the header names, so that all
layouts are read: with and without root, with per-iteration columns (``-I``), with a time stamp, with ``N/A`` where
nothing was checked. The out-of-place half counts. NCCL's own lines may stand between the rows, or inside one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...types import Collective, DType, ReduceOp, TrialState
from ..sizes import Counted, message_bytes_of
from .lines import Cell, Line, checked_text, lines_of, nothing_found, row_begins
from .log import Claim, Figure, Hints, Log

PROGRAMS = {
    "all_reduce_perf": Collective.ALL_REDUCE,
    "all_gather_perf": Collective.ALL_GATHER,
    "reduce_scatter_perf": Collective.REDUCE_SCATTER,
    "broadcast_perf": Collective.BROADCAST,
    "reduce_perf": Collective.REDUCE,
    "scatter_perf": Collective.SCATTER,
    "gather_perf": Collective.GATHER,
    "alltoall_perf": Collective.ALL_TO_ALL,
}
_OTHERS = ("sendrecv_perf", "hypercube_perf", "alltoallv_perf")
_TYPES = {
    "float": DType.FLOAT32,
    "double": DType.FLOAT64,
    "half": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "int8": DType.INT8,
    "uint8": DType.UINT8,
    "int32": DType.INT32,
    "int64": DType.INT64,
}
_OPS = {op.value: op for op in ReduceOp}
_PROGRAM = re.compile(r"\b([a-z_]+_perf)\b")
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s")
_ITERS = re.compile(r"\biters: (\d+)")
_NCCL_LINE = re.compile(r"[A-Za-z][\w.-]*:\d+:\d+ \[\d+\] ")


@dataclass(slots=True)
class _Run:
    """What the lines before a row have said."""

    collective: Collective | None = None
    other: str | None = None
    ranks: set[int] = field(default_factory=set)
    batch_calls: int = 1
    columns: list[str] = field(default_factory=list)
    pending: list[Cell] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NcclTests:
    """nccl-tests, rccl-tests."""

    name: str = "nccl-tests"
    summary: str = "what nccl-tests and rccl-tests print"
    backend: str = "nccl"
    must_say: tuple[str, ...] = ("--collective, where the log does not name the program", "--ranks, without rank lines")

    @property
    def sizes(self) -> Mapping[Collective, Counted]:
        return dict.fromkeys(PROGRAMS.values(), Counted.MESSAGE)

    def recognises(self, text: str) -> bool:
        return "algbw" in text and "busbw" in text and re.search(r"#\s*size\s+count", text) is not None

    def parse(self, text: str, source: str, hints: Hints) -> Log:
        run, figures, notes = _Run(), list[Figure](), list[str]()
        skipped = 0
        lines = list(lines_of(checked_text(text, source), source))
        for at, line in enumerate(lines):
            cells = _own_cells(line, run)
            if line.text.startswith("#") or not cells:
                _learn(line.text, run)
            elif not run.columns or not (run.pending or row_begins(cells, len(run.columns), "size in bytes")):
                _learn(line.text, run)
                skipped += 1
            elif run.other is not None:
                run.pending = []
            else:
                _row(line, cells, run, hints, figures, notes, last=at == len(lines) - 1)
        if run.other is not None:
            notes.append(f"{run.other} is no collective of ours and was passed over")
        if skipped:
            notes.append(f"{skipped} lines that are neither rows nor comments were passed over")
        if not figures:
            raise nothing_found(source, self.name, notes)
        return Log(format_name=self.name, figures=tuple(figures), notes=tuple(dict.fromkeys(notes)))


def _own_cells(line: Line, run: _Run) -> list[Cell]:
    """The line's words without what NCCL itself wrote into it; the half of a row before that is kept for the next."""
    match = _NCCL_LINE.search(line.text)
    if match is None:
        return line.cells()
    before = [cell for cell in line.cells() if cell.column - line.shift - 1 < match.start()]
    if before and before[-1].column - line.shift - 1 + len(before[-1].text) > match.start():
        last = before[-1]
        kept = last.text[: match.start() - (last.column - line.shift - 1)]
        before[-1] = Cell(text=kept, source=last.source, line=last.line, column=last.column)
    if before and (run.pending or before[0].text.isdigit()):
        run.pending += before
    return []


def _learn(text: str, run: _Run) -> None:
    for program in _PROGRAM.findall(text):
        if program in PROGRAMS:
            run.collective, run.other = PROGRAMS[program], None
        elif program in _OTHERS:
            run.collective, run.other = None, program
    if "Using devices" in text:
        run.ranks = set()
    if rank := _RANK.match(text):
        run.ranks.add(int(rank[1]))
    if iters := _ITERS.search(text.partition("warmup iters:")[2] or text):
        run.batch_calls = max(1, int(iters[1]))
    words = text.lstrip("#").split()
    if words[:2] == ["size", "count"]:
        run.columns = words


def _row(
    line: Line, cells: list[Cell], run: _Run, hints: Hints, figures: list[Figure], notes: list[str], *, last: bool
) -> None:
    cells = run.pending + cells
    run.pending = []
    columns = run.columns
    if columns[-1:] == ["timestamp"] and len(cells) == len(columns) + 1:
        cells = cells[:-1]  # date and time of day
    if len(cells) < len(columns) and last:
        notes.append(f"line {line.number}, the last one, was cut off and is left out")
        return
    if len(cells) != len(columns):
        raise cells[-1].error(
            f"{len(columns)} fields in the row, as the header has: {' '.join(columns)}; found {len(cells)}"
        )
    # The first of two columns with one name is the out-of-place one.
    row = {name: cell for name, cell in reversed(list(zip(columns, cells, strict=True)))}
    if "cputime" in row:
        raise row["cputime"].error("a log without -C: the CPU's time is not the collective's")
    kind = row["type"].text
    if kind not in _TYPES:
        notes.append(f"rows of type {kind} were passed over: autotune has no such type")
        return
    size_bytes = row["size"].whole("size in bytes")
    if size_bytes == 0:
        return
    where = f"{line.source}, line {line.number}"
    collective = hints.collective_of(run.collective, where)
    n_ranks = hints.ranks_of(len(run.ranks) or None, where)
    op = row.get("redop")
    wrong = row.get("#wrong")
    failed = wrong is not None and wrong.text != "N/A" and wrong.from_zero("wrong elements, or N/A") > 0.0
    if wrong is None or wrong.text == "N/A":
        notes.append("results were not checked (-c 0, or a version that prints a deviation only)")
    figures.append(
        Figure(
            line=line.number,
            collective=collective,
            n_ranks=n_ranks,
            message_bytes=message_bytes_of(Counted.MESSAGE, size_bytes, n_ranks),
            time_us=None if failed else row["time"].above_zero("time in us"),
            dtype=_TYPES[kind] if collective.computes else None,
            op=op.one_of(_OPS, "reduction") if collective.computes and op is not None else None,
            state=TrialState.WRONG_RESULT if failed else TrialState.OK,
            message=f"{wrong.text} wrong elements" if failed and wrong is not None else "",
            batch_calls=run.batch_calls,
            claims=(Claim(bus=False, printed=row["algbw"].text), Claim(bus=True, printed=row["busbw"].text)),
        )
    )
