"""UCC's tune string of TL/UCP, as a line for a shell.

Source: openucx/ucc, docs/user_guide.md; src/coll_score/ucc_coll_score.c (tokens), ucc_coll_score_map.c (a range holds
both its ends), so ranges are written without a shared end. The score ``inf`` makes the choice hold against the other
transports too, which a choice of algorithm alone does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..table import TuningTable
from .decisions import Line, lines_of, merged
from .exporter import PLAIN, Exported, Request, nothing_left
from .words import library


@dataclass(frozen=True, slots=True)
class UccExporter:
    """``UCC_TL_UCP_TUNE`` for host memory."""

    name: str = "ucc"
    suffix: str = ".sh"
    summary: str = "UCC (Open MPI's coll/ucc, PyTorch's ucc): `UCC_TL_UCP_TUNE`"
    library: str = "ucc"
    loses: tuple[str, ...] = (
        "element types and operations: one list of ranges for each collective and team size",
        "where ranks sit: a team size is all that a range asks for",
        "segments and radices (UCC_TL_UCP_<collective>_KN_RADIX has its own ranges)",
        "the size of an MPI_IN_PLACE reduce_scatter, which UCC counts whole and not by rank",
    )
    checked: str = "read by a strict reader after UCC's parser; no UCC was at hand"

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        lines, notes = lines_of(table, request, library(self.library), sees=lambda key: None, check=lambda line: None)
        if not lines:
            raise nothing_left(self.name, notes, table, request)
        value = "#".join(_token(line) for line in merged(lines))
        return Exported(text=f"export UCC_TL_UCP_TUNE='{value}'\n", notes=notes, usage=(". {path}",))


def _token(line: Line) -> str:
    return f"{line.call.name}:{line.low}-{line.high}:host:[{line.key.n_ranks}]:inf:@{line.word}"
