"""Taking another database's trials over: idempotent, by content.

In:  the words of ``--db`` for both. Out: `Merged`, what was new. The other database is only read.

Row numbers mean nothing between databases. A topology is known by its fingerprint; a session by its plan, machine,
environment, command and time, provided that no sample of both contradicts (two runs may begin in the same second); a
trial by its session, problem and config; a sample by its trial, phase, kind and round. So merging again, or merging a
database that went on since, adds only what is new. Each session is one transaction.

Of tables only the newest of each machine and backend comes over, with the trial ids of its new home, and only where it
is newer than the one here: an older one would otherwise count as the newest version. Its trials are here all the same.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, insert, orm, select, update

from ..errors import StoreError, TableFormatError
from ..table import TuningTable, dump_table, parse_table
from ..types import TrialState
from .address import parse_address
from .models import SCHEMA_VERSION, Base, CellRow, SampleRow, SessionRow, TopologyRow, TrialRow
from .opening import found, opened
from .records import SessionState
from .tables import insert_table
from .transactions import Transactions

_WAIT_S = 30.0
_IDENTITY = ("plan_digest", "fingerprint", "environment_digest", "backend", "command", "created_at")

TOPOLOGIES, SESSIONS, TRIALS, SAMPLES, CELLS, TABLES = (
    Base.metadata.tables[name] for name in ("topologies", "sessions", "trials", "samples", "cells", "tables")
)

TrialKey = tuple[str, str]  # problem and config digest, within a session
SampleKey = tuple[TrialKey, Any, Any, int]  # phase, kind, round
Columns = dict[str, Any]  # of one row, by name; Any: what the database holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What was new here.

    Args:
        known_sessions: those that were here already, wholly or in part.
        tables_left: tables that are newer than ours but could not be taken over; the next run distils one.
    """

    sessions: int = 0
    known_sessions: int = 0
    trials: int = 0
    samples: int = 0
    cells: int = 0
    tables: int = 0
    tables_left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """A session with all that hangs on it."""

    session: Columns
    trials: Mapping[TrialKey, Columns]
    samples: Mapping[SampleKey, Columns]
    cells: Mapping[str, Columns]


def merge(url_or_path: str, other: str) -> Merged:
    """Add to one database what another one has.

    Raises:
        StoreError: the other database has another schema, or one of them cannot be used.
    """
    if parse_address(url_or_path).url == parse_address(other).url:
        raise StoreError(f"{parse_address(other).shown} is the database itself", remedy="name another one to merge in")
    theirs, version, _ = found(other, wait_s=_WAIT_S)
    with closing(theirs):
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{theirs.shown} has schema version {version}, and merging takes {SCHEMA_VERSION}",
                remedy=f"autotune db upgrade --db {theirs.shown}",
            )
        ours, _ = opened(url_or_path, wait_s=_WAIT_S)
        with closing(ours):
            return _merge(ours, theirs)


def _merge(ours: Transactions, theirs: Transactions) -> Merged:
    topologies = theirs.read(lambda db: _rows(db, TOPOLOGIES))
    ours.write(lambda db: _add_topologies(db, topologies))
    done = Merged()
    taken: set[int] = set()
    trial_ids: dict[int, int] = {}
    session_ids: dict[int, int] = {}
    for row in theirs.read(lambda db: _rows(db, SESSIONS)):
        content = theirs.read(partial(_content, session=row))
        new, own_id, ids = ours.write(partial(_add_session, theirs=content, taken=taken))
        taken.add(own_id)
        session_ids[row["session_id"]] = own_id
        trial_ids |= ids
        done = _sum(done, new)
    tables = theirs.read(_newest_tables)
    return _sum(done, ours.write(lambda db: _add_tables(db, tables, session_ids, trial_ids, theirs.shown)))


def _add_topologies(db: orm.Session, rows: Collection[Columns]) -> None:
    known = set(db.scalars(select(TopologyRow.fingerprint)))
    if new := [row for row in rows if row["fingerprint"] not in known]:
        db.execute(insert(TopologyRow), new)


def _add_session(db: orm.Session, theirs: _Content, taken: Collection[int]) -> tuple[Merged, int, dict[int, int]]:
    """What was new, the session's id here, and the ids here of its trials by those there."""
    ours = _counterpart(db, theirs, taken)
    if ours is None:
        columns = _without(theirs.session, "session_id")
        if columns["state"] is SessionState.RUNNING:
            columns["state"] = SessionState.INTERRUPTED  # nobody runs it in this database
        session_id = db.scalars(insert(SessionRow).returning(SessionRow.session_id), columns).one()
        ours = _Content(session={"session_id": session_id}, trials={}, samples={}, cells={})
        new = Merged(sessions=1)
    else:
        new = Merged(known_sessions=1)
        _finish(db, ours.session, theirs.session)
    session_id = ours.session["session_id"]
    trials = [_without(row, "trial_id") for key, row in theirs.trials.items() if key not in ours.trials]
    _insert(db, TRIALS, [{**row, "session_id": session_id} for row in trials])
    ids = _trial_ids(db, session_id)
    for key in theirs.trials.keys() & ours.trials.keys():
        _take_failure(db, ours.trials[key], theirs.trials[key])
    samples = [{**row, "trial_id": ids[key[0]]} for key, row in theirs.samples.items() if key not in ours.samples]
    _insert(db, SAMPLES, samples)
    cells = [{**row, "session_id": session_id} for key, row in theirs.cells.items() if key not in ours.cells]
    _insert(db, CELLS, cells)
    counted = Merged(trials=len(trials), samples=len(samples), cells=len(cells))
    return _sum(new, counted), session_id, {row["trial_id"]: ids[key] for key, row in theirs.trials.items()}


