"""What is measured on the testbed: scenes, their cells, each with a name, and who may run in a cell. Pure.

In:  the command line's lists and patterns. Out: `Scene`s, cells, candidates. May not touch: namespaces, samples.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from hosts.findings import PAYLOAD
from peers.cells import Cell

from autotune.errors import UsageError
from autotune.kernels.programs import layout_of
from autotune.kernels.schedules.registry import build, names
from autotune.types import Collective, Config, Layout
from autotune.units import format_bytes

SIZES = (8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
QUICK_SIZES = (8, 4 << 10, 64 << 10, 1 << 20)
PLACEMENTS = ("4x1", "2x2", "4x2")
RATES_MBIT = (1000, 0)
COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER)
SEGMENTS = (64 << 10, 256 << 10, 1 << 20)
LARGE_SEGMENTS = (256 << 10, 1 << 20)
SLOW_ABOVE = {
    "flat": 16 << 10,
    "recursive_doubling": 1 << 20,
    "tree": 1 << 20,
    "folded_leaders": 1 << 20,
    "chain": 1 << 20,
}
"""Algorithms that are no candidates above these sizes: they send whole buffers several times, or wait for each hop."""
LARGE_BYTES = 16 << 20
"""From here on a race has time for few samples, so those that send more between hosts than others do are left out."""
MOST_CROSSING = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Hosts with as many ranks each, behind interfaces of one rate; 0 Mbit/s is not shaped."""

    n_hosts: int
    ranks_per_host: int
    rate_mbit: int

    @classmethod
    def of(cls, placement: str, rate: str) -> Scene:
        """From "4x1" and "1000".

        Raises:
            UsageError: they are no such words.
        """
        words = (*placement.split("x"), rate)
        if len(words) != 3 or not all(word.isdecimal() for word in words) or int(words[1]) < 1:
            raise UsageError(
                f"{placement!r} at {rate!r} Mbit/s", remedy="give hosts and ranks as 4x1, a rate as 1000 or 0"
            )
        return cls(n_hosts=int(words[0]), ranks_per_host=int(words[1]), rate_mbit=int(words[2]))

    @property
    def per_host(self) -> tuple[int, ...]:
        return (self.ranks_per_host,) * self.n_hosts

    @property
    def name(self) -> str:
        """ "4x1-1000", as files are called."""
        return f"{self.n_hosts}x{self.ranks_per_host}-{self.rate_mbit}"

    @property
    def words(self) -> str:
        rate = f"{self.rate_mbit} Mbit/s" if self.rate_mbit else "not shaped"
        return f"{self.n_hosts}x{self.ranks_per_host} ranks, {rate}"

    @property
    def layout(self) -> Layout:
        host_of = tuple(host for host, size in enumerate(self.per_host) for _ in range(size))
        return layout_of(len(host_of), 0, host_of)

    def name_of(self, cell: Cell) -> str:
        """ "4x1/1000/all_reduce/8B", as --only means it."""
        place = f"{self.n_hosts}x{self.ranks_per_host}/{self.rate_mbit}"
        return f"{place}/{cell.collective.value}/{format_bytes(cell.size_bytes)}"

    def cells(self, collectives: Sequence[Collective], sizes: Sequence[int], only: Sequence[str] = ()) -> list[Cell]:
        """Those whose names match one of the patterns, if there are any."""
        n_ranks = sum(self.per_host)
        made = [Cell(collective=c, n_ranks=n_ranks, size_bytes=size) for c in collectives for size in sizes]
        return [c for c in made if not only or any(fnmatch.fnmatchcase(self.name_of(c), wanted) for wanted in only)]

    def line_share(self, cell: Cell, time_us: float) -> float | None:
        """The fewest bytes that pass a host's interface, over what it could carry meanwhile; None if not shaped."""
        if not self.rate_mbit:
            return None
        ways = 2 if cell.collective is Collective.ALL_REDUCE else 1
        crossing_bytes = ways * (self.n_hosts - 1) / self.n_hosts * cell.message_bytes
        return crossing_bytes / (time_us * 1e-6) / (self.rate_mbit * 1e6 / 8 * PAYLOAD)

    def candidates(self, cell: Cell) -> list[Config]:
        """Ours: every legal algorithm with every segment size, but those that are known to be slow at this size."""
        legal = names(cell.collective, cell.n_ranks, self.layout)
        chosen = [name for name in legal if cell.message_bytes <= SLOW_ABOVE.get(name, cell.message_bytes)]
        segments = [segment for segment in SEGMENTS if segment <= max(cell.message_bytes, SEGMENTS[0])]
        if cell.message_bytes >= LARGE_BYTES:
            segments = list(LARGE_SEGMENTS)
            crossing = {name: self._crossing(cell, name) for name in chosen}
            chosen = [name for name in chosen if crossing[name] <= MOST_CROSSING * min(crossing.values())]
        return [Config(algorithm=name, segment_bytes=segment) for name in chosen for segment in segments]

    def _crossing(self, cell: Cell, name: str) -> float:
        """Messages' worth of bytes that leave or enter the busiest host."""
        schedule = build(cell.collective, name, cell.n_ranks, self.layout)
        passing = [[0] * self.n_hosts for _ in range(2)]
        for step in schedule.expand():
            for src, dst, blocks, _ in step:
                hosts = (src // self.ranks_per_host, dst // self.ranks_per_host)
                if hosts[0] != hosts[1]:
                    for way, host in enumerate(hosts):
                        passing[way][host] += len(blocks)
        return max(map(max, passing)) / schedule.blocks
