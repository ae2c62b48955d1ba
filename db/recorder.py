"""Rounds that wait for each other, so that many share one transaction: group commit. Private to db.

In:  rounds one after the other, and the work of every other verb. Out: the work's result, with all rounds handed over
before it in the database.

A commit costs as much as storing dozens of rounds, and a quick run measures a round in 10 ms. So rounds are held for at
most ``hold_s`` after the last time that something was stored: what the death of the process can lose was measured in
less than that. Nothing runs beside the measuring: the round that is due takes the others along.

    handed over, not yet due                                  add returns, and the round is held
    due, or a failure, or any other verb, or the end          one transaction: all that is held, then the verb's work
    refused for good (another run, a finished session)        StoreError; what was held is dropped, none of it is stored
    the database cannot be used, or Ctrl-C in the middle      the error; still held: the next verb, or the end, looks
                                                              whether it was stored after all, and stores it if not
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import orm
from sqlalchemy.exc import IntegrityError

from ..errors import StoreError
from ..types import TrialState
from .address import ELSEWHERE
from .records import RoundResult
from .rounds import TrialKey, go_on, has_round, store_results
from .transactions import Transactions

Result = TypeVar("Result")

_TRIALS_REMEMBERED = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    session_id: int
    results: tuple[RoundResult, ...]


class Recorder:
    """The transactions of a store that holds rounds; threads may share it, and then take turns.

    Args:
        hold_s: how long rounds may wait; with 0 each is stored before ``add`` returns.
        clock: seconds that only go forwards.
    """

    def __init__(self, transactions: Transactions, *, hold_s: float, clock: Callable[[], float]) -> None:
        self._do = transactions
        self._hold_s = hold_s
        self._clock = clock
        self._stored_at_s = clock()
        self._held: list[_Round] = []
        self._may_be_stored = False  # what is held: an attempt to store it did not see its end
        # Trials never change their id, so a run asks for each once.
        self._known: dict[TrialKey, int] = {}
        self._lock = threading.RLock()

    @property
    def shown(self) -> str:
        return self._do.shown

    def add(self, session_id: int, results: Sequence[RoundResult]) -> None:
        """Take a round over. A failure is stored at once, so that it is known whatever comes after it.

        Raises:
            StoreError: this round, or one that was held, cannot be stored.
        """
        with self._lock:
            self._held.append(_Round(session_id=session_id, results=tuple(results)))
            failed = any(result.state is not TrialState.OK for result in results)
            if failed or self._clock() - self._stored_at_s >= self._hold_s:
                self.flush()

    def flush(self) -> None:
        """Store what is held.

        Raises:
            StoreError: it cannot be stored.
        """
        with self._lock:
            if self._held:
                self.write(lambda _: None)

    def read(self, work: Callable[[orm.Session], Result]) -> Result:
        """Store what is held, then do work that sees one state of the store.

        Raises:
            StoreError: the database refuses, or is out of reach for longer than it may be waited for.
        """
        with self._lock:
            self.flush()
            return self._do.read(work)

    def write(self, work: Callable[[orm.Session], Result]) -> Result:
        """Store what is held and do work that changes the store, both as a whole or not at all.

        Raises:
            StoreError: as ``read``.
        """
        with self._lock:
            attempts = itertools.count()

            def both(db: orm.Session) -> tuple[dict[TrialKey, int], Result]:
                lost_one = next(attempts) > 0  # the server may have stored it before the connection broke
                return self._store(db, looks_first=lost_one or self._may_be_stored), work(db)

            try:
                stored, result = self._do.write(both)
            except BaseException:
                self._may_be_stored = bool(self._held)
                raise
            self._held.clear()
            self._may_be_stored = False
            self._stored_at_s = self._clock()
            if len(self._known) > _TRIALS_REMEMBERED:
                self._known.clear()
            self._known |= stored  # now that it is committed
            return result

    def close(self) -> None:
        """Store what is held, and let go of files and connections.

        Raises:
            StoreError: it cannot be stored.
        """
        with self._lock:
            try:
                self.flush()
            finally:
                self._do.close()

    def _store(self, db: orm.Session, *, looks_first: bool) -> dict[TrialKey, int]:
        stored: dict[TrialKey, int] = {}
        for session_id, rounds in itertools.groupby(self._held, key=lambda held: held.session_id):
            new = [held.results for held in rounds if not (looks_first and has_round(db, session_id, held.results))]
            try:
                go_on(db, session_id, self.shown)
                stored |= store_results(db, session_id, list(itertools.chain.from_iterable(new)), self._known)
            except IntegrityError as err:
                self._held.clear()
                raise StoreError(
                    f"session {session_id} of {self.shown} already has this round: another run is writing to it",
                    remedy=f"wait for the other run to end, or {ELSEWHERE}",
                ) from err
            except StoreError:
                self._held.clear()
                raise
        return stored
