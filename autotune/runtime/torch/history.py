"""The last calls of every rank, for the message of a call that failed.

In:  calls as they are made; a store that all ranks of the group share. Out: one text with all ranks' sequences.
May not touch: collectives, which are broken by then.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from datetime import timedelta
from typing import Any

from ...errors import CommunicatorError

Store = Any  # torch's stores are not type-checked
KEPT = 8
_PATIENCE_S = 2.0  # ranks of a broken group fail within fractions of a second of each other


class History:
    """One rank's last calls.

    Args:
        store: of the group alone.
    """

    def __init__(self, store: Store, rank: int, n_ranks: int) -> None:
        self._store, self._rank, self._n_ranks = store, rank, n_ranks
        self._calls: deque[tuple[int, str, tuple[object, ...]]] = deque(maxlen=KEPT)
        self._numbers = itertools.count(1)
        self._told: str | None = None

    def add(self, name: str, words: tuple[object, ...] = ()) -> None:
        """Remember a call. Words are made text only if it comes to that."""
        self._calls.append((next(self._numbers), name, words))

    def explained(self, error: CommunicatorError) -> CommunicatorError:
        """The error with the last calls of all ranks; those that have not failed within two seconds say nothing."""
        if self._told is None:
            self._told = self._tell()
        return CommunicatorError(f"{error.message}. Last calls: {self._told}", remedy=error.remedy)

    def _tell(self) -> str:
        mine = ", ".join(f"{number} {name}({_text(words)})" for number, name, words in self._calls) or "none"
        said = {self._rank: mine}
        deadline = time.monotonic() + _PATIENCE_S
        try:
            self._store.set(f"last/{self._rank}", mine)
            for rank in range(self._n_ranks):
                if rank != self._rank:
                    said[rank] = self._heard(rank, deadline)
        except RuntimeError as err:  # the store went with the rank that served it
            said.setdefault(-1, f"the store does not answer: {str(err).splitlines()[0]}")
        return "; ".join(f"rank {rank}: {text}" if rank >= 0 else text for rank, text in sorted(said.items()))

    def _heard(self, rank: int, deadline: float) -> str:
        try:
            self._store.wait([f"last/{rank}"], timedelta(seconds=max(0.001, deadline - time.monotonic())))
        except RuntimeError:
            return "not in a call of this group, or gone"
        text: str = self._store.get(f"last/{rank}").decode()
        return text


def _text(words: tuple[object, ...]) -> str:
    return " ".join(str(word).removeprefix("torch.") for word in words)
