"""The store over SQLAlchemy, for SQLite and PostgreSQL alike. Private to db; the contract is TrialStore's docstring."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Engine, insert, orm, select, update
from sqlalchemy.exc import IntegrityError

from ..errors import StoreError
from ..types import Problem, Sample, Trial, TrialState
from .address import ELSEWHERE
from .engine import for_reading, for_writing
from .faults import as_store_errors
from .models import SCHEMA_VERSION, CellRow, SampleRow, SessionRow, TableRow, TopologyRow, TrialRow
from .records import CellState, NewSession, RoundResult, Session, SessionState, StoredTable, environment_digest
from .rows import (
    config_columns,
    config_digest,
    failure_columns,
    fidelity_columns,
    problem_columns,
    problem_digest,
    sample_columns,
    storable,
    to_problem,
    to_session,
    to_table,
    to_trial,
)


class SqlStore:
    """A TrialStore over an engine whose database has this code's schema."""

    def __init__(self, engine: Engine, *, shown: str) -> None:
        self._engine = engine
        self._shown = shown
        self._lock = threading.Lock()

    @property
    def shown(self) -> str:
        return self._shown

    def close(self) -> None:
        with self._lock:
            self._engine.dispose()

    def add_topology(self, fingerprint: str, description: str) -> None:
        # Another process may add the same machine at the same moment; then its description stands.
        with suppress(IntegrityError), self._writing() as db:
            row = db.get(TopologyRow, fingerprint)
            if row is None:
                db.add(TopologyRow(fingerprint=fingerprint, description=description, created_at=_now()))
            else:
                row.description = description

    def topology(self, fingerprint: str) -> str | None:
        with self._reading() as db:
            row = db.get(TopologyRow, fingerprint)
            return None if row is None else row.description

    def open_session(self, new: NewSession) -> Session:
        with self._writing() as db:
            if db.get(TopologyRow, new.fingerprint) is None:
                raise StoreError(
                    f"{self._shown} has no topology {new.fingerprint}", remedy="add the topology before its session"
                )
            row = SessionRow(
                state=SessionState.RUNNING,
                plan_digest=new.plan_digest,
                plan_text=new.plan_text,
                fingerprint=new.fingerprint,
                environment=dict(new.environment),
                environment_digest=environment_digest(new.environment),
                backend=new.backend,
                command=storable(new.command),
                schema_version=SCHEMA_VERSION,
                created_at=_now(),
            )
            db.add(row)
            db.flush()
            return to_session(row)

    def resumable(self, plan_digest: str, fingerprint: str, environment_digest: str) -> Session | None:
        newest = (
            select(SessionRow)
            .where(
                SessionRow.plan_digest == plan_digest,
                SessionRow.fingerprint == fingerprint,
                SessionRow.environment_digest == environment_digest,
                SessionRow.state != SessionState.FINISHED,
            )
            .order_by(SessionRow.session_id.desc())
            .limit(1)
        )
        with self._reading() as db:
            row = db.scalar(newest)
            return None if row is None else to_session(row)

    def interrupt_session(self, session_id: int) -> None:
        with self._writing() as db:
            row = self._session(db, session_id)
            if row.state is not SessionState.FINISHED:
                row.state = SessionState.INTERRUPTED

    def finish_session(self, session_id: int) -> None:
        with self._writing() as db:
            row = self._session(db, session_id)
            if row.state is not SessionState.FINISHED:
                row.state, row.finished_at = SessionState.FINISHED, _now()

    def sessions(self) -> list[Session]:
        with self._reading() as db:
            return [to_session(row) for row in db.scalars(select(SessionRow).order_by(SessionRow.session_id))]

    def add_round(self, session_id: int, results: Sequence[RoundResult]) -> None:
        with self._writing() as db:
            self._go_on(db, session_id)
            try:
                trial_ids = _trial_ids(db, session_id, results)
                pairs = list(zip(trial_ids, results, strict=True))
                if samples := [sample_columns(trial_id, r.sample) for trial_id, r in pairs if r.sample is not None]:
                    db.execute(insert(SampleRow), samples)
            except IntegrityError as err:
                raise StoreError(
                    f"session {session_id} of {self._shown} already has this round: another run is writing to it",
                    remedy=f"wait for the other run to end, or {ELSEWHERE}",
                ) from err
            for trial_id, result in pairs:
                if result.state is not TrialState.OK:
                    first = update(TrialRow).where(TrialRow.trial_id == trial_id, TrialRow.state == TrialState.OK)
                    db.execute(first.values(failure_columns(result)))

    def mark_cell(self, session_id: int, problem: Problem, state: CellState) -> None:
        with self._writing() as db:
            self._go_on(db, session_id)
            db.merge(CellRow(session_id=session_id, state=state, **problem_columns(problem)))

    def done_cells(self, session_id: int) -> dict[Problem, CellState]:
        with self._reading() as db:
            self._session(db, session_id)
            cells = db.scalars(select(CellRow).where(CellRow.session_id == session_id))
            return {to_problem(row): row.state for row in cells}

    def trials(self, *, session_id: int | None = None, problem: Problem | None = None) -> list[Trial]:
        chosen: list[ColumnElement[bool]] = []
        with self._reading() as db:
            if session_id is not None:
                self._session(db, session_id)
                chosen.append(TrialRow.session_id == session_id)
            if problem is not None:
                chosen.append(TrialRow.problem_digest == problem_digest(problem))
            return _trials(db, chosen)

    def trial(self, trial_id: int) -> Trial:
        with self._reading() as db:
            found = _trials(db, [TrialRow.trial_id == trial_id])
        if not found:
            raise StoreError(
                f"{self._shown} has no trial {trial_id}", remedy="autotune explain names the trials of a rule"
            )
        return found[0]

    def add_table(self, session_id: int | None, table_json: str, fingerprint: str, digest: str) -> int:
        with self._writing() as db:
            if session_id is not None:
                self._session(db, session_id)
            row = TableRow(
                session_id=session_id, table_json=table_json, fingerprint=fingerprint, digest=digest, created_at=_now()
            )
            db.add(row)
            db.flush()
            return row.version

    def newest_table(self, fingerprint: str) -> StoredTable | None:
        newest = select(TableRow).where(TableRow.fingerprint == fingerprint).order_by(TableRow.version.desc()).limit(1)
        with self._reading() as db:
            row = db.scalar(newest)
            return None if row is None else to_table(row)

    def tables(self) -> list[StoredTable]:
        with self._reading() as db:
            return [to_table(row) for row in db.scalars(select(TableRow).order_by(TableRow.version))]

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[orm.Session]:
        with self._lock, as_store_errors(self._shown), orm.Session(engine) as db, db.begin():
            yield db

    def _reading(self) -> AbstractContextManager[orm.Session]:
        return self._transaction(for_reading(self._engine))

    def _writing(self) -> AbstractContextManager[orm.Session]:
        return self._transaction(for_writing(self._engine))

    def _session(self, db: orm.Session, session_id: int) -> SessionRow:
        row = db.get(SessionRow, session_id)
        if row is None:
            raise StoreError(f"{self._shown} has no session {session_id}", remedy="autotune run opens a new session")
        return row

    def _go_on(self, db: orm.Session, session_id: int) -> None:
        row = self._session(db, session_id)
        if row.state is SessionState.FINISHED:
            raise StoreError(
                f"session {session_id} of {self._shown} is finished, so nothing is added to it",
                remedy="autotune run opens a new session",
            )
        row.state = SessionState.RUNNING


