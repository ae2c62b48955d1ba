"""What is measured: every collective on every rank count and size. Pure.

In:  the lists of the command line. Out: `Cell`s, with sizes rounded up to whole elements of every rank.
May not touch: libraries, processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.types import Collective, DType, Memory, OpClass, Problem, RuleKey, SampleKind, round_up_message
from autotune.units import format_bytes

COLLECTIVES = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.BROADCAST,
    Collective.REDUCE,
    Collective.ALL_TO_ALL,
)
RANKS = (2, 4, 8)
SIZES = (8, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20)
QUICK_COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER)
QUICK_RANKS = (2, 4)
QUICK_SIZES = (8, 64 << 10, 1 << 20)
ITEM_BYTES = DType.FLOAT32.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One collective of float32 sums, on one number of ranks, with one size.

    Args:
        size_bytes: as asked for; `message_bytes` is that, rounded up.
    """

    collective: Collective
    n_ranks: int
    size_bytes: int
    kind: SampleKind = SampleKind.FRESH

    @property
    def message_bytes(self) -> int:
        """The larger of a rank's input and output, in whole elements of every rank."""
        return round_up_message(self.collective, self.size_bytes, self.n_ranks, ITEM_BYTES)

    @property
    def count(self) -> int:
        """Elements of the buffer; of one rank's part where the collective splits by rank."""
        parts = self.n_ranks if self.collective.splits_by_rank else 1
        return self.message_bytes // ITEM_BYTES // parts

    def problem(self, memory: Memory) -> Problem:
        """The cell in the tuner's words. Collectives that only move are moved as bytes there."""
        computes = self.collective.computes
        key = RuleKey(
            backend="native",
            collective=self.collective,
            dtype=DType.FLOAT32 if computes else None,
            op_class=OpClass.SUM if computes else None,
            n_ranks=self.n_ranks,
            placement=(self.n_ranks,),
            memory=memory,
        )
        return Problem(key=key, message_bytes=self.message_bytes)

    def __str__(self) -> str:
        return f"{self.collective.value} {self.n_ranks} ranks {format_bytes(self.size_bytes)}"


def grid(
    collectives: Sequence[Collective], ranks: Sequence[int], sizes: Sequence[int], kind: SampleKind
) -> tuple[Cell, ...]:
    """All cells; rank counts outermost, since the ranks of all libraries are started once for each."""
    return tuple(
        Cell(collective=collective, n_ranks=n_ranks, size_bytes=size, kind=kind)
        for n_ranks in ranks
        for collective in collectives
        for size in sizes
    )
