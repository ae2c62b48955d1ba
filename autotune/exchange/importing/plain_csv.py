"""CSV with named columns: figures from a page, a spreadsheet or a program of one's own.

    collective,n_ranks,message_bytes,algorithm,time_us
    all_reduce,8,1000000,ring,12

``message_bytes`` is ours (the larger of a rank's buffers); ``per_rank_bytes`` may stand in its place for one rank's
part of it. Rows that repeat are repetitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...types import Collective, Config, DType, ReduceOp
from ..sizes import Counted, message_bytes_of
from .lines import Cell, checked_text, nothing_found
from .log import Claim, Figure, Hints, Log, LogError
from .rows import header_of, needed, rows_of

SIZE_COLUMNS = {"message_bytes": Counted.MESSAGE, "per_rank_bytes": Counted.PER_RANK}
OPTIONAL = (
    "collective",
    "n_ranks",
    "dtype",
    "op",
    "algorithm",
    "segment_bytes",
    "algbw_gb_per_s",
    "busbw_gb_per_s",
)
_COLLECTIVES = {collective.value: collective for collective in Collective}
_TYPES = {dtype.value: dtype for dtype in DType}
_OPS = {op.value: op for op in ReduceOp}


@dataclass(frozen=True, slots=True)
class PlainCsv:
    """Our own columns."""

    name: str = "csv"
    summary: str = "CSV with columns of ours: time_us and message_bytes (or per_rank_bytes), and perhaps " + ", ".join(
        OPTIONAL
    )
    backend: None = None
    must_say: tuple[str, ...] = ("--backend", "whatever has no column")

    @property
    def sizes(self) -> Mapping[Collective, Counted]:
        return dict.fromkeys(Collective, Counted.MESSAGE)

    def recognises(self, text: str) -> bool:
        return "time_us" in header_of(text)

    def parse(self, text: str, source: str, hints: Hints) -> Log:
        text = checked_text(text, source)
        names = header_of(text)
        sizes = [name for name in SIZE_COLUMNS if name in names]
        if len(sizes) != 1:
            raise LogError(
                f"{source}: {len(sizes)} columns of sizes; found {', '.join(names)}",
                remedy=f"give one of the columns {', '.join(SIZE_COLUMNS)}",
            )
        rows = rows_of(text, source, required=("time_us", sizes[0]), optional=OPTIONAL)
        figures = [_figure(row, sizes[0], hints) for row in rows]
        if not figures:
            raise nothing_found(source, self.name)
        return Log(format_name=self.name, figures=tuple(figures))


def _figure(row: dict[str, Cell], size_column: str, hints: Hints) -> Figure:
    size = needed(row, size_column)
    where = f"{size.source}, line {size.line}"
    named = row["collective"].one_of(_COLLECTIVES, "collective") if "collective" in row else None
    ranks = row["n_ranks"].whole("n_ranks", 1, 1 << 20) if "n_ranks" in row else None
    collective, n_ranks = hints.collective_of(named, where), hints.ranks_of(ranks, where)
    columns = (("algbw_gb_per_s", False), ("busbw_gb_per_s", True))
    return Figure(
        line=size.line,
        collective=collective,
        n_ranks=n_ranks,
        message_bytes=message_bytes_of(SIZE_COLUMNS[size_column], size.whole(size_column, 1), n_ranks),
        time_us=needed(row, "time_us").above_zero("time in us"),
        dtype=row["dtype"].one_of(_TYPES, "dtype") if "dtype" in row and collective.computes else None,
        op=row["op"].one_of(_OPS, "op") if "op" in row and collective.computes else None,
        config=_config(row),
        claims=tuple(Claim(bus=bus, printed=row[name].text) for name, bus in columns if name in row),
    )


def _config(row: dict[str, Cell]) -> Config | None:
    segment_bytes = row["segment_bytes"].whole("segment_bytes", 1) if "segment_bytes" in row else None
    if "algorithm" not in row:
        if segment_bytes is not None:
            raise row["segment_bytes"].error("nothing, as the row names no algorithm")
        return None
    name = row["algorithm"]
    if len(name.text) > 64 or not name.text.isprintable():
        raise name.error("an algorithm's name of up to 64 letters")
    return Config(algorithm=name.text, segment_bytes=segment_bytes)
