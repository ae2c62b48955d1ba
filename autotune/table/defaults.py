"""The default's own rules: what runs where nothing was measured. Total over all sizes and rank counts. Pure values.

The shipped rules are data (native_defaults.json), not thresholds in code; ``shipped.py`` reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ..types import Collective, Config, Memory
from ..units import MAX_BYTES
from .rule import check_config


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRow:
    """The config for rank counts in ``[ranks_from, ranks_to)``, from a size up to the next row of the same rank counts.

    Args:
        ranks_to: one above the last rank count; None for all that follow.
        memory: where the buffers of the call lie.
    """

    collective: Collective
    ranks_from: int
    ranks_to: int | None
    from_bytes: int
    config: Config
    memory: Memory = Memory.PRIVATE

    def __post_init__(self) -> None:
        if self.ranks_from < 1 or (self.ranks_to is not None and self.ranks_to <= self.ranks_from):
            raise ValueError(f"rank counts [{self.ranks_from}, {self.ranks_to}) are no range from 1")
        if not 0 <= self.from_bytes <= MAX_BYTES:
            raise ValueError(f"from_bytes {self.from_bytes} is not a size from 0 to {MAX_BYTES}")
        if self.config.codec != "none":
            raise ValueError(f"the default {self.config} is lossy")
        check_config(self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRules:
    """Rows that answer for every collective, every rank count from 1 and every size from 0.

    Rows for symmetric memory answer for all rank counts and sizes of their collective, or there are none of them: then
    those for private memory hold there too.

    Args:
        rows: in any order; kept sorted by collective, memory, rank counts and size.

    Raises:
        ValueError: a collective, rank count or size without an answer, or with two.
    """

    backend: str
    rows: tuple[DefaultRow, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(sorted(self.rows, key=_order)))
        for collective, memory in itertools.product(Collective, Memory):
            rows = [row for row in self.rows if (row.collective, row.memory) == (collective, memory)]
            if not rows and memory is Memory.SYMMETRIC:
                continue
            whose = collective.value if memory is Memory.PRIVATE else f"{collective.value} in {memory.value} memory"
            next_rank: int | None = 1
            for first, *later in _bands(rows):
                if first.ranks_from != next_rank or first.from_bytes != 0:
                    raise ValueError(
                        f"the defaults of {whose} do not answer once for {next_rank} ranks and 0 bytes; "
                        f"found ranks from {first.ranks_from}, sizes from {first.from_bytes}"
                    )
                sizes = [row.from_bytes for row in (first, *later)]
                if len(set(sizes)) != len(sizes):
                    raise ValueError(f"the defaults of {whose} answer twice from one size: {sizes}")
                next_rank = first.ranks_to
            if next_rank is not None:
                raise ValueError(f"the defaults of {whose} do not answer for {next_rank} ranks and more")

    def by_size(self, collective: Collective, n_ranks: int, memory: Memory = Memory.PRIVATE) -> tuple[DefaultRow, ...]:
        """The rows for a rank count from 1, by ascending from_bytes; the first begins at 0."""
        found = tuple(
            row
            for row in self.rows
            if row.collective is collective
            and row.memory is memory
            and row.ranks_from <= n_ranks
            and (row.ranks_to is None or n_ranks < row.ranks_to)
        )
        return found if found or memory is Memory.PRIVATE else self.by_size(collective, n_ranks)

    def lookup(
        self, collective: Collective, n_ranks: int, message_bytes: int, memory: Memory = Memory.PRIVATE
    ) -> Config:
        """The default's config for a rank count from 1 and a size from 0."""
        rows = self.by_size(collective, n_ranks, memory)
        return [row for row in rows if row.from_bytes <= message_bytes][-1].config


def _order(row: DefaultRow) -> tuple[str, str, int, int, int]:
    return (row.collective.value, row.memory.value, row.ranks_from, row.ranks_to or 0, row.from_bytes)


def _bands(rows: list[DefaultRow]) -> Iterator[list[DefaultRow]]:
    """Runs of sorted rows that share their rank counts."""
    band: list[DefaultRow] = []
    for row in rows:
        if band and (row.ranks_from, row.ranks_to) != (band[0].ranks_from, band[0].ranks_to):
            yield band
            band = []
        band.append(row)
    if band:
        yield band
