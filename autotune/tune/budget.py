"""Seconds, shared out over the cells that are still to be measured. Pure but for the clock that it is given.

A cell's share follows the bytes that it moves, since time does; what a cell leaves over goes to those after it. The
budget is kept to within one round: nothing that is being measured is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..types import Problem


class Budget:
    """The time of a run.

    Args:
        seconds: None for as long as it takes.
        clock: monotonic seconds.
        cells: what is to be measured, in order.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float], cells: Sequence[Problem]) -> None:
        self._clock = clock
        self._start_s = clock()
        self._end_s = None if seconds is None else self._start_s + seconds
        self._weights = [_weight(cell) for cell in cells]
        self._n_begun = 0
        self._cell_end_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._start_s

    @property
    def left_s(self) -> float | None:
        """Seconds of the run that are left; None without a budget."""
        return None if self._end_s is None else self._end_s - self._clock()

    @property
    def cell_left_s(self) -> float | None:
        """Seconds of the current cell's share that are left; below 0 once it is overdrawn."""
        return None if self._cell_end_s is None else self._cell_end_s - self._clock()

    def begin_cell(self) -> None:
        """Give the next cell its share of what is left."""
        if self._end_s is not None:
            now_s, ahead = self._clock(), self._weights[self._n_begun :]
            self._cell_end_s = now_s + (self._end_s - now_s) * ahead[0] / sum(ahead)
        self._n_begun += 1

    def expected_left_s(self) -> float | None:
        """Seconds to the end at the pace so far, counting the cell at hand as untouched; None before it can be said."""
        done = self._weights[: max(0, self._n_begun - 1)]
        expected = self.elapsed_s * sum(self._weights[len(done) :]) / sum(done) if done else None
        known = [seconds for seconds in (expected, self.left_s) if seconds is not None]
        return max(0.0, min(known)) if known else None


def _weight(cell: Problem) -> float:
    """A call costs about the same up to some hundred KiB, and then grows with the bytes of all ranks."""
    return 1.0 + cell.message_bytes * cell.key.n_ranks / (1 << 20)
