"""Logs of hccl_test (``all_reduce_test`` ...), and of wrappers that print the rows of every rank.

Source: CANN, oam-tools src/hccl_test; docs of HCCL Test. The header is spelled ``avg_time`` in the documentation and
``aveg_time`` by the program, and its columns may stand in any order. The bandwidth column says GB/s and holds GiB/s in
older versions, so bandwidth is computed from size and time and the column is only checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...measure import algbw_gb_per_s
from ...types import Collective, TrialState
from ..sizes import Counted, message_bytes_of
from .bandwidth import agrees
from .lines import Cell, checked_text, lines_of, nothing_found
from .log import Figure, Hints, Log

SIZES: Mapping[Collective, Counted] = {
    **dict.fromkeys(Collective, Counted.MESSAGE),
    Collective.SCATTER: Counted.PER_RANK,
}
"""hccl_test's size is the larger of a rank's buffers, except for scatter, where it is what each rank receives."""

_COLUMNS = {
    "data_size(Bytes)": "size",
    "avg_time(us)": "time",
    "aveg_time(us)": "time",
    "alg_bandwidth(GB/s)": "bandwidth",
    "check_result": "result",
}
_RESULTS = ("success", "failed", "NULL")
_PROGRAM = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|broadcast|reduce|scatter|alltoall)_test\b")
_ITERS = re.compile(r"\biters is (\d+)")
_SIMULATED_US = 1000.0
_GIB = 1.073741824


@dataclass(slots=True)
class _Block:
    """Rows under one header, or under those of several ranks: without a row between them, or told apart by prefixes."""

    columns: list[str]
    tags: set[str]
    rows: dict[int, list[tuple[int, dict[str, Cell]]]]


@dataclass(frozen=True, slots=True)
class HcclTest:
    """hccl_test."""

    name: str = "hccl_test"
    summary: str = "what CANN's hccl_test prints"
    backend: str = "hccl"
    must_say: tuple[str, ...] = (
        "--collective, where no line names the program",
        "--ranks",
        "--dtype and --op, where they were not fp32 and sum",
    )

    @property
    def sizes(self) -> Mapping[Collective, Counted]:
        return {collective: SIZES[collective] for collective in _names().values()}

    def recognises(self, text: str) -> bool:
        return "data_size(Bytes)" in text and "check_result" in text and "|" in text

    def parse(self, text: str, source: str, hints: Hints) -> Log:
        blocks, program, batch_calls, notes = _blocks(text, source)
        collective = hints.collective_of(program, source)
        n_ranks = hints.ranks_of(None, source)
        figures = [
            _figure(rows, size, collective, n_ranks, batch_calls, notes)
            for block in blocks
            for size, rows in block.rows.items()
        ]
        if not figures:
            raise nothing_found(source, self.name, notes)
        most = max(len(rows) for block in blocks for rows in block.rows.values())
        if most > 1:
            notes.append(f"up to {most} rows of one size under one header: those of {most} ranks; the slowest counts")
        times = [figure.time_us for figure in figures]
        if set(times) == {_SIMULATED_US}:
            notes.append("every time is 1000 us, which HCCL-VM, the simulator, always prints: this is no measurement")
        notes += _bandwidths(blocks)
        return Log(format_name=self.name, figures=tuple(figures), notes=tuple(dict.fromkeys(notes)))


def _names() -> dict[str, Collective]:
    own = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter")
    return {**{name: Collective(name) for name in own}, "alltoall": Collective.ALL_TO_ALL}


def _blocks(text: str, source: str) -> tuple[list[_Block], Collective | None, int, list[str]]:
    blocks: list[_Block] = []
    program: Collective | None = None
    batch_calls, skipped, notes = 1, 0, list[str]()
    lines = list(lines_of(checked_text(text, source), source))
    for at, line in enumerate(lines):
        if found := _PROGRAM.search(line.text):
            program = _names()[found[1]]
        if iters := _ITERS.search(line.text):
            batch_calls = max(1, int(iters[1]))
        if "|" not in line.text:
            skipped += "minbytes" not in line.text and not found
            continue
        cells = line.split("|")
        if any(cell.text.rstrip(":") in _COLUMNS for cell in cells):
            columns = [
                cell.one_of({f"{name}:": word for name, word in _COLUMNS.items()} | _COLUMNS, "column")
                for cell in cells
            ]
            if sorted(columns) != sorted(set(_COLUMNS.values())):
                raise cells[0].error("a header of size, time, bandwidth and result, each once")
            if blocks and (not blocks[-1].rows or (line.tag and line.tag not in blocks[-1].tags)):
                if columns != blocks[-1].columns:
                    raise cells[0].error("the columns of the other ranks, in their order")
                blocks[-1].tags.add(line.tag)
            else:
                blocks.append(_Block(columns=columns, tags={line.tag}, rows={}))
            continue
        if not blocks:
            raise cells[0].error("the header before the first row: data_size(Bytes): | ...")
        if len(cells) != len(blocks[-1].columns):
            if at == len(lines) - 1 and len(cells) < len(blocks[-1].columns):
                notes.append(f"line {line.number}, the last one, was cut off and is left out")
                continue
            raise cells[-1].error(f"{len(blocks[-1].columns)} fields, as the header has; found {len(cells)}")
        row = dict(zip(blocks[-1].columns, cells, strict=True))
        blocks[-1].rows.setdefault(row["size"].whole("data_size in bytes", 1), []).append((line.number, row))
    if skipped:
        notes.append(f"{skipped} lines without a column were passed over")
    return blocks, program, batch_calls, notes


def _figure(
    rows: list[tuple[int, dict[str, Cell]]],
    size_bytes: int,
    collective: Collective,
    n_ranks: int,
    batch_calls: int,
    notes: list[str],
) -> Figure:
    """The slowest of the ranks' rows; a failure of one is a failure of all."""
    for _, row in rows:
        row["result"].one_of(dict.fromkeys(_RESULTS, True), "check_result")
    failed = [(number, row) for number, row in rows if row["result"].text == "failed"]
    if any(row["result"].text == "NULL" for _, row in rows):
        notes.append("rows with check_result NULL were not checked by hccl_test (the sum could overflow, or -c 0)")
    times = [(row["time"].above_zero("time in us"), number) for number, row in rows]
    slowest_us, line = max(times)
    return Figure(
        line=failed[0][0] if failed else line,
        collective=collective,
        n_ranks=n_ranks,
        message_bytes=message_bytes_of(SIZES[collective], size_bytes, n_ranks),
        time_us=None if failed else slowest_us,
        state=TrialState.WRONG_RESULT if failed else TrialState.OK,
        message="check_result failed" if failed else "",
        batch_calls=batch_calls,
    )


def _bandwidths(blocks: list[_Block]) -> list[str]:
    """What the bandwidth column holds, if not GB/s."""
    gib, other = 0, list[str]()
    for block in blocks:
        for size_bytes, rows in block.rows.items():
            for number, row in rows:
                computed = algbw_gb_per_s(size_bytes, row["time"].above_zero("time in us"))
                printed = row["bandwidth"].text
                if agrees(printed, computed):
                    continue
                if agrees(printed, computed / _GIB):
                    gib += 1
                else:
                    other.append(f"line {number}: prints {printed} GB/s, but size and time give {computed:.4g}")
    notes = []
    if gib:
        notes.append(f"{gib} rows print GiB/s under the title GB/s; bandwidth was computed from size and time")
    if other:
        notes.append(f"{other[0]}; and {len(other) - 1} more rows like it" if len(other) > 1 else other[0])
    return notes
