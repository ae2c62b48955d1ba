"""The default's own rules: what runs where nothing was measured. Total over all calls. Pure values.

The shipped rules are data (native_defaults.json), not thresholds in code; ``shipped.py`` reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ..types import Collective, Config, Memory, RuleKey, Spread
from ..units import MAX_BYTES
from .rule import check_config


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRow:
    """The config for rank counts in ``[ranks_from, ranks_to)``, from a size up to the next row of the same rank counts.

    Args:
        ranks_to: one above the last rank count; None for all that follow.
        memory: where the buffers of the call lie.
        spread: how the ranks lie over hosts.
    """

    collective: Collective
    ranks_from: int
    ranks_to: int | None
    from_bytes: int
    config: Config
    memory: Memory = Memory.PRIVATE
    spread: Spread = Spread.ONE_HOST

    def __post_init__(self) -> None:
        if self.ranks_from < 1 or (self.ranks_to is not None and self.ranks_to <= self.ranks_from):
            raise ValueError(f"rank counts [{self.ranks_from}, {self.ranks_to}) are no range from 1")
        if not 0 <= self.from_bytes <= MAX_BYTES:
            raise ValueError(f"from_bytes {self.from_bytes} is not a size from 0 to {MAX_BYTES}")
        if self.config.codec != "none":
            raise ValueError(f"the default {self.config} is lossy")
        if self.memory is Memory.SYMMETRIC and self.spread is not Spread.ONE_HOST:
            raise ValueError(f"symmetric memory does not reach over several hosts, as in {self.spread.value}")
        check_config(self.config)

    def answers(self, key: RuleKey) -> bool:
        """Whether it is for this collective and number of ranks."""
        fits = self.ranks_from <= key.n_ranks and (self.ranks_to is None or key.n_ranks < self.ranks_to)
        return fits and self.collective is key.collective


_EVERYWHERE = (Memory.PRIVATE, Spread.ONE_HOST)
"""What rows of a collective must be there for; they stand in where it has none for another memory or spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRules:
    """Rows that answer for every collective, every rank count from 1 and every size from 0.

    Rows for symmetric memory, or for one of the ways to lie over several hosts, answer for all rank counts and sizes of
    their collective, or there are none of them: then those of the wider way hold there (`Spread`), those of private
    memory, and in the end those of private memory on one host.

    Args:
        rows: in any order; kept sorted by collective, memory, spread, rank counts and size.

    Raises:
        ValueError: a collective, rank count or size without an answer, or with two.
    """

    backend: str
    rows: tuple[DefaultRow, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(sorted(self.rows, key=_order)))
        for collective, kind in itertools.product(Collective, itertools.product(Memory, Spread)):
            rows = [row for row in self.rows if row.collective is collective and (row.memory, row.spread) == kind]
            if not rows and kind != _EVERYWHERE:
                continue
            memory, spread = kind
            whose = collective.value if memory is Memory.PRIVATE else f"{collective.value} in {memory.value} memory"
            whose += "" if spread is Spread.ONE_HOST else f" over several hosts ({spread.value})"
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

    def by_size(self, key: RuleKey) -> tuple[DefaultRow, ...]:
        """The rows for a kind of call, by ascending from_bytes; the first begins at 0."""
        spreads = Spread.of(key.placement)
        for kind in (*((key.memory, spread) for spread in spreads), *((Memory.PRIVATE, spread) for spread in spreads)):
            found = tuple(row for row in self.rows if (row.memory, row.spread) == kind and row.answers(key))
            if found:
                return found
        return tuple(row for row in self.rows if (row.memory, row.spread) == _EVERYWHERE and row.answers(key))

    def lookup(self, key: RuleKey, message_bytes: int) -> Config:
        """The default's config for a kind of call and a size from 0."""
        return [row for row in self.by_size(key) if row.from_bytes <= message_bytes][-1].config


def _order(row: DefaultRow) -> tuple[str, str, str, int, int, int]:
    first = "" if row.spread is Spread.ONE_HOST else row.spread.value
    return (row.collective.value, row.memory.value, first, row.ranks_from, row.ranks_to or 0, row.from_bytes)


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
