"""All that is held of a session in one statement, for a server, which each statement costs a message there and back.

In:  a transaction on PostgreSQL, results of rounds, marks of cells. Out: the ids of their trials. Private to db.

The server gets trials and marks as a JSON text each, and samples as an array for each column, written as text, since
the driver takes longer for a list. None of their words needs quotes. What the session has no trial for yet is made on
the way; a sample of such a trial names it by its digests. The session's state is looked at by the same statement, which
does nothing unless it is running.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from sqlalchemy import Connection, Dialect, Enum, Text

from ..types import Sample
from .models import Base, CellRow, TrialRow

Row = Mapping[str, object]
Digests = tuple[str, str]
"""Of a trial's problem and of its config: what it is known by in its session."""

_SAMPLE = {
    "trial_id": "bigint",
    "phase": "text",
    "kind": "text",
    "round": "integer",
    "position": "integer",
    "batch_calls": "integer",
    "time_us": "double precision",
}
_NONE = "NULL"


def store_at_once(
    connection: Connection,
    session_id: int,
    *,
    trials: Sequence[Row],
    cells: Sequence[Row],
    samples: Sequence[tuple[int | Digests, Sample]],
) -> dict[Digests, int] | None:
    """Store marks, trials that are not known, and samples; None, with nothing done, where the session is not running.

    Args:
        trials: all with the same columns; one that is there already stays as it is.
        cells: the same; of one that is marked already, the state becomes this one's.
        samples: with the ids of their trials, or the digests of one of ``trials``.

    Returns:
        The ids of ``trials``.

    Raises:
        IntegrityError: a sample of the same trial, phase, kind and round is there already.
    """
    given: dict[str, object] = {"session_id": session_id}
    given |= {name: json.dumps(rows, default=_word) for name, rows in (("trials", trials), ("cells", cells)) if rows}
    if samples:
        rows = [
            (
                *((trial, _NONE) if isinstance(trial, int) else (_NONE, "".join(trial))),
                *(s.phase.value, s.kind.value, s.round, s.position, s.batch_calls, s.time_us),
            )
            for trial, s in samples
        ]
        columns = ("{" + ",".join(map(str, column)) + "}" for column in zip(*rows, strict=True))
        given |= zip(_arrays(), columns, strict=True)
    made = _statement(connection.dialect, *(tuple(rows[0]) if rows else () for rows in (trials, cells)), bool(samples))
    (running, *_), *found = connection.exec_driver_sql(made, given).all()
    return {(problem, config): trial_id for _, problem, config, trial_id in found} if running else None


@lru_cache
def _statement(dialect: Dialect, trial_names: Sequence[str], cell_names: Sequence[str], has_samples: bool) -> str:
    parts = ["live AS (SELECT session_id FROM sessions WHERE session_id = %(session_id)s AND state = 'running')"]
    found = "SELECT EXISTS (SELECT FROM live), NULL, NULL, NULL"
    join, its_id = "", "given.trial_id"
    if trial_names:
        # An update that changes nothing, since a conflict that is left alone would not tell the trial's id.
        parts.append(
            f"made AS ({_insert(dialect, TrialRow, 'trials', trial_names)} ON CONFLICT (session_id, problem_digest, "
            "config_digest) DO UPDATE SET session_id = excluded.session_id "
            "RETURNING trial_id, problem_digest, config_digest)"
        )
        found += " UNION ALL SELECT TRUE, problem_digest, config_digest, trial_id FROM made"
        join = " LEFT JOIN made ON made.problem_digest || made.config_digest = given.digests"
        its_id = "coalesce(given.trial_id, made.trial_id)"
    if cell_names:
        parts.append(
            f"marked AS ({_insert(dialect, CellRow, 'cells', cell_names)} ON CONFLICT (session_id, problem_digest) "
            "DO UPDATE SET state = excluded.state)"
        )
    if has_samples:
        arrays = ", ".join(f"CAST(%({name})s AS {kind}[])" for name, kind in _arrays().items())
        others = ", ".join(f"given.{name}" for name in _SAMPLE if name != "trial_id")
        parts.append(
            f"timed AS (INSERT INTO samples ({', '.join(_SAMPLE)}) SELECT {its_id}, {others} "
            f"FROM live CROSS JOIN unnest({arrays}) AS given({', '.join(_arrays())}){join})"
        )
    return f"WITH {', '.join(parts)} {found}"


def _arrays() -> dict[str, str]:
    """The samples' columns as they are given: a trial's id or its digests, the other being NULL, then the rest."""
    return {"trial_id": _SAMPLE["trial_id"], "digests": "text"} | _SAMPLE


def _insert(dialect: Dialect, into: type[Base], given: str, names: Sequence[str]) -> str:
    types = {name: into.__table__.c[name].type for name in names}
    columns = ", ".join(
        f"{name} {(Text() if isinstance(kind, Enum) else kind).compile(dialect)}" for name, kind in types.items()
    )
    return (
        f"INSERT INTO {into.__tablename__} (session_id, {', '.join(names)}) "
        f"SELECT live.session_id, {', '.join(f'given.{name}' for name in names)} "
        f"FROM live CROSS JOIN json_to_recordset(CAST(%({given})s AS json)) AS given({columns})"
    )


def _word(member: object) -> object:
    assert isinstance(member, enum.Enum), "all else is JSON by itself"
    return member.value
