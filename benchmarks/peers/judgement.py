"""What the rounds prove: won, held, lost or undecided for each cell, and geometric means over cells. Pure.

In:  samples of ours and of the peers, by round. Out: `Judgement`s, `Mean`s.
May not touch: how samples were taken.

A cell counts only where it is proved: the lower end of the 95 % interval of the paired ratio (best peer / ours) is at
least 0.97, and the interval's half-width at most 7 %. The best peer is the one with the lowest ratio.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.measure import Comparison, paired_ratio
from autotune.types import Memory, Sample

from .cells import Cell

HELD_FROM = 0.97
MOST_HALF_WIDTH = 0.07
SYMMETRIC_FROM_BYTES = 16 << 10
"""Symmetric memory is asked for where copies count; smaller messages travel in the flag's cache line anyway."""


class Verdict(enum.Enum):
    """WON: proved faster. HELD: proved no slower than 3 %. LOST: proved slower than that. UNDECIDED: nothing proved."""

    WON = "won"
    HELD = "held"
    LOST = "lost"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Ours, with buffers in one kind of memory, against the best peer of a cell.

    Args:
        ratios: each peer's time over ours, paired by round.
        best_peer: the peer with the lowest ratio.
        prototypes: each prototype's time over ours; they take no part in the verdict.
        floor_share: the fastest floor's time over ours, where one was measured.
    """

    cell: Cell
    memory: Memory
    ratios: Mapping[str, Comparison]
    best_peer: str
    verdict: Verdict
    prototypes: Mapping[str, Comparison]
    floor_share: Comparison | None = None

    @property
    def ratio(self) -> Comparison:
        return self.ratios[self.best_peer]

    @property
    def half_width(self) -> float:
        """Of the ratio's interval, as a share of the ratio; infinite below six rounds."""
        return half_width(self.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The geometric mean of the ratios of some cells.

    Args:
        n_decided: cells that are won, held or lost among the n_cells.
        at_floor: what it would be if ours took as long as the floors; None where a cell has none.
    """

    label: str
    ratio: float
    n_cells: int
    n_decided: int
    at_floor: float | None = None


def half_width(ratio: Comparison) -> float:
    """Half of the interval's width, as a share of the ratio."""
    if ratio.low is None or ratio.high is None:
        return math.inf
    return (ratio.high - ratio.low) / 2 / ratio.median


def verdict_of(ratio: Comparison) -> Verdict:
    """The rule at the top of this file."""
    if ratio.low is None or ratio.high is None:
        return Verdict.UNDECIDED
    if ratio.high < HELD_FROM:
        return Verdict.LOST
    if ratio.low < HELD_FROM or half_width(ratio) > MOST_HALF_WIDTH:
        return Verdict.UNDECIDED
    return Verdict.WON if ratio.low > 1.0 else Verdict.HELD


def judge(
    cell: Cell,
    memory: Memory,
    ours: Sequence[Sample],
    peers: Mapping[str, Sequence[Sample]],
    *,
    prototypes: Mapping[str, Sequence[Sample]],
    floors: Mapping[str, Sequence[Sample]],
) -> Judgement | None:
    """None where no peer has a sample in a round that ours has one in."""
    ratios = _ratios(ours, peers)
    if not ratios:
        return None
    best_peer = min(ratios, key=lambda name: (ratios[name].median, name))
    return Judgement(
        cell=cell,
        memory=memory,
        ratios=ratios,
        best_peer=best_peer,
        verdict=verdict_of(ratios[best_peer]),
        prototypes=_ratios(ours, prototypes),
        floor_share=min(_ratios(ours, floors).values(), key=lambda ratio: ratio.median, default=None),
    )


def _ratios(ours: Sequence[Sample], others: Mapping[str, Sequence[Sample]]) -> dict[str, Comparison]:
    """Time over ours of those that share a round with it."""
    rounds = {sample.round for sample in ours}
    return {
        name: paired_ratio(samples, ours)
        for name, samples in others.items()
        if rounds & {sample.round for sample in samples}
    }


def needs_rounds(judgement: Judgement | None, *, most_rounds: int) -> bool:
    """Whether more rounds could still decide the cell."""
    if judgement is None:
        return False
    return judgement.verdict is Verdict.UNDECIDED and judgement.ratio.n_rounds < most_rounds


def geometric_means(judgements: Iterable[Judgement]) -> list[Mean]:
    """One for each collective, rank count and kind of memory, in the order in which they come."""
    groups: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        cell = judgement.cell
        symmetric = judgement.memory is Memory.SYMMETRIC
        if symmetric and cell.size_bytes < SYMMETRIC_FROM_BYTES:
            continue
        label = f"{cell.collective.value}, {cell.n_ranks} ranks, {judgement.memory.value}"
        groups.setdefault(label + (" from 16 KiB" if symmetric else ""), []).append(judgement)
    return [
        Mean(
            label=label,
            ratio=_geometric_mean([judgement.ratio.median for judgement in group]),
            n_cells=len(group),
            n_decided=sum(judgement.verdict is not Verdict.UNDECIDED for judgement in group),
            at_floor=_at_floor(group),
        )
        for label, group in groups.items()
    ]


def _at_floor(group: Sequence[Judgement]) -> float | None:
    known = [(judgement.ratio.median, judgement.floor_share) for judgement in group]
    ratios = [ratio / share.median for ratio, share in known if share is not None]
    return _geometric_mean(ratios) if len(ratios) == len(group) else None


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))
