"""One transaction after another on an engine, and again where a server was away for a moment. Private to db.

In:  an engine with this code's schema, and work to be done in a transaction.
Out: the work's result once it is committed; StoreError, with nothing done, where the database refuses.

Work may run twice: when the connection is lost, or the server ends a dead-lock by ending this transaction, the work is
done anew for as long as a writer may wait. A connection that is lost during COMMIT does not tell whether the server
did it; work that may not be done twice looks first.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine, orm
from sqlalchemy.exc import DBAPIError

from .engine import for_reading, for_writing
from .faults import as_store_errors, is_passing

Result = TypeVar("Result")
Place = TypeVar("Place", orm.Session, Connection)

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5


class Transactions:
    """Transactions of one store; threads may share it, and then take turns.

    Args:
        shown: where the store is, for people.
        wait_s: the longest time that lost connections are mended for.
    """

    def __init__(self, engine: Engine, *, shown: str, wait_s: float) -> None:
        self.engine = engine
        self.shown = shown
        # Made once: a round is stored in less time than SQLAlchemy takes for these.
        writing = for_writing(engine)
        self._reading, self._writing = orm.sessionmaker(for_reading(engine)).begin, orm.sessionmaker(writing).begin
        self._appending = writing.begin
        self._wait_s = wait_s
        self._lock = threading.Lock()

    def read(self, work: Callable[[orm.Session], Result]) -> Result:
        """Do work that sees one state of the store.

        Raises:
            StoreError: the database refuses, or is out of reach for longer than ``wait_s``.
        """
        with _no_pause():
            return self._run(self._reading, work)

    def write(self, work: Callable[[orm.Session], Result]) -> Result:
        """Do work that changes the store, as a whole or not at all.

        Raises:
            StoreError: as ``read``.
        """
        return self._run(self._writing, work)

    def append(self, work: Callable[[Connection], Result]) -> Result:
        """Do work that changes the store, as ``write``, but without the ORM, which takes longer than a few rows.

        Raises:
            StoreError: as ``read``.
        """
        return self._run(self._appending, work)

    def shrink(self) -> None:
        """Give the room of deleted rows back to the disk: SQLite keeps it for later rows; a server does so by itself.

        Raises:
            StoreError: there is no room for the second copy that this takes, or another process writes.
        """
        if self.engine.dialect.name != "sqlite":
            return
        with self._lock, as_store_errors(self.shown):
            driver = self.engine.raw_connection()
            try:
                driver.cursor().execute("VACUUM")
            finally:
                driver.close()

    def close(self) -> None:
        """Let go of files and connections, once no other thread is in a transaction."""
        with self._lock:
            self.engine.dispose()

    def _run(self, begin: Callable[[], AbstractContextManager[Place]], work: Callable[[Place], Result]) -> Result:
        with self._lock, as_store_errors(self.shown):
            deadline = time.monotonic() + self._wait_s
            pause_s = _FIRST_PAUSE_S
            while True:
                try:
                    with begin() as place:
                        return work(place)
                except DBAPIError as err:
                    if not is_passing(err) or time.monotonic() + pause_s > deadline:
                        raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


@contextmanager
def _no_pause() -> Iterator[None]:
    """Let Python's collector of cycles wait until an answer is there.

    Rows are many small tuples, of which none is in a cycle. They set off searches through all that the process holds,
    SQLAlchemy included, which take several times as long as the answer. What is due is done afterwards.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
