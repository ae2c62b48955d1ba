"""What is in a database, for people who look after one; and bringing its schema up to date on purpose.

In:  the words of ``--db``. Out: `StoreStatus`, `Upgrade`. ``status`` changes nothing, not even an old schema.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, inspect, orm, select, text

from .address import Address
from .models import SCHEMA_VERSION, Base, SessionRow
from .opening import found, opened
from .records import SessionState
from .schema import Upgrade

__all__ = ["StoreStatus", "Upgrade", "status", "upgrade_store"]

_WAIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """A database at one moment.

    Args:
        shown: where it is, without a password.
        engine: such as ``SQLite 3.40.1``.
        schema_version: 0 for an empty database.
        known_version: the schema of this autotune.
        size_bytes: on disk, with indexes, and a SQLite file's write-ahead log.
        rows: by table of the schema.
        sessions: by state.
        last_session_at: when the newest session began; None without sessions.
    """

    shown: str
    engine: str
    schema_version: int
    known_version: int
    size_bytes: int
    rows: Mapping[str, int]
    sessions: Mapping[SessionState, int]
    last_session_at: str | None

    @property
    def is_current(self) -> bool:
        return self.schema_version == self.known_version


def status(url_or_path: str) -> StoreStatus:
    """Look at a database.

    Raises:
        AutotuneError: there is none, or it cannot be read.
    """
    transactions, version, address = found(url_or_path, wait_s=_WAIT_S)
    with closing(transactions):
        return transactions.read(lambda db: _status(db, version, address))


def upgrade_store(url_or_path: str) -> Upgrade:
    """Bring a database's schema up to this code's; a SQLite file is copied beside itself first.

    Raises:
        AutotuneError: as ``open_store``; a file that is not there, too.
    """
    found(url_or_path, wait_s=_WAIT_S)[0].close()
    transactions, done = opened(url_or_path, wait_s=_WAIT_S)
    transactions.close()
    return done


def _status(db: orm.Session, version: int, address: Address) -> StoreStatus:
    present = inspect(db.connection()).get_table_names()
    tables = [table for table in Base.metadata.sorted_tables if table.name in present]
    # Every schema version so far has these columns of sessions.
    states = dict.fromkeys(SessionState, 0)
    newest = None
    if version:
        by_state = select(SessionRow.state, func.count()).group_by(SessionRow.state)
        states |= {state: n for state, n in db.execute(by_state)}
        newest = db.scalar(select(func.max(SessionRow.created_at)))
    return StoreStatus(
        shown=address.shown,
        engine=_engine(db),
        schema_version=version,
        known_version=SCHEMA_VERSION,
        size_bytes=_size_bytes(db, address.path),
        rows={table.name: db.scalar(select(func.count()).select_from(table)) or 0 for table in tables},
        sessions=states,
        last_session_at=newest,
    )


def _engine(db: orm.Session) -> str:
    dialect = db.connection().dialect
    version = ".".join(map(str, dialect.server_version_info or ()))
    name = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[dialect.name]
    return f"{name} {version}"


def _size_bytes(db: orm.Session, path: Path | None) -> int:
    if path is not None:
        files = (path, path.with_name(f"{path.name}-wal"))
        return sum(os.path.getsize(file) for file in files if file.exists())
    if db.connection().dialect.name == "sqlite":
        pages, page_bytes = (db.scalar(text(f"PRAGMA {name}")) for name in ("page_count", "page_size"))
        return int(pages or 0) * int(page_bytes or 0)
    return int(db.scalar(select(func.pg_database_size(func.current_database()))) or 0)
