"""Connections as the store needs them: a private file, a write-ahead log, transactions that wait. Private to db.

SQLite settings, and why:
    journal_mode WAL    readers do not stop the writer, nor it them; a commit is one append
    synchronous NORMAL  what is committed survives a killed process; a power cut may take the last commits, not the file
    BEGIN IMMEDIATE     a writer waits for the lock when it begins; one that upgrades from reading could not wait
    foreign_keys ON     off by default; must be off while a migration drops a table that it has copied

A writer asks for SQLite's lock every millisecond. Left to itself, SQLite asks ever more rarely, down to ten times a
second, and of several busy writers one then waits for seconds.

PostgreSQL settings, and why:
    lock_timeout        a lock that somebody else forgot is an error, not a hang
    keepalives          a server that is gone without a word is noticed in a minute, not in two hours
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import StaticPool

from ..errors import BackendUnavailable, StoreError
from .address import ELSEWHERE, INSTALL_PSYCOPG, Address
from .mounts import refuse_network_mounts

_ASK_AGAIN_S = 0.001
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}

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
            unsaid = {name: value for name, value in _KEEPALIVES.items() if name not in address.url.query}
            engine = create_engine(address.url, connect_args=unsaid)
        except ImportError as err:
            raise BackendUnavailable(f"psycopg cannot be loaded: {err}", remedy=INSTALL_PSYCOPG) from err
        event.listen(engine, "connect", _limit_locks(wait_s))
        return engine
    if address.path is not None:
        refuse_network_mounts(address.path)
        _create_private(address.path)
    # One connection, which the store's lock hands from thread to thread; a second one would be another memory.
    engine = create_engine(
        address.url,
        poolclass=StaticPool,
        connect_args={"timeout": wait_s, "isolation_level": None, "check_same_thread": False},
    )
    if address.path is not None:
        event.listen(engine, "connect", _write_ahead(wait_s))
    event.listen(engine, "begin", _begin(wait_s))
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


def _begin(wait_s: float) -> Callable[[Connection], None]:
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        # Past SQLAlchemy, which would take longer for these words than for the rows of a round.
        driver = connection.connection.dbapi_connection
        assert isinstance(driver, sqlite3.Connection), "this engine's driver"
        driver.execute(f"PRAGMA foreign_keys = {'OFF' if options.get(_UPGRADES) else 'ON'}")
        if not options.get(_WRITES):
            driver.execute("BEGIN")
            return
        driver.execute("PRAGMA busy_timeout = 0")
        try:
            deadline = time.monotonic() + wait_s
            while True:
                try:
                    driver.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as err:
                    if err.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                        raise
                time.sleep(_ASK_AGAIN_S)
        finally:
            driver.execute(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")

    return begin


def _limit_locks(wait_s: float) -> Callable[[DBAPIConnection, object], None]:
    def configure(connection: DBAPIConnection, _record: object) -> None:
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"SET lock_timeout = {max(int(wait_s * 1000), 1)}")
        connection.commit()  # a rollback would take the setting back

    return configure
