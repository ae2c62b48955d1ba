"""The table that a rank brings to the meeting of its group. Standard library only.

In:  settings, the table that the caller named. Out: its text, and what must be equal on all ranks for it.
May not touch: other ranks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import AutotuneError
from ..settings import Settings
from ..table import TuningTable, dump_table, shipped_table
from .source import find_table, is_url, open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtTable:
    """What a rank brings to the meeting.

    Args:
        text: of the table; empty where rank 0 fetches it for all.
        failure: why rank 0 has none. It is told where the ranks meet: raised before, it would leave the others waiting.
    """

    must_agree: dict[str, str]
    text: str = ""
    failure: AutotuneError | None = None

    def unless_failed(self, create: Callable[[], int]) -> int:
        if self.failure is not None:
            raise self.failure
        return create()


def brought_table(rank: int, settings: Settings, table: TuningTable | str | os.PathLike[str] | None) -> BroughtTable:
    """Each rank's own; from a server, rank 0's for all, so that a thousand ranks do not ask for what one hands out."""
    if table is not None or settings.table is None or not is_url(settings.table):
        source = find_table(settings) if table is None else open_table(table)
        # Shipped rules follow the host's caches. Hosts that differ in these still meet, on those of rank 0.
        agreed = source.table if source.why_shipped is None else shipped_table()
        return BroughtTable(must_agree={"table digest": agreed.digest}, text=dump_table(source.table))
    must_agree = {"AUTOTUNE_TABLE": settings.table}
    if rank != 0:
        return BroughtTable(must_agree=must_agree)
    try:
        return BroughtTable(must_agree=must_agree, text=dump_table(find_table(settings).table))
    except AutotuneError as err:
        return BroughtTable(must_agree=must_agree, failure=err)
