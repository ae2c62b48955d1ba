"""Rows in bulk in a SQLite file, past what SQLAlchemy does for each: it would take longer than the database.

In:  a transaction, samples of trials; trials and marks that may be there already. Out: rows. Statements are made from
the models, and the driver executes them for each row. Private to db; a server has `one_statement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from sqlalchemy import Connection, Executable, insert
from sqlalchemy.dialects import sqlite

from ..types import Sample
from .models import CellRow, SampleRow, TrialRow

Row = Mapping[str, object]

_COLUMNS = ("trial_id", "phase", "kind", "round", "position", "batch_calls", "time_us")
_ROW_BY_ROW = str(insert(SampleRow).values(dict.fromkeys(_COLUMNS)).compile(dialect=sqlite.dialect()))


def insert_samples(connection: Connection, samples: Iterable[tuple[int, Sample]]) -> None:
    """Store samples with the ids of their trials.

    Raises:
        IntegrityError: a sample of the same trial, phase, kind and round is there already.
    """
    rows = [
        (trial_id, s.phase.value, s.kind.value, s.round, s.position, s.batch_calls, s.time_us)
        for trial_id, s in samples
    ]
    if rows:
        connection.exec_driver_sql(_ROW_BY_ROW, rows)


def insert_trials(connection: Connection, rows: Sequence[Row]) -> None:
    """Store trials; one whose session has the same problem and config already stays as it is."""
    if rows:
        connection.execute(_new_trials(), rows)


def put_cells(connection: Connection, rows: Sequence[Row]) -> None:
    """Store marks of cells; of one that is marked already, the state becomes this one's."""
    if rows:
        connection.execute(_marks(), rows)


@cache
def _new_trials() -> Executable:
    known_by = (TrialRow.session_id, TrialRow.problem_digest, TrialRow.config_digest)
    return sqlite.insert(TrialRow).on_conflict_do_nothing(index_elements=known_by)


@cache
def _marks() -> Executable:
    new = sqlite.insert(CellRow)
    known_by = (CellRow.session_id, CellRow.problem_digest)
    return new.on_conflict_do_update(index_elements=known_by, set_={"state": new.excluded.state})