def _trial_ids(db: orm.Session, session_id: int, results: Sequence[RoundResult]) -> list[int]:
    """The trial of each result; new ones are made, as OK."""
    columns = (TrialRow.problem_digest, TrialRow.config_digest, TrialRow.trial_id)
    keys = [(problem_digest(result.problem), config_digest(result.config)) for result in results]
    known = select(*columns).where(
        TrialRow.session_id == session_id, TrialRow.problem_digest.in_({problem for problem, _ in keys})
    )
    ids = {(problem, config): trial_id for problem, config, trial_id in db.execute(known)}
    new = {key: result for key, result in zip(keys, results, strict=True) if key not in ids}
    if new:
        rows = [
            {"session_id": session_id, "state": TrialState.OK, "message": ""}
            | problem_columns(result.problem)
            | config_columns(result.config)
            | fidelity_columns(result.fidelity)
            for result in new.values()
        ]
        made = db.execute(insert(TrialRow).returning(*columns), rows)
        ids |= {(problem, config): trial_id for problem, config, trial_id in made}
    return [ids[key] for key in keys]


def _trials(db: orm.Session, chosen: Sequence[ColumnElement[bool]]) -> list[Trial]:
    # Two statements, of columns where rows are many: a join would repeat the trial with every sample.
    taken = select(
        SampleRow.trial_id,
        SampleRow.kind,
        SampleRow.phase,
        SampleRow.round,
        SampleRow.position,
        SampleRow.batch_calls,
        SampleRow.time_us,
    )
    samples: dict[int, list[Sample]] = defaultdict(list)
    for trial_id, kind, phase, round_, position, batch_calls, time_us in db.execute(
        taken.join(TrialRow).where(*chosen)
    ):
        samples[trial_id].append(
            Sample(kind=kind, phase=phase, round=round_, position=position, batch_calls=batch_calls, time_us=time_us)
        )
    rows = db.scalars(select(TrialRow).where(*chosen).order_by(TrialRow.trial_id))
    return [to_trial(row, samples[row.trial_id]) for row in rows]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
