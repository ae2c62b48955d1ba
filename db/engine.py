"""Connections as the store needs them: a private file, a write-ahead log, transactions that wait. Private to db.

SQLite settings, and why:
    journal_mode WAL    readers do not stop the writer, nor it them; a commit is one append
    synchronous NORMAL  what is committed survives a killed process; a power cut may take the last commits, not the file
    BEGIN IMMEDIATE     a writer queues for the lock when it begins; one that upgrades from reading could not wait
    foreign_keys ON     off by default; must be off while a migration drops a table that it has copied
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import StaticPool

from ..errors import BackendUnavailable, StoreError
from .address import ELSEWHERE, INSTALL_PSYCOPG, Address

# Execution options of an engine, read when its transactions begin.
_WRITES = "autotune_writes"
_UPGRADES = "autotune_upgrades"


def make_engine(address: Address, *, wait_s: float) -> Engine:
    """An engine for the address; a SQLite file is created if missing, a server is not yet asked.

    Raises:
        StoreError: the file can be neither found nor created.
        BackendUnavailable: the server's driver cannot be loaded.
    """
    if not address.is_sqlite:
        try:
            return create_engine(address.url, pool_pre_ping=True)
        except ImportError as err:
            raise BackendUnavailable(f"psycopg cannot be loaded: {err}", remedy=INSTALL_PSYCOPG) from err
    if address.path is not None:
        _create_private(address.path)
    # One connection, which the store's lock hands from thread to thread; a second one would be another memory.
    engine = create_engine(
        address.url,
        poolclass=StaticPool,
        connect_args={"timeout": wait_s, "isolation_level": None, "check_same_thread": False},
    )
    if address.path is not None:
        event.listen(engine, "connect", _write_ahead(wait_s))
    event.listen(engine, "begin", _begin)
    return engine


def for_reading(engine: Engine) -> Engine:
    """The engine for transactions that see one state of the data throughout."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ")


def for_writing(engine: Engine) -> Engine:
    """The engine for transactions that write: one at a time in a SQLite file, whatever the number of processes."""
    return engine.execution_options(**{_WRITES: True})


def for_upgrading(engine: Engine) -> Engine:
    """The engine for the transaction that changes the schema."""
    return engine.execution_options(**{_WRITES: True, _UPGRADES: True})


def _create_private(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not open(): closing a descriptor of a database drops the locks that other threads hold on it.
        with suppress(FileExistsError):
            os.mknod(path, 0o600)
        if path.is_file():
            return
    except OSError as err:
        raise StoreError(f"{path} cannot be created: {err.strerror}", remedy=ELSEWHERE) from err
    raise StoreError(f"{path} is not a file, so it cannot be a database", remedy=ELSEWHERE)


def _write_ahead(wait_s: float) -> Callable[[sqlite3.Connection, object], None]:
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA synchronous = NORMAL")
        # The switch happens once in a file's life, and SQLite does not wait for others in it: of two processes that
        # make the file together, one would see "locked" at once.
        deadline = time.monotonic() + wait_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as err:
                if err.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)

    return configure


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    connection.exec_driver_sql(f"PRAGMA foreign_keys = {'OFF' if options.get(_UPGRADES) else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_WRITES) else "BEGIN")
