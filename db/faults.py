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

# What PostgreSQL says when it shuts down, has crashed or is starting; a dead-lock; changes that overtook a transaction
# (PostgreSQL documentation, appendix A).
_PASSING = frozenset({"57P01", "57P02", "57P03", "40P01", "40001"})
_LOCK_NOT_AVAILABLE = "55P03"

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
    except (DBAPIError, sqlite3.Error) as err:
        fault = _store_error(err, shown)
        if fault is None:
            raise
        raise fault from err


def is_passing(err: DBAPIError) -> bool:
    """Whether the same transaction may succeed in a moment: the server restarts, or chose it to end a dead-lock."""
    if isinstance(err.orig, sqlite3.Error) or not isinstance(err, OperationalError | InternalError | InterfaceError):
        return False
    code = getattr(err.orig, "sqlstate", None)
    # Without a code nobody answered. Class 08 is a broken connection.
    return err.connection_invalidated or code is None or code[:2] == "08" or code in _PASSING


def damaged(shown: str, finding: str) -> StoreError:
    """The error for damage that a check has found before SQLite met it."""
    return _refused(shown, sqlite3.SQLITE_CORRUPT, finding)


def _store_error(err: DBAPIError | sqlite3.Error, shown: str) -> StoreError | None:
    found = err.orig if isinstance(err, DBAPIError) else err
    if isinstance(found, sqlite3.Error):
        # The low byte is the primary code; the name says which kind of it.
        code = found.sqlite_errorcode & 0xFF
        return _refused(shown, code, f"{found}, {found.sqlite_errorname}") if code in _SQLITE else None
    if isinstance(err, OperationalError | InternalError | InterfaceError):
        detail = str(found).strip().partition("\n")[0]
        if getattr(found, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            return StoreError(f"{shown} is locked by another process ({detail})", remedy=_WAIT)
        remedy = f"check that the server runs, has room and lets you in, or {ELSEWHERE}"
        return StoreError(f"{shown} refuses: {detail}", remedy=remedy)
    return None


def _refused(shown: str, code: int, detail: str) -> StoreError:
    what, remedy = _SQLITE[code]
    return StoreError(f"{shown} {what} ({detail})", remedy=remedy.format(file=shlex.quote(shown)))
