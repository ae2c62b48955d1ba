"""The k groups that together lose least against the free choice: exact where that can be proved in time. Pure.

In:  cells with the time of every option, options with their memory, limits. Out: a `Solution`, with a lower bound.
May not touch: what an option stands for.

The problem is the k-median problem with a budget of memory, and with options that exclude each other. First greedy
addition and exchanges (Teitz and Bart 1968) give a good answer; then branch and bound (Land and Doig 1960) proves it
or finds a better one, within a number of nodes; where that is not enough, the bound is that of the Lagrangian
relaxation (Cornuejols, Fisher and Nemhauser 1977), and the answer says that it is not proved.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import AutotuneError

_NODES = 50_000  # of branch and bound: about a second
_ROUNDS = 120  # of the subgradient method
_CLOSE = 1e-12  # relative: losses nearer than this are equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One kind of call.

    Args:
        weight: how much it counts.
        free_us: with the free choice.
        times_us: with each option; None where it was not measured or cannot serve the call.
    """

    weight: float
    free_us: float
    times_us: tuple[float | None, ...]

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight < math.inf or not 0.0 < self.free_us < math.inf:
            raise ValueError(f"not a cell: weight {self.weight}, {self.free_us} us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A group that could be made.

    Args:
        memory_bytes: of each rank.
        exclusive: at most one option of this word can be made; None: any number.
    """

    memory_bytes: int
    exclusive: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The chosen options.

    Args:
        chosen: ascending.
        served_by: for each cell the chosen option that takes it.
        loss: weighted mean over the cells of time over the free choice's, less one.
        bound: no choice within the limits loses less.
        proved: whether this is the best there is.
    """

    chosen: tuple[int, ...]
    served_by: tuple[int, ...]
    loss: float
    bound: float
    proved: bool


def solve(
    cells: Sequence[Cell],
    options: Sequence[Option],
    *,
    max_groups: int,
    max_memory_bytes: int | None = None,
    nodes: int = _NODES,
) -> Solution:
    """Choose.

    Args:
        nodes: of branch and bound; 0 leaves the proof out.

    Raises:
        AutotuneError: no choice within the limits serves every cell.
        ValueError: no cells, or not one time for each option.
    """
    if not cells or max_groups < 1 or any(len(cell.times_us) != len(options) for cell in cells):
        raise ValueError("cells with one time for each option, and room for at least one group")
    problem = _Problem(cells, options, max_groups, max_memory_bytes)
    best = problem.greedy()
    proved = False
    if nodes:
        best, proved = problem.branch_and_bound(best, nodes)
    if best is None:
        memory = "" if max_memory_bytes is None else f" of {max_memory_bytes} bytes together"
        raise AutotuneError(
            f"no {max_groups} groups{memory} were found that serve all of {len(cells)} sizes",
            remedy="allow more groups or memory (--max-groups, --max-group-memory), or weigh the sizes (--weights)",
        )
    loss = problem.loss(best)
    bound = loss if proved else min(loss, problem.lagrangian(loss))
    return Solution(
        chosen=tuple(sorted(best)), served_by=problem.served_by(best), loss=loss, bound=bound, proved=proved
    )


class _Problem:
    """Costs as loss over the free choice times the share of the weight; infinite where an option cannot serve."""

    def __init__(
        self, cells: Sequence[Cell], options: Sequence[Option], max_groups: int, max_memory_bytes: int | None
    ) -> None:
        total = math.fsum(cell.weight for cell in cells)
        shares = [cell.weight / total if total else 1.0 / len(cells) for cell in cells]
        self.costs = [
            [_cost(cell, share, number) for cell, share in zip(cells, shares, strict=True)]
            for number in range(len(options))
        ]
        self.cells = cells
        self.options = options
        self.n_cells = len(cells)
        self.max_groups = max_groups
        self.max_memory = math.inf if max_memory_bytes is None else max_memory_bytes
        self.useful = [number for number in range(len(options)) if not self._dominated(number)]

    def _dominated(self, number: int) -> bool:
        """Whether another option is as good everywhere, and asks for no more; of equal ones the first stays."""
        mine, own = self.costs[number], self.options[number]
        if own.memory_bytes > self.max_memory:
            return True
        for other, option in enumerate(self.options):
            if other == number or option.memory_bytes > own.memory_bytes:
                continue
            if option.exclusive not in (None, own.exclusive):
                continue
            theirs = self.costs[other]
            if all(a <= b for a, b in zip(theirs, mine, strict=True)):
                equal = theirs == mine and option == own
                if not equal or other < number:
                    return True
        return False

    def fits(self, chosen: Iterable[int]) -> bool:
        """Whether the limits allow all of these together."""
        picked = [self.options[number] for number in chosen]
        words = [option.exclusive for option in picked if option.exclusive is not None]
        memory = sum(option.memory_bytes for option in picked)
        return len(picked) <= self.max_groups and memory <= self.max_memory and len(set(words)) == len(words)

    def least(self, chosen: Iterable[int]) -> list[float]:
        """The cost of each cell."""
        rows = [self.costs[number] for number in chosen]
        return [min(row[cell] for row in rows) for cell in range(self.n_cells)] if rows else [math.inf] * self.n_cells

    def loss(self, chosen: Iterable[int]) -> float:
        return math.fsum(self.least(chosen)) if chosen else math.inf

    def _score(self, chosen: Sequence[int]) -> tuple[int, float]:
        """(cells that nothing serves, the loss of the others): less is better."""
        costs = self.least(chosen)
        return sum(math.isinf(cost) for cost in costs), math.fsum(cost for cost in costs if cost < math.inf)

    def greedy(self) -> list[int] | None:
        """Add what helps most, then exchange as long as that helps; None where cells stay without service."""
        chosen: list[int] = []
        while len(chosen) < self.max_groups:
            more = [[*chosen, number] for number in self.useful if number not in chosen]
            more = [every for every in more if self.fits(every)]
            if not more:
                break
            best = min(more, key=self._score)
            if chosen and self._score(best) >= self._score(chosen):
                break
            chosen = best
        while chosen:
            exchanged = [
                every
                for gone in chosen
                for number in self.useful
                if number not in chosen and self.fits(every := [*(c for c in chosen if c != gone), number])
            ]
            best = min(exchanged, key=self._score, default=chosen)
            if not _less(self._score(best), self._score(chosen)):
                break
            chosen = best
        return chosen if chosen and not self._score(chosen)[0] else None

    def branch_and_bound(self, best: list[int] | None, nodes: int) -> tuple[list[int] | None, bool]:
        """(the best choice found, whether all others were excluded)."""
        order = sorted(self.useful, key=lambda number: self._score([number]))
        # rest[i]: what each cell costs at least with any of order[i:].
        rest = [[math.inf] * self.n_cells]
        for number in reversed(order):
            rest.append([min(a, b) for a, b in zip(rest[-1], self.costs[number], strict=True)])
        rest.reverse()
        limit = math.inf if best is None else self.loss(best)
        stack: list[tuple[int, list[int], list[float]]] = [(0, [], [math.inf] * self.n_cells)]
        while stack:
            if nodes == 0:
                return best, False
            nodes -= 1
            at, chosen, costs = stack.pop()
            loss = math.fsum(costs)
            if loss < limit * (1 - _CLOSE) or (best is None and loss < math.inf):
                best, limit = chosen, loss
            if at == len(order) or len(chosen) == self.max_groups:
                continue
            if math.fsum(map(min, costs, rest[at])) >= limit * (1 - _CLOSE):
                continue
            stack.append((at + 1, chosen, costs))
            taken = [*chosen, order[at]]
            if self.fits(taken):
                stack.append((at + 1, taken, list(map(min, costs, self.costs[order[at]]))))
        return best, True

    def lagrangian(self, upper: float) -> float:
        """A lower bound: every cell may pay a price instead of being served, and the prices are made the best."""
        rows = [self.costs[number] for number in self.useful]
        prices = [sorted(row[cell] for row in rows)[min(1, len(rows) - 1)] for cell in range(self.n_cells)]
        prices = [price if price < math.inf else upper for price in prices]
        best, step = -math.inf, 2.0
        for _ in range(_ROUNDS):
            gains = sorted(
                (math.fsum(min(0.0, c - p) for c, p in zip(row, prices, strict=True)), at)
                for at, row in enumerate(rows)
            )
            open_rows = [rows[at] for gain, at in gains[: self.max_groups] if gain < 0.0]
            value = math.fsum(prices) + math.fsum(gain for gain, _ in gains[: self.max_groups] if gain < 0.0)
            if value > best:
                best = value
            else:
                step *= 0.9
            slope = [1 - sum(row[cell] < price for row in open_rows) for cell, price in enumerate(prices)]
            norm = sum(s * s for s in slope)
            if not norm or upper - value <= _CLOSE:
                break
            move = step * (upper - value) / norm
            prices = [price + move * s for price, s in zip(prices, slope, strict=True)]
        return max(best, math.fsum(self.least(self.useful)))

    def served_by(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """For each cell the fastest of the chosen, also where it does not count; of equal ones the first."""
        ordered = sorted(chosen)
        return tuple(min(ordered, key=functools.partial(_time, cell)) for cell in self.cells)


def _cost(cell: Cell, share: float, number: int) -> float:
    time_us = cell.times_us[number]
    return math.inf if time_us is None else share * (time_us / cell.free_us - 1.0)


def _time(cell: Cell, number: int) -> float:
    time_us = cell.times_us[number]
    return math.inf if time_us is None else time_us


def _less(a: tuple[int, float], b: tuple[int, float]) -> bool:
    """Clearly: exchanges that only round otherwise would go on for ever."""
    return a[0] < b[0] or (a[0] == b[0] and a[1] < b[1] - _CLOSE * max(1.0, abs(b[1])))
