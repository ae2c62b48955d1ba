"""msModeling's CSV of communication times.

Source: Horacehxw/msModeling, docs/perf_database/COMM_DATA_SPEC.md: ``message_bytes`` is one rank's shard for all_gather
and reduce_scatter; ``topology_tier`` is 2 for a pair of dies, 1 inside a pod, 0 between pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...types import Collective
from ..sizes import Counted, message_bytes_of
from .hccl_profile import TYPES
from .lines import Cell, checked_text, nothing_found
from .log import Figure, Hints, Log
from .rows import header_of, needed, rows_of

COLUMNS = ("message_bytes", "num_devices", "dtype", "topology_tier", "Duration(us)", "bandwidth_gbps")
SIZES: Mapping[Collective, Counted] = {
    Collective.ALL_REDUCE: Counted.MESSAGE,
    Collective.ALL_GATHER: Counted.PER_RANK,
    Collective.REDUCE_SCATTER: Counted.PER_RANK,
    Collective.ALL_TO_ALL: Counted.MESSAGE,
}


@dataclass(frozen=True, slots=True)
class MsModeling:
    """msModeling."""

    name: str = "msmodeling"
    summary: str = "msModeling's CSV of communication times"
    backend: str = "hccl"
    must_say: tuple[str, ...] = ("--collective",)

    @property
    def sizes(self) -> Mapping[Collective, Counted]:
        return SIZES

    def recognises(self, text: str) -> bool:
        return set(COLUMNS[:5]) <= set(header_of(text))

    def parse(self, text: str, source: str, hints: Hints) -> Log:
        collective = hints.collective_of(None, source)
        if collective not in SIZES:
            raise nothing_found(source, self.name, (f"what it means by a size of {collective.value} is not known",))
        tiers: dict[int, Cell] = {}
        figures: list[Figure] = []
        for row in rows_of(checked_text(text, source), source, required=COLUMNS[:5], optional=COLUMNS[5:]):
            first = needed(row, "message_bytes")
            n_ranks = needed(row, "num_devices").whole("num_devices", 1, 1 << 20)
            if hints.n_ranks not in (None, n_ranks):
                continue
            tier = needed(row, "topology_tier")
            if tiers.setdefault(n_ranks, tier).text != tier.text:
                raise tier.error(f"{tiers[n_ranks].text} as in line {tiers[n_ranks].line}: one tier in a file")
            dtype = needed(row, "dtype").one_of(TYPES, "dtype")
            figures.append(
                Figure(
                    line=first.line,
                    collective=collective,
                    n_ranks=n_ranks,
                    message_bytes=message_bytes_of(SIZES[collective], first.whole("message_bytes", 1), n_ranks),
                    time_us=needed(row, "Duration(us)").above_zero("duration in us"),
                    dtype=dtype if collective.computes else None,
                )
            )
        if not figures:
            raise nothing_found(source, self.name)
        return Log(format_name=self.name, figures=tuple(figures))
