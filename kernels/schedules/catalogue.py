"""The table of algorithms in kernels/README.md, made from the schedules.

In: the registry. Out: rows, and Markdown. The formulas are not written down by hand: each row shows the one that gives
what ``cost_figures`` counts for every n tried, and a schedule without one is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from ...types import Collective, Layout
from .algorithm import Algorithm
from .registry import ALGORITHMS, cost_figures

_PLAIN_SIZES = range(4, 18)
_GROUPED_SIZES = ((2, 3), (3, 2), (2, 4), (4, 2), (3, 3), (5, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """n positions, for hierarchical in n_groups groups of size."""

    n: int
    n_groups: int
    size: int

    @property
    def log(self) -> int:
        return (self.n - 1).bit_length()

    @property
    def log_groups(self) -> int:
        return (self.n_groups - 1).bit_length()

    @property
    def core(self) -> int:
        return 1 << (self.n.bit_length() - 1)

    @property
    def log_core(self) -> int:
        return self.n.bit_length() - 1

    @property
    def folded(self) -> int:
        return int(self.n != self.core)

    @property
    def layout(self) -> Layout | None:
        if self.n_groups == 1:
            return None
        ranks = tuple(range(self.n))
        groups = tuple(ranks[first : first + self.size] for first in range(0, self.n, self.size))
        return Layout(order=ranks, groups=groups)


Formula = Callable[[_Case], int | Fraction]

_STEPS: dict[str, Formula] = {
    "1": lambda c: 1,
    "2": lambda c: 2,
    "n - 1": lambda c: c.n - 1,
    "n": lambda c: c.n,
    "2(n - 1)": lambda c: 2 * (c.n - 1),
    "ceil(log2 n)": lambda c: c.log,
    "1 + ceil(log2 n)": lambda c: 1 + c.log,
    "2 ceil(log2 n)": lambda c: 2 * c.log,
    "2 floor(log2 n)": lambda c: 2 * c.log_core,
    "ceil(log2 n) + f": lambda c: c.log + c.folded,
    "2 ceil(log2 n) - f": lambda c: 2 * c.log - c.folded,
    "1 + ceil(log2 G)": lambda c: 1 + c.log_groups,
    "1 + 2 ceil(log2 G)": lambda c: 1 + 2 * c.log_groups,
    "2 + 2 ceil(log2 G)": lambda c: 2 + 2 * c.log_groups,
    "2 + 2 floor(log2 G)": lambda c: 2 * c.n_groups.bit_length(),
    "2G": lambda c: 2 * c.n_groups,
    "3": lambda c: 3,
}

_BYTES: dict[str, Formula] = {
    "1": lambda c: 1,
    "2": lambda c: 2,
    "n - 1": lambda c: c.n - 1,
    "(n - 1)/n": lambda c: Fraction(c.n - 1, c.n),
    "2(n - 1)/n": lambda c: Fraction(2 * (c.n - 1), c.n),
    "ceil(log2 n)": lambda c: c.log,
    "2(p - 1)/p + f": lambda c: Fraction(2 * (c.core - 1), c.core) + c.folded,
    "(n - 1)/n, below 12/5 if f = 1": lambda c: Fraction(_folded_blocks(c), c.n),
    "b/n": lambda c: Fraction(sum(j.bit_count() for j in range(c.n)), c.n),
    "g - 1 + ceil(log2 G)": lambda c: c.size - 1 + c.log_groups,
    "g + G - 2": lambda c: c.size + c.n_groups - 2,
    "2 - 1/g - 1/G": lambda c: 2 - Fraction(1, c.size) - Fraction(1, c.n_groups),
    "(2(g - 1) + r)/g": lambda c: (2 * (c.size - 1) + _between(c, "recursive_halving_doubling")) / c.size,
    "(2(g - 1) + d)/g": lambda c: (2 * (c.size - 1) + _between(c, "double_tree")) / c.size,
    "g - 1 + 2(G - 1)/G": lambda c: c.size - 1 + Fraction(2 * (c.n_groups - 1), c.n_groups),
    "((g - 1)(n - 1) + n - g)/n": lambda c: Fraction((c.size - 1) * (c.n - 1) + c.n - c.size, c.n),
    "g/2 + (G - 1)/G": lambda c: Fraction(c.size, 2) + Fraction(c.n_groups - 1, c.n_groups),
    "below g - 1 + ceil(log2 G)": lambda c: Fraction(_first_leaders_blocks(c), c.n),
}


def _between(case: _Case, name: str) -> Fraction:
    """What this all_reduce costs over as many positions as there are groups."""
    return cost_figures(Collective.ALL_REDUCE, name, case.n_groups)[1]


def _folded_blocks(case: _Case) -> int:
    """Blocks that position 0 sends in the folded all_gather: its growing share, then all but one to its pair."""
    sent = sum(d + min(d, case.n - case.core) for d in (1 << k for k in range(case.log_core)))
    return sent + case.folded * (case.n - 1)


def _first_leaders_blocks(case: _Case) -> int:
    """Blocks that the first leader sends where leaders fold: back to each, in the exchange, and in its group."""
    back = [1 << k for k in range(1, case.log_groups)]
    sent = sum(case.n - case.size * ((case.n_groups + d - 1) // (2 * d)) for d in back)
    return sent + case.size * -(-case.n_groups // 2) + (case.size - 1) * (case.n - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Collectives that one algorithm carries out at the same cost.

    Args:
        steps: formula; exact from n = 4 on.
        bytes_on_wire: formula, in messages, of the busiest rank.
        limits: where it is legal.
    """

    name: str
    collectives: tuple[Collective, ...]
    steps: str
    bytes_on_wire: str
    limits: str
    source: str


