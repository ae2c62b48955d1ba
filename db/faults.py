"""What a database refuses, in words: driver errors become StoreError with a remedy. Private to db.

Errors that only a bug can cause (a broken statement, a violated CHECK) pass unchanged and keep their traceback.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError

from ..errors import StoreError
from .address import ELSEWHERE

_WRITABLE = f"make the file and its directory writable for you, or {ELSEWHERE}"
_WAIT = "end the other autotune that writes to it, or wait for it"
_AGAIN = "then run the same command again: every stored round is kept"

# By SQLite's primary result code: what is wrong with the file, and what helps.
_SQLITE: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_NOTADB: ("is not a database", f"move the file away, or {ELSEWHERE}"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "save what can be read: sqlite3 {file} .recover | sqlite3 SAVED.sqlite"),
    sqlite3.SQLITE_READONLY: ("is read-only", _WRITABLE),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", _WRITABLE),
    sqlite3.SQLITE_PERM: ("cannot be opened", _WRITABLE),
    sqlite3.SQLITE_FULL: ("has no room: the disk is full", f"free space, {_AGAIN}"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", f"check the free space, the quota and ulimit -f, {_AGAIN}"),
    sqlite3.SQLITE_BUSY: ("is locked by another process", _WAIT),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", _WAIT),
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
    """The error for damage that a check has found before SQLite met it."""
    return _refused(shown, sqlite3.SQLITE_CORRUPT, finding)


def _store_error(err: DBAPIError, shown: str) -> StoreError | None:
    if isinstance(err.orig, sqlite3.Error):
        # The low byte is the primary code; the name says which kind of it.
        code = err.orig.sqlite_errorcode & 0xFF
        return _refused(shown, code, f"{err.orig}, {err.orig.sqlite_errorname}") if code in _SQLITE else None
    if isinstance(err, OperationalError | InternalError | InterfaceError):
        detail = str(err.orig).strip().partition("\n")[0]
        remedy = f"check that the server runs, has room and lets you in, or {ELSEWHERE}"
        return StoreError(f"{shown} refuses: {detail}", remedy=remedy)
    return None


def _refused(shown: str, code: int, detail: str) -> StoreError:
    what, remedy = _SQLITE[code]
    return StoreError(f"{shown} {what} ({detail})", remedy=remedy.format(file=shlex.quote(shown)))
