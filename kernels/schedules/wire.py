"""What a lossy codec does to a schedule: whether all ranks still end with the same bits, and how far these are off.

In:  a schedule and its collective. Out: `Wire`: an objection or none, how often values are encoded, and who is charged
     with the error of each encoding.
May not touch: data, codecs, ranks. An encoding is a symbol here.

The rules that executors follow, with R(v) for decode(encode(v)); R(R(v)) and R(v) have the same bits (csrc/codec.h):

1. what is sent is encoded, and its reader has R(v);
2. whoever sends a block has R(v) itself from then on: in a later step, as an operand of what arrives in the same step,
   and in its output. So a copy may be passed on as the bytes that came, or encoded anew: they are the same bytes;
3. arrivals of a block in one step are combined in the order of ranks, the own value in its place.

**Same bits.** `follow` carries every block through the schedule as an expression of inputs, R and sums. Where positions
that must end with the same block end with one expression, they have the same bits, whatever the values. Where not, the
schedule is illegal for every lossy codec. That happens where several positions compute the same sum and only some of
them send it (recursive doubling with folded pairs): these keep R(sum), the others the sum.

**Error.** One encoding is off by at most d times the norm of what is encoded (codecs.py). Let C be the sum of the norms
of the contributions in a value, and let the value be off by at most e C; for an input e is 0. Its norm is at most (1 +
e) C. R(v) is then off by at most e C + d (1 + e) C, so 1 + e becomes (1 + e)(1 + d). Sums add up both C and errors, so
a sum has the largest e of its operands; so have maxima and minima, which move by no more than the sum of their
operands' errors and are no larger than the sum of their magnitudes; an average divides all by n. By induction the
result is off by at most

    E = (1 + d)**longest - 1        times the sum over ranks of the norms of their contributions,

longest being the largest number of encodings that any contribution passes through. Bounds for blocks carry over to
whole buffers (Minkowski). The norm of the *result* is no measure here: where contributions cancel it may be 0. Where d
bounds every element's error by itself (threshold_abs), errors of all encodings in a result add up: its elements are off
by at most total times that. The rounding of the sums themselves comes on top, as it does without a codec.

**Charges, for error feedback.** An encoding's error goes into the result once, however many positions make the same
encoding. The first of them is charged with it, the others are not. What was sent once already is encoded without error.

Time and memory grow with the transfers of single blocks: n**2 for most algorithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from ...types import Collective
from .ir import Schedule
from .semantics import holds

Place = tuple[int, int]
"""(position, block)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How a schedule fares with a lossy codec.

    Args:
        objection: why it is illegal; None if it is legal.
        longest: encodings that a contribution passes through at most, on its way into a result.
        total: encodings that enter one block of a result at most, those of all contributions together.
        charged: for each plain step, the places that encode a value which no place encoded before.
    """

    objection: str | None
    longest: int
    total: int
    charged: tuple[frozenset[Place], ...]

    def relative_error(self, each: float) -> float:
        """E, relative to the sum of the norms of all contributions, if each encoding is off by `each` of the norm."""
        return math.expm1(self.longest * math.log1p(each))

    def absolute_error(self, each: float) -> float:
        """How far an element may be off, if each encoding moves an element by up to `each`."""
        return self.total * each


def codec_legality(collective: Collective, schedule: Schedule) -> str | None:
    """Why no lossy codec may be used with this schedule; None if any may."""
    return follow(collective, schedule).objection


@lru_cache(maxsize=256)
def follow(collective: Collective, schedule: Schedule) -> Wire:
    """Carry every block through a checked schedule.

    Raises:
        ScheduleError: the number of blocks does not fit the collective.
    """
    before, wanted = holds(collective, schedule.n, schedule.blocks)
    values = _Values()
    state = [[values.input(p, b) if mask else -1 for b, mask in enumerate(row)] for p, row in enumerate(before)]
    charged = []
    for step in schedule.expand():
        sent: dict[Place, int] = {}
        fresh = []
        for src, _, blocks, _ in step:
            for block in blocks:
                if (src, block) not in sent:
                    sent[src, block], new = values.encoded(state[src][block])
                    if new:
                        fresh.append((src, block))
        arrivals: dict[Place, dict[int, int]] = {}
        reduced: set[Place] = set()
        for src, dst, blocks, reduce in step:
            for block in blocks:
                arrivals.setdefault((dst, block), {})[src] = sent[src, block]
                if reduce:
                    reduced.add((dst, block))
        for (position, block), value in sent.items():
            state[position][block] = value
        for (position, block), operands in arrivals.items():
            if (position, block) in reduced:
                operands[position] = state[position][block]
            state[position][block] = values.combined([operands[p] for p in sorted(operands)])
        charged.append(frozenset(fresh))
    ends = [[(p, state[p][block]) for p, row in enumerate(wanted) if row[block]] for block in range(schedule.blocks)]
    results = {value for places in ends for _, value in places}
    return Wire(
        objection=next((text for block, places in enumerate(ends) if (text := _difference(block, places))), None),
        longest=max((values.longest[value] for value in results), default=0),
        total=max((values.total[value] for value in results), default=0),
        charged=tuple(charged),
    )


def _difference(block: int, places: list[tuple[int, int]]) -> str | None:
    """Two positions that end with other values of a block; None if all have the same."""
    for position, value in places[1:]:
        if value != places[0][1]:
            return (
                f"positions {places[0][0]} and {position} would end with different bits of block {block}: "
                "both compute its sum, and only one of them sends it on"
            )
    return None


class _Values:
    """Expressions, each with one number; equal expressions have equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._encodings: set[int] = set()
        self.longest: list[int] = []
        self.total: list[int] = []

    def _number(self, key: tuple[object, ...], longest: int, total: int) -> int:
        number = self._numbers.setdefault(key, len(self.longest))
        if number == len(self.longest):
            self.longest.append(longest)
            self.total.append(total)
        return number

    def input(self, position: int, block: int) -> int:
        return self._number(("input", position, block), 0, 0)

    def encoded(self, value: int) -> tuple[int, bool]:
        """R(value), and whether it is the first encoding of that value."""
        if value in self._encodings:
            return value, False
        known = len(self.longest)
        number = self._number(("encoded", value), self.longest[value] + 1, self.total[value] + 1)
        self._encodings.add(number)
        return number, number == known

    def combined(self, operands: list[int]) -> int:
        """The operands in the order of ranks; alone, one is itself. a + b + c is (a + b) + c, and a + b is b + a."""
        if len(operands) == 1:
            return operands[0]
        key = ("combined", *sorted(operands[:2]), *operands[2:])
        return self._number(key, max(self.longest[o] for o in operands), sum(self.total[o] for o in operands))
