"""Rows in bulk, past what SQLAlchemy does for each: it would take longer than the database. Private to db.

In:  a transaction, samples of trials; trials and marks that may be there already. Out: rows. Statements are made from
the models.

    SQLite      a statement that the driver executes for each row
    PostgreSQL  a statement for all rows, since a row of its own costs the server a message: of trials and marks with
                one JSON text; of samples with an array for each column, written as text, since the driver takes longer
                for a list. None of their words needs quotes.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Connection,
    Double,
    Enum,
    Executable,
    Integer,
    Text,
    bindparam,
    cast,
    column,
    func,
    insert,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from ..types import Sample
from .models import Base, CellRow, SampleRow, TrialRow

Row = Mapping[str, object]

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


def insert_samples(connection: Connection, samples: Iterable[tuple[int, Sample]]) -> None:
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
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_ROW_BY_ROW, rows)
    else:
        columns = ("{" + ",".join(map(str, column)) + "}" for column in zip(*rows, strict=True))
        connection.execute(_AT_ONCE, dict(zip(_TYPES, columns, strict=True)))


def insert_trials(connection: Connection, rows: Sequence[Row]) -> None:
    """Store trials; one whose session has the same problem and config already stays as it is."""
    _execute(connection, _new_trials, rows)


def put_cells(connection: Connection, rows: Sequence[Row]) -> None:
    """Store marks of cells; of one that is marked already, the state becomes this one's."""
    _execute(connection, _marks, rows)


def _execute(
    connection: Connection, statement: Callable[[str, tuple[str, ...]], Executable], rows: Sequence[Row]
) -> None:
    if not rows:
        return
    made = statement(connection.dialect.name, tuple(rows[0]))
    connection.execute(made, rows if connection.dialect.name == "sqlite" else {"rows": json.dumps(rows, default=_word)})


@cache
def _new_trials(dialect: str, names: tuple[str, ...]) -> Executable:
    known_by = (TrialRow.session_id, TrialRow.problem_digest, TrialRow.config_digest)
    return _insert(dialect, TrialRow, names).on_conflict_do_nothing(index_elements=known_by)


@cache
def _marks(dialect: str, names: tuple[str, ...]) -> Executable:
    new = _insert(dialect, CellRow, names)
    known_by = (CellRow.session_id, CellRow.problem_digest)
    return new.on_conflict_do_update(index_elements=known_by, set_={"state": new.excluded.state})


def _insert(dialect: str, into: type[Base], names: tuple[str, ...]) -> sqlite.Insert | postgresql.Insert:
    if dialect == "sqlite":
        return sqlite.insert(into)
    types = {name: into.__table__.c[name].type for name in names}
    columns = [column(name, Text() if isinstance(kind, Enum) else kind) for name, kind in types.items()]
    given = func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON)).table_valued(*columns, name="given")
    return postgresql.insert(into).from_select(names, select(*given.render_derived(with_types=True).c))


def _word(member: object) -> object:
    assert isinstance(member, enum.Enum), "all else is JSON by itself"
    return member.value
