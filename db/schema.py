"""Which schema a database has, and bringing it to this code's. Private to db; the only caller of alembic.

The version is a number: the id of the last migration that ran, kept in the table ``autotune_schema``. Old schemas are
upgraded in one transaction when a store is opened; newer ones are refused, untouched. There is no way back down but the
copy that is made of a SQLite file before.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, String, column, func, inspect, select, table

from ..errors import StoreError
from .address import ELSEWHERE
from .engine import for_reading, for_upgrading
from .faults import damaged
from .models import SCHEMA_VERSION

VERSION_TABLE = "autotune_schema"
MIGRATIONS = Path(__file__).with_name("migrations")

# Any number that no other program is likely to lock in the same PostgreSQL database.
_UPGRADE_LOCK = 0x6175746F

# A file of this size is checked whole in about 0.1 s. A larger one is not: SQLite reports damage where it reads it.
_CHECKED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What was done to the schema.

    Args:
        before: the version that was found; 0 for an empty database.
        after: the version that is there now; equal to before where nothing was to be done.
        backup: a SQLite file as it was before; None for a server, and where there was nothing to keep.
    """

    before: int
    after: int
    backup: Path | None = None


def prepare(engine: Engine, *, shown: str, path: Path | None) -> Upgrade:
    """Leave a database with this code's schema behind, or nothing changed.

    An old SQLite file is copied beside itself first, as ``NAME.v<version>``.

    Raises:
        StoreError: a damaged file, a newer schema, tables of another program, or no room for the copy.
    """
    with for_reading(engine).begin() as connection:
        if path is not None and path.stat().st_size <= _CHECKED_BYTES:
            finding = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            if finding != "ok":
                raise damaged(shown, finding)
        found = version_of(connection, shown)
    if found == SCHEMA_VERSION:
        return Upgrade(before=found, after=found)
    with for_upgrading(engine).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
        # Another process may have been faster; as nobody else can write now, this answer holds.
        found = version_of(connection, shown)
        if found == SCHEMA_VERSION:
            return Upgrade(before=found, after=found)
        backup = _copied(path, found) if path is not None and found > 0 else None
        upgrade(connection)
    return Upgrade(before=found, after=SCHEMA_VERSION, backup=backup)


def _copied(path: Path, version: int) -> Path:
    """A copy of a SQLite file, as its last committed transaction left it; whole or not there at all."""
    target = path.with_name(f"{path.name}.v{version}")
    partial = path.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with suppress(FileExistsError):
            os.mknod(partial, 0o600)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(partial)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, that may be carried away
        partial.replace(target)
    except OSError as err:
        raise StoreError(
            f"{path} has schema version {version}, and no copy of it can be made: {err.strerror}",
            remedy="make its folder writable for you, with room for a second file of its size",
        ) from err
    finally:
        partial.unlink(missing_ok=True)
    return target


def upgrade(connection: Connection) -> None:
    """Run the missing migrations inside the connection's transaction; none, if another process was faster."""
    # Imported where needed: a store that is up to date opens in two thirds of the time without it.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")


def version_of(connection: Connection, shown: str) -> int:
    """The schema version of a database; 0 for an empty one.

    Raises:
        StoreError: the database of another program, or a newer schema.
    """
    tables = inspect(connection).get_table_names()
    if not tables:
        return 0
    if VERSION_TABLE not in tables:
        raise StoreError(
            f"{shown} belongs to another program: it has the tables {', '.join(tables[:5])}", remedy=ELSEWHERE
        )
    numbers = connection.scalars(select(column("version_num", String)).select_from(table(VERSION_TABLE))).all()
    if len(numbers) != 1 or not numbers[0].isdecimal():
        raise StoreError(f"{shown} has the schema version {list(numbers)}, which is not one number", remedy=ELSEWHERE)
    version = int(numbers[0])
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{shown} has schema version {version}, and this autotune knows versions up to {SCHEMA_VERSION}",
            remedy=f"pip install --upgrade mc2-autotune, or {ELSEWHERE}",
        )
    return version
