"""Seconds, shared out over the cells that are still to be measured. Pure but for the clock that it is given.

A cell's share follows the bytes that it moves, since time does, and the time that a job spends in it, where that is
known; what a cell leaves over goes to those after it, and at last to what is still open. The budget is kept to within
one round: nothing that is being measured is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..types import Problem


class Budget:
    """The time of a run.

    Args:
        seconds: None for as long as it takes.
        clock: monotonic seconds.
        cells: what is to be measured, in order.
        calls: of each cell in a step of the job; None where all count alike.
        reserve: the part that is kept for what comes after these cells.
        last: the part that is kept until `begin_last`, besides.
    """

    def __init__(
        self,
        seconds: float | None,
        clock: Callable[[], float],
        cells: Sequence[Problem],
        *,
        calls: Mapping[Problem, float] | None = None,
        reserve: float = 0.0,
        last: float = 0.0,
    ) -> None:
        self._clock = clock
        self._start_s = clock()
        self._last_s = 0.0 if seconds is None else last * seconds
        self._end_s = None if seconds is None else self._start_s + seconds - self._last_s
        self._reserve_s = 0.0 if seconds is None else reserve * seconds
        self._weights = dict(zip(cells, _weights(cells, calls), strict=True))
        self._through: set[Problem] = set()
        self._cell_end_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._start_s

    @property
    def left_s(self) -> float | None:
        """Seconds of the run that may be used now; None without a budget."""
        return None if self._end_s is None else self._end_s - self._clock()

    @property
    def cell_left_s(self) -> float | None:
        """Seconds of the current cell's share that are left; below 0 once it is overdrawn."""
        return None if self._cell_end_s is None else self._cell_end_s - self._clock()

    def begin_cell(self, cell: Problem, others: Iterable[Problem]) -> None:
        """Give a cell its share of what is left, of which others are to get theirs."""
        if self._end_s is not None:
            own, now_s = self._weights[cell], self._clock()
            left_s = max(0.0, self._end_s - self._reserve_s - now_s)
            self._cell_end_s = now_s + left_s * own / (own + sum(self._weights[other] for other in others))

    def end_cell(self, cell: Problem) -> None:
        """A cell is through."""
        self._through.add(cell)

    def begin_rest(self) -> None:
        """The cells are through: whoever measures on may use all that is left."""
        self._cell_end_s = self._end_s
        self._through.update(self._weights)

    def begin_last(self) -> None:
        """Give out what was kept."""
        if self._end_s is not None:
            self._end_s += self._last_s
            self._last_s = 0.0
        self.begin_rest()

    def expected_left_s(self) -> float | None:
        """Seconds to the end at the pace so far, counting the cell at hand as untouched; None before it can be said."""
        done = sum(self._weights[cell] for cell in self._through)
        expected = self.elapsed_s * (sum(self._weights.values()) - done) / done if done else None
        known = [seconds for seconds in (expected, self.left_s) if seconds is not None]
        return max(0.0, min(known)) if known else None


def cost(cell: Problem) -> float:
    """A call costs about the same up to some hundred KiB, and then grows with the bytes of all ranks."""
    return 1.0 + cell.message_bytes * cell.key.n_ranks / (1 << 20)


def _weights(cells: Sequence[Problem], calls: Mapping[Problem, float] | None) -> list[float]:
    """Half by what a cell costs to measure, half by what it costs the job."""
    costs = [cost(cell) for cell in cells]
    if calls is None or not cells:
        return costs
    spent = [calls.get(cell, 0.0) * one for cell, one in zip(cells, costs, strict=True)]
    mean = sum(spent) / len(spent)
    return [one * (0.5 + 0.5 * (share / mean if mean else 1.0)) for one, share in zip(costs, spent, strict=True)]
