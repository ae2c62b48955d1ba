"""Samples in bulk, past what SQLAlchemy does for each row: it would take longer than the database. Private to db.

In:  a transaction, samples of trials. Out: rows. Statements are still made from the models.

    SQLite      one statement, executed by the driver for each row
    PostgreSQL  one statement with an array for each column, as text: a row of its own costs the server a message, and
                the driver takes longer for a list than for the words of one. None of these words needs quotes.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ARRAY, BigInteger, Double, Integer, Text, bindparam, cast, func, insert, orm, select
from sqlalchemy.dialects import sqlite

from ..types import Sample
from .models import SampleRow

_TYPES = {
    "trial_id": BigInteger,
    "phase": Text,
    "kind": Text,
    "round": Integer,
    "position": Integer,
    "batch_calls": Integer,
    "time_us": Double,
}
_ROW_BY_ROW = str(insert(SampleRow).values(dict.fromkeys(_TYPES)).compile(dialect=sqlite.dialect()))
_AT_ONCE = insert(SampleRow).from_select(
    list(_TYPES),
    select(*(func.unnest(cast(bindparam(name, type_=Text), ARRAY(kind))) for name, kind in _TYPES.items())),
)


def insert_samples(db: orm.Session, samples: Iterable[tuple[int, Sample]]) -> None:
    """Store samples with the ids of their trials.

    Raises:
        IntegrityError: a sample of the same trial, phase, kind and round is there already.
    """
    rows = [
        (trial_id, s.phase.value, s.kind.value, s.round, s.position, s.batch_calls, s.time_us)
        for trial_id, s in samples
    ]
    if not rows:
        return
    connection = db.connection()
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_ROW_BY_ROW, rows)
    else:
        columns = ("{" + ",".join(map(str, column)) + "}" for column in zip(*rows, strict=True))
        connection.execute(_AT_ONCE, dict(zip(_TYPES, columns, strict=True)))