def _counterpart(db: orm.Session, theirs: _Content, taken: Collection[int]) -> _Content | None:
    """The session here that is the same run: of those that could be, the one with most samples in common."""
    same = [getattr(SessionRow, name) == theirs.session[name] for name in _IDENTITY]
    best: tuple[int, _Content] | None = None
    for row in _rows(db, SESSIONS, *same):
        if row["session_id"] in taken:
            continue
        ours = _content(db, row)
        shared = ours.samples.keys() & theirs.samples.keys()
        if any(ours.samples[key]["time_us"] != theirs.samples[key]["time_us"] for key in shared):
            continue
        if best is None or len(shared) > best[0]:
            best = len(shared), ours
    return None if best is None else best[1]


def _finish(db: orm.Session, ours: Columns, theirs: Columns) -> None:
    if theirs["state"] is SessionState.FINISHED and ours["state"] is not SessionState.FINISHED:
        ended = update(SessionRow).where(SessionRow.session_id == ours["session_id"])
        db.execute(ended.values(state=theirs["state"], finished_at=theirs["finished_at"]))


def _take_failure(db: orm.Session, ours: Columns, theirs: Columns) -> None:
    """A trial that went on elsewhere may have failed there; failures stay."""
    if ours["state"] is TrialState.OK and theirs["state"] is not TrialState.OK:
        names = ("state", "message", "wrong_rank", "wrong_index", "wrong_got", "wrong_expected")
        failed = update(TrialRow).where(TrialRow.trial_id == ours["trial_id"])
        db.execute(failed.values({name: theirs[name] for name in names}))


def _newest_tables(db: orm.Session) -> list[Columns]:
    return list(reversed(_rows(db, TABLES)))


def _add_tables(
    db: orm.Session,
    newest_first: Collection[Columns],
    session_ids: Mapping[int, int],
    trial_ids: Mapping[int, int],
    shown: str,
) -> Merged:
    have: defaultdict[tuple[str, str | None], str] = defaultdict(str)
    for row in _rows(db, TABLES):
        kind = (row["fingerprint"], row["backend"])
        have[kind] = max(have[kind], row["created_at"])
    seen: set[tuple[str, str | None]] = set()
    new = left = 0
    for row in newest_first:
        kind = (row["fingerprint"], row["backend"])
        if kind in seen or row["created_at"] <= have[kind]:
            continue
        seen.add(kind)
        moved = _moved(row["table_json"], trial_ids, shown)
        if moved is None:
            left += 1
            continue
        insert_table(
            db,
            session_id=session_ids.get(row["session_id"]),
            table_json=dump_table(moved),
            fingerprint=row["fingerprint"],
            digest=row["digest"],
            created_at=row["created_at"],
            backend=row["backend"],
            host_fingerprints=moved.host_fingerprints,
        )
        new += 1
    return Merged(tables=new, tables_left=left)


def _moved(table_json: str, trial_ids: Mapping[int, int], shown: str) -> TuningTable | None:
    """The table with the trial ids of its new home; None where it names trials that did not come along."""
    try:
        table = parse_table(table_json, f"a table of {shown}")
        rules = {
            key: tuple(
                dataclasses.replace(rule, trial_ids=tuple(trial_ids[trial] for trial in rule.trial_ids))
                for rule in found
            )
            for key, found in table.rules.items()
        }
    except (TableFormatError, KeyError):
        return None
    return dataclasses.replace(table, rules=rules)


def _content(db: orm.Session, session: Columns) -> _Content:
    session_id = session["session_id"]
    trials = {
        (row["problem_digest"], row["config_digest"]): row
        for row in _rows(db, TRIALS, TrialRow.session_id == session_id)
    }
    keys = {row["trial_id"]: key for key, row in trials.items()}
    of_session = SampleRow.trial_id.in_(select(TrialRow.trial_id).where(TrialRow.session_id == session_id))
    return _Content(
        session=session,
        trials=trials,
        samples={
            (keys[row["trial_id"]], row["phase"], row["kind"], row["round"]): row
            for row in _rows(db, SAMPLES, of_session)
        },
        cells={row["problem_digest"]: row for row in _rows(db, CELLS, CellRow.session_id == session_id)},
    )


def _rows(db: orm.Session, table: Table, *which: ColumnElement[bool]) -> list[Columns]:
    rows: Sequence[Row[Any]] = db.execute(select(table).where(*which).order_by(*table.primary_key)).all()
    return [dict(row._mapping) for row in rows]


def _without(row: Columns, name: str) -> Columns:
    return {key: value for key, value in row.items() if key != name}


def _insert(db: orm.Session, table: Table, rows: list[Columns]) -> None:
    if rows:
        db.connection().execute(insert(table), rows)


def _trial_ids(db: orm.Session, session_id: int) -> dict[TrialKey, int]:
    columns = (TrialRow.problem_digest, TrialRow.config_digest, TrialRow.trial_id)
    found = db.execute(select(*columns).where(TrialRow.session_id == session_id))
    return {(problem, config): trial_id for problem, config, trial_id in found}


def _sum(a: Merged, b: Merged) -> Merged:
    names = [field.name for field in dataclasses.fields(Merged)]
    return Merged(**{name: getattr(a, name) + getattr(b, name) for name in names})
