"""The store over SQLAlchemy, for SQLite and PostgreSQL alike. Private to db; the contract is TrialStore's docstring."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from sqlalchemy import func, orm, select
from sqlalchemy.exc import IntegrityError

from ..errors import StoreError
from ..types import Problem, RuleKey, Trial
from .models import SCHEMA_VERSION, CellRow, SessionRow, TopologyRow, TrialRow
from .reading import best_of, read_trials, sessions_of_problems
from .recorder import Recorder
from .records import (
    Best,
    CellState,
    KnownMachine,
    NewSession,
    RoundResult,
    Session,
    SessionState,
    StoredTable,
    environment_digest,
)
from .rounds import no_session, state_of
from .rows import problem_digest, storable, to_problem, to_session
from .tables import all_tables, insert_table, known_machines, newest


class SqlStore:
    """A TrialStore over the transactions of a database that has this code's schema."""

    def __init__(self, recorder: Recorder) -> None:
        self._do = recorder

    @property
    def shown(self) -> str:
        return self._do.shown

    def close(self) -> None:
        self._do.close()

    def add_topology(self, fingerprint: str, description: str) -> None:
        def work(db: orm.Session) -> None:
            row = db.get(TopologyRow, fingerprint)
            if row is None:
                db.add(TopologyRow(fingerprint=fingerprint, description=description, created_at=_now()))
            else:
                row.description = description

        # Another process may add the same machine at the same moment; then its description stands.
        with suppress(IntegrityError):
            self._do.write(work)

    def topology(self, fingerprint: str) -> str | None:
        said = select(TopologyRow.description).where(TopologyRow.fingerprint == fingerprint)
        return self._do.read(lambda db: db.scalar(said))

    def open_session(self, new: NewSession) -> Session:
        def work(db: orm.Session) -> Session:
            if db.get(TopologyRow, new.fingerprint) is None:
                raise StoreError(
                    f"{self.shown} has no topology {new.fingerprint}", remedy="add the topology before its session"
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

        return self._do.write(work)

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

        def work(db: orm.Session) -> Session | None:
            row = db.scalar(newest)
            return None if row is None else to_session(row)

        return self._do.read(work)

    def interrupt_session(self, session_id: int) -> None:
        def work(db: orm.Session) -> None:
            row = self._session(db, session_id)
            if row.state is not SessionState.FINISHED:
                row.state = SessionState.INTERRUPTED

        self._do.write(work)

    def finish_session(self, session_id: int) -> None:
        def work(db: orm.Session) -> None:
            row = self._session(db, session_id)
            if row.state is not SessionState.FINISHED:
                row.state, row.finished_at = SessionState.FINISHED, _now()

        self._do.write(work)

    def sessions(self, *, fingerprint: str | None = None, newest: int | None = None) -> list[Session]:
        chosen = select(SessionRow).order_by(SessionRow.session_id.desc()).limit(newest)
        if fingerprint is not None:
            chosen = chosen.where(SessionRow.fingerprint == fingerprint)
        return self._do.read(lambda db: [to_session(row) for row in db.scalars(chosen)][::-1])

    def n_sessions(self, *, fingerprint: str | None = None) -> int:
        counted = select(func.count()).select_from(SessionRow)
        if fingerprint is not None:
            counted = counted.where(SessionRow.fingerprint == fingerprint)
        return self._do.read(lambda db: db.scalar(counted) or 0)

    def add_round(self, session_id: int, results: Sequence[RoundResult]) -> None:
        self._do.add(session_id, results)

    def flush(self) -> None:
        self._do.flush()

    def mark_cell(self, session_id: int, problem: Problem, state: CellState) -> None:
        self._do.mark(session_id, problem, state)

    def done_cells(self, session_id: int) -> dict[Problem, CellState]:
        def work(db: orm.Session) -> dict[Problem, CellState]:
            self._session(db, session_id)
            cells = db.scalars(select(CellRow).where(CellRow.session_id == session_id))
            return {to_problem(row): row.state for row in cells}

        return self._do.read(work)

    def trials(self, *, session_id: int | None = None, problem: Problem | None = None) -> list[Trial]:
        def work(db: orm.Session) -> list[Trial]:
            chosen = []
            if session_id is not None and state_of(db.connection(), session_id) is None:
                raise no_session(session_id, self.shown)
            if session_id is not None:
                chosen.append(TrialRow.session_id == session_id)
            if problem is not None:
                chosen.append(TrialRow.problem_digest == problem_digest(problem))
            return read_trials(db, *chosen)

        return self._do.read(work)

    def trials_by_problem(self, session_ids: Collection[int]) -> Iterator[tuple[Problem, Iterator[list[Trial]]]]:
        tried = self._do.read(lambda db: sessions_of_problems(db, session_ids))
        for digest, newest_first in tried.items():
            lists = (self._cell(digest, session_id) for session_id in newest_first)
            first = next(lists)
            if first:
                yield first[0].problem, itertools.chain((first,), lists)

    def trial(self, trial_id: int) -> Trial:
        found = self._do.read(lambda db: read_trials(db, TrialRow.trial_id == trial_id))
        if not found:
            raise StoreError(
                f"{self.shown} has no trial {trial_id}", remedy="autotune explain names the trials of a rule"
            )
        return found[0]

    def best(self, key: RuleKey, *, fingerprint: str | None = None) -> list[Best]:
        return self._do.read(lambda db: best_of(db, key, fingerprint))

    def add_table(
        self,
        session_id: int | None,
        table_json: str,
        fingerprint: str,
        digest: str,
        *,
        backend: str,
        host_fingerprints: Collection[str] = (),
    ) -> int:
        def work(db: orm.Session) -> int:
            if session_id is not None:
                self._session(db, session_id)
            return insert_table(
                db,
                session_id=session_id,
                table_json=table_json,
                fingerprint=fingerprint,
                digest=digest,
                created_at=_now(),
                backend=backend,
                host_fingerprints=host_fingerprints,
            )

        return self._do.write(work)

    def newest_table(self, fingerprint: str, backend: str | None = None) -> StoredTable | None:
        return self._do.read(lambda db: newest(db, fingerprint, backend))

    def tables(self) -> list[StoredTable]:
        return self._do.read(all_tables)

    def machines(self) -> list[KnownMachine]:
        return self._do.read(known_machines)

    def _cell(self, digest: str, session_id: int) -> list[Trial]:
        chosen = (TrialRow.problem_digest == digest, TrialRow.session_id == session_id)
        return self._do.read(lambda db: read_trials(db, *chosen))

    def _session(self, db: orm.Session, session_id: int) -> SessionRow:
        row = db.get(SessionRow, session_id)
        if row is None:
            raise no_session(session_id, self.shown)
        return row


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
