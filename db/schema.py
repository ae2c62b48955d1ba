"""Which schema a database has, and bringing it to this code's. Private to db; the only caller of alembic.

The version is a number: the id of the last migration that ran, kept in the table ``autotune_schema``. Old schemas are
upgraded in one transaction when a store is opened; newer ones are refused, untouched. There is no way back down.
"""

from __future__ import annotations

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


def prepare(engine: Engine, *, shown: str, path: Path | None) -> None:
    """Leave a database with this code's schema behind, or nothing changed.

    Raises:
        StoreError: a damaged file, a newer schema, or tables of another program.
    """
    with for_reading(engine).begin() as connection:
        if path is not None and path.stat().st_size <= _CHECKED_BYTES:
            finding = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            if finding != "ok":
                raise damaged(shown, finding)
        found = _version(connection, shown)
    if found == SCHEMA_VERSION:
        return
    with for_upgrading(engine).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
        upgrade(connection)


def upgrade(connection: Connection) -> None:
    """Run the missing migrations inside the connection's transaction; none, if another process was faster."""
    # Imported where needed: a store that is up to date opens in two thirds of the time without it.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")


def _version(connection: Connection, shown: str) -> int:
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
