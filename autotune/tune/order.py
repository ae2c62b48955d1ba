"""Which cell gets the next step: as the plan has them, or where time is short, what saves most for its cost. Pure.

In:  cells, and what a step of each is expected to be worth by what is known now. Out: cells and steps, one at a time.
May not touch: clocks, stores.

What is known grows with every step, so worths change; asking for one costs milliseconds. They fall far more often than
they rise, so only the one that would come out next is asked for again, and waits on if it is not the first any more
(lazy greedy: Minoux 1978).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence

from ..types import Problem

MOST_CELLS = 40
"""With more, cells come in the order of the plan: where the time is too short for all, hundreds of races leave none to
confirm what they found."""
OTHER_RANKS = 0.5
"""Starting other ranks costs; a cell that needs them has to be worth it."""


class Step(enum.Enum):
    """``RACE``: who may beat the default. ``CONFIRM``: nine rounds of winner and default. ``OPEN``: up to the next look
    at a decision that is still open."""

    RACE = "race"
    CONFIRM = "confirm"
    OPEN = "open"

    @property
    def samples(self) -> int:
        """About what it takes to a decision, a config's first sample counting for four."""
        return {Step.RACE: 45, Step.CONFIRM: 18, Step.OPEN: 15}[self]


Worth = Callable[[Problem, Step], float | None]
"""Of a step, for what it costs; None where it is not worth taking."""


class Queue:
    """Cells that wait for a step.

    Args:
        worth: None keeps the order of the cells.
    """

    def __init__(self, cells: Sequence[Problem], step: Step, worth: Worth | None) -> None:
        self._worth = worth
        self._place = {cell: place for place, cell in enumerate(cells)}
        self._waiting: dict[Problem, tuple[Step, float]] = {}
        for cell in cells:
            self.add(cell, step)

    def add(self, cell: Problem, step: Step) -> None:
        """A cell waits for a step, if it is worth taking."""
        worth = 0.0 if self._worth is None else self._worth(cell, step)
        if worth is not None:
            self._waiting[cell] = step, worth

    @property
    def waiting(self) -> tuple[Problem, ...]:
        """The cells that have not had all of their race and their confirm rounds."""
        return tuple(cell for cell, (step, _) in self._waiting.items() if step is not Step.OPEN)

    def __iter__(self) -> Iterator[tuple[Problem, Step]]:
        n_ranks = 0

        def rank(cell: Problem) -> tuple[float, int]:
            worth = self._waiting[cell][1]
            return worth * (1.0 if cell.key.n_ranks == n_ranks else OTHER_RANKS), -self._place[cell]

        while self._waiting:
            cell = max(self._waiting, key=rank)
            step, before = self._waiting.pop(cell)
            if self._worth is not None:
                self.add(cell, step)
                if cell not in self._waiting or (
                    self._waiting[cell][1] < before and cell != max(self._waiting, key=rank)
                ):
                    continue
                del self._waiting[cell]
            n_ranks = cell.key.n_ranks
            yield cell, step
