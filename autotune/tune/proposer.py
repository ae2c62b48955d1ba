"""Who says what to try next: the ask/tell seam between the loop and a search. Nothing here measures.

A proposer serves one problem. Before each race round the loop asks which configs enter the race; after it, it tells
every outcome. A search that learns from outcomes enters a few at a time; the grid enters everything at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..measure import Outcome
from ..types import Config, Problem


class Proposer(Protocol):
    """Chooses among the legal configs of one problem. It holds no truth: it is rebuilt from the store's outcomes."""

    def ask(self) -> tuple[Config, ...]:
        """Configs that enter the race now; those that are in it already are ignored. Empty: nothing new for now.

        When nothing new comes and the race is over, the problem is done.
        """
        ...

    def tell(self, config: Config, outcome: Outcome) -> None:
        """One outcome of a race round, in the order of rounds; those of an interrupted run before the first ask."""
        ...


class GridProposer:
    """All candidates at once."""

    def __init__(self, problem: Problem, candidates: tuple[Config, ...]) -> None:
        self._waiting = candidates

    def ask(self) -> tuple[Config, ...]:
        entering, self._waiting = self._waiting, ()
        return entering

    def tell(self, config: Config, outcome: Outcome) -> None:
        return


ProposerFor = Callable[[Problem, tuple[Config, ...]], Proposer]
"""Makes the proposer of a problem from its legal configs, default and reference included."""
