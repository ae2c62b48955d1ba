"""Rounds that wait for each other, so that many share one transaction: group commit. Private to db.

In:  rounds and marks of cells one after the other, and the work of every other verb. Out: the work's result, with all
that was handed over before it in the database.

A commit costs as much as storing dozens of rounds, and a quick run measures a round in 10 ms and a cell in 100. So both
are held for at most ``hold_s`` after the last time that something was stored: what the death of the process can lose
was measured in less than that. Nothing runs beside the measuring: what comes when it is due takes the others along.

    handed over, not yet due                                  the verb returns, and it is held
    due, or a failure, or any other verb, or the end          one transaction: all that is held, then the verb's work
    refused for good (another run, a finished session)        StoreError; what was held is dropped, none of it is stored
    the database cannot be used, or Ctrl-C in the middle      the error; still held: the next verb, or the end, looks
                                                              whether it was stored after all, and stores it if not
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection, orm
from sqlalchemy.exc import IntegrityError

from ..errors import StoreError
from ..types import Problem, TrialState
from .address import ELSEWHERE
from .records import CellState, RoundResult
from .rounds import TrialKey, has_round, store_held
from .transactions import Transactions

Result = TypeVar("Result")

_TRIALS_REMEMBERED = 65536


@dataclass(slots=True)
class _Held:
    """Of one session: rounds as they came, and the last mark of each cell."""

    rounds: list[tuple[RoundResult, ...]] = field(default_factory=list)
    marks: dict[Problem, CellState] = field(default_factory=dict)


class Recorder:
    """The transactions of a store that holds rounds and marks; threads may share it, and then take turns.

    Args:
        hold_s: how long they may wait; with 0 each is stored before its verb returns.
        clock: seconds that only go forwards.
    """

    def __init__(self, transactions: Transactions, *, hold_s: float, clock: Callable[[], float]) -> None:
        self._do = transactions
        self._hold_s = hold_s
        self._clock = clock
        self._stored_at_s = clock()
        self._held: dict[int, _Held] = {}
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
            StoreError: this round, or what was held, cannot be stored.
        """
        with self._lock:
            self._of(session_id).rounds.append(tuple(results))
            self._flush_if_due(at_once=any(result.state is not TrialState.OK for result in results))

    def mark(self, session_id: int, problem: Problem, state: CellState) -> None:
        """Take a mark over.

        Raises:
            StoreError: this mark, or what was held, cannot be stored.
        """
        with self._lock:
            self._of(session_id).marks[problem] = state
            self._flush_if_due()

    def flush(self) -> None:
        """Store what is held.

        Raises:
            StoreError: it cannot be stored.
        """
        with self._lock:
            if self._held:
                # Without the ORM, which would take longer than the rows.
                self._storing(lambda store: self._do.append(store))

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

        def both(store: Callable[[Connection], None]) -> Result:
            def in_one(db: orm.Session) -> Result:
                if self._held:
                    store(db.connection())
                return work(db)

            return self._do.write(in_one)

        with self._lock:
            return self._storing(both)

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

    def _of(self, session_id: int) -> _Held:
        return self._held.setdefault(session_id, _Held())

    def _flush_if_due(self, *, at_once: bool = False) -> None:
        if at_once or self._clock() - self._stored_at_s >= self._hold_s:
            self.flush()

    def _storing(self, transaction: Callable[[Callable[[Connection], None]], Result]) -> Result:
        """A transaction that is given what stores the held; they are let go of once it is through."""
        attempts = itertools.count()
        stored: dict[TrialKey, int] = {}

        def store(connection: Connection) -> None:
            lost_one = next(attempts) > 0  # the server may have stored it before the connection broke
            stored.clear()
            stored.update(self._store(connection, looks_first=lost_one or self._may_be_stored))

        try:
            result = transaction(store)
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

    def _store(self, connection: Connection, *, looks_first: bool) -> dict[TrialKey, int]:
        stored: dict[TrialKey, int] = {}
        for session_id, held in self._held.items():
            new = [r for r in held.rounds if not (looks_first and has_round(connection, session_id, r))]
            try:
                results = list(itertools.chain.from_iterable(new))
                stored |= store_held(connection, session_id, results, held.marks, known=self._known, shown=self.shown)
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