def rows() -> tuple[Row, ...]:
    """One row for each algorithm and cost, in the order of the registry."""
    found: list[Row] = []
    for algorithm in ALGORITHMS:
        for collective in algorithm.collectives:
            row = _row(algorithm, collective)
            same = next((i for i, old in enumerate(found) if replace(old, collectives=row.collectives) == row), None)
            if same is None:
                found.append(row)
            else:
                found[same] = replace(row, collectives=found[same].collectives + row.collectives)
    return tuple(found)


def _row(algorithm: Algorithm, collective: Collective) -> Row:
    if collective in algorithm.grouped:
        cases = [_Case(n=n_groups * size, n_groups=n_groups, size=size) for n_groups, size in _GROUPED_SIZES]
    else:
        cases = [_Case(n=n, n_groups=1, size=n) for n in _PLAIN_SIZES]
    counted = [cost_figures(collective, algorithm.name, case.n, case.layout) for case in cases]
    return Row(
        name=algorithm.name,
        collectives=(collective,),
        steps=_matching(_STEPS, cases, [steps for steps, _ in counted]),
        bytes_on_wire=_matching(_BYTES, cases, [wire for _, wire in counted]),
        limits=algorithm.limits(collective),
        source=algorithm.source,
    )


def _matching(formulas: dict[str, Formula], cases: list[_Case], counted: list[int] | list[Fraction]) -> str:
    for text, formula in formulas.items():
        if [formula(case) for case in cases] == counted:
            return text
    raise ValueError(f"no formula gives {[str(figure) for figure in counted]} for n = {[case.n for case in cases]}")


def markdown_table() -> str:
    """The table with its legend, as it stands between the markers of kernels/README.md."""
    lines = [
        "| algorithm | collectives | steps | bytes on the wire | legal n | source |",
        "|---|---|---|---|---|---|",
    ]
    named: set[str] = set()
    for row in rows():
        collectives = ", ".join(collective.value for collective in row.collectives)
        source = "" if row.name in named else row.source
        named.add(row.name)
        lines.append(f"| `{row.name}` | {collectives} | {row.steps} | {row.bytes_on_wire} | {row.limits} | {source} |")
    lines += [
        "",
        "Bytes on the wire: what the busiest rank sends or receives, whichever is more, in units of message_bytes.",
        "The formulas are exact from n = 4 on. p is the largest power of two up to n; f is 1 where n is not one,",
        "else 0. b is the number of binary ones in 1, 2, ... n - 1 together, which is n log2(n)/2 for a power of two.",
        "n = Gg ranks stand in G groups of g; r and d are bytes of recursive_halving_doubling and double_tree over G.",
        "Where the table does not say equal, groups may differ in size; all_reduce then has as many leaders in each",
        "as the smallest has ranks, and costs more.",
    ]
    return "\n".join(lines) + "\n"
