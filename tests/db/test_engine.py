"""What the docstring of db/engine.py promises of every connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy.exc import IntegrityError

from autotune.db.address import parse_address
from autotune.db.engine import for_reading, for_upgrading, for_writing, make_engine
from autotune.db.models import Base, SampleRow
from autotune.types import Phase, SampleKind


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    made = make_engine(parse_address(str(tmp_path / "trials.sqlite")), wait_s=1.5)
    Base.metadata.create_all(made)
    yield made
    made.dispose()


@pytest.mark.parametrize(
    ("setting", "value"), [("journal_mode", "wal"), ("synchronous", 1), ("busy_timeout", 1500), ("foreign_keys", 1)]
)
def test_a_connection_has_the_settings(engine: sqlalchemy.Engine, setting: str, value: object) -> None:
    for mode in (for_reading, for_writing):
        with mode(engine).begin() as connection:
            assert connection.exec_driver_sql(f"PRAGMA {setting}").scalar_one() == value


def test_references_are_checked_except_while_the_schema_changes(engine: sqlalchemy.Engine) -> None:
    orphan = sqlalchemy.insert(SampleRow).values(
        trial_id=1, phase=Phase.RACE, kind=SampleKind.FRESH, round=0, position=0, batch_calls=1, time_us=1.0
    )
    with for_upgrading(engine).begin() as connection:
        connection.execute(orphan)
        connection.execute(sqlalchemy.delete(SampleRow))
    with pytest.raises(IntegrityError, match="FOREIGN KEY"), for_writing(engine).begin() as connection:
        connection.execute(orphan)


def test_a_transaction_that_raises_leaves_nothing(engine: sqlalchemy.Engine) -> None:
    def drop_and_fail() -> None:
        with for_writing(engine).begin() as connection:
            connection.exec_driver_sql("DROP TABLE samples")
            raise KeyError

    with pytest.raises(KeyError):
        drop_and_fail()
    with for_reading(engine).begin() as connection:
        assert connection.execute(sqlalchemy.select(SampleRow)).all() == []
