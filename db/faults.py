"""What a database refuses, in words: driver errors become StoreError with a remedy. Private to db.

Errors that only a bug can cause (a broken statement, a violated CHECK) pass unchanged and keep their traceback.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError

from ..errors import StoreError
from .address import ELSEWHERE

_AGAIN = "then run the same command again: every stored round is kept"

# SQLite's primary result codes: what it means for the file, and what helps. {place} is the file's path.
_SQLITE: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_NOTADB: ("is not a database", f"move the file away, or {ELSEWHERE}"),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged",
        "save what is readable: sqlite3 '{place}' .recover | sqlite3 RECOVERED.sqlite",
    ),
    sqlite3.SQLITE_READONLY: ("is read-only", f"make the file and its directory writable for you, or {ELSEWHERE}"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", f"make the file and its directory writable for you, or {ELSEWHERE}"),
    sqlite3.SQLITE_PERM: ("cannot be opened", f"make the file and its directory writable for you, or {ELSEWHERE}"),
    sqlite3.SQLITE_FULL: ("has no room: the disk is full", f"free space, {_AGAIN}"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", f"check the free space, the quota and ulimit -f, {_AGAIN}"),
    sqlite3.SQLITE_BUSY: ("is locked by another process", "end or wait for the other autotune that writes to it"),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", "end or wait for the other autotune that writes to it"),
}


@contextmanager
def as_store_errors(shown: str) -> Iterator[None]:
    """Raises StoreError for what the database at ``shown`` refuses inside the block."""
    try:
        yield
    except DBAPIError as err:
        fault = _store_error(err, shown)
        if fault is None:
            raise
        raise fault from err


def damaged(shown: str, finding: str) -> StoreError:
    """A check of the file found something that SQLite itself would only meet later."""
    what, remedy = _SQLITE[sqlite3.SQLITE_CORRUPT]
    return StoreError(f"{shown} {what}: {finding}", remedy=remedy.format(place=shown))


def _store_error(err: DBAPIError, shown: str) -> StoreError | None:
    if isinstance(err.orig, sqlite3.Error):
        # The low byte is the primary code; the rest, which the name keeps, says which kind of it.
        what, remedy = _SQLITE.get(err.orig.sqlite_errorcode & 0xFF, (None, ""))
        if what is None:
            return None
        return StoreError(f"{shown} {what} ({err.orig}, {err.orig.sqlite_errorname})", remedy=remedy.format(place=shown))
    if not isinstance(err, OperationalError | InternalError | InterfaceError):
        return None
    detail = str(err.orig).strip().partition("\n")[0]
    return StoreError(
        f"{shown} refuses: {detail}", remedy=f"check that the server runs, has room and lets you in, or {ELSEWHERE}"
    )
