"""The store over SQLAlchemy, for SQLite and PostgreSQL alike. Private to db; the contract is TrialStore's docstring."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from sqlalchemy import orm, select
from sqlalchemy.exc import IntegrityError

from ..errors import StoreError
from ..types import Problem, RuleKey, Trial
from .address import ELSEWHERE
from .models import SCHEMA_VERSION, CellRow, SessionRow, TableRow, TopologyRow, TrialRow
from .reading import best_of, read_trials, sessions_of_problems
from .records import Best, CellState, NewSession, RoundResult, Session, SessionState, StoredTable, environment_digest
from .rounds import TrialKey, has_round, state_of, store_round
from .rows import problem_columns, problem_digest, storable, to_problem, to_session, to_table
from .transactions import Transactions

_TRIALS_REMEMBERED = 65536


class SqlStore:
    """A TrialStore over transactions of a database that has this code's schema."""

    def __init__(self, transactions: Transactions) -> None:
        self._do = transactions
        # Trials never change their id, so a run asks for each once.
        self._known: dict[TrialKey, int] = {}

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

    def sessions(self) -> list[Session]:
        every = select(SessionRow).order_by(SessionRow.session_id)
        return self._do.read(lambda db: [to_session(row) for row in db.scalars(every)])

    def add_round(self, session_id: int, results: Sequence[RoundResult]) -> None:
        attempts = itertools.count()

        def work(db: orm.Session) -> dict[TrialKey, int]:
            self._go_on(db, session_id)
            if next(attempts) and has_round(db, session_id, results):
                return {}  # the connection was lost after the server had stored it
            try:
                return store_round(db, session_id, results, self._known)
            except IntegrityError as err:
                raise StoreError(
                    f"session {session_id} of {self.shown} already has this round: another run is writing to it",
                    remedy=f"wait for the other run to end, or {ELSEWHERE}",
                ) from err

        stored = self._do.write(work)
        if len(self._known) > _TRIALS_REMEMBERED:
            self._known.clear()
        self._known |= stored  # now that it is committed

    def mark_cell(self, session_id: int, problem: Problem, state: CellState) -> None:
        def work(db: orm.Session) -> None:
            self._go_on(db, session_id)
            db.merge(CellRow(session_id=session_id, state=state, **problem_columns(problem)))

        self._do.write(work)

    def done_cells(self, session_id: int) -> dict[Problem, CellState]:
        def work(db: orm.Session) -> dict[Problem, CellState]:
            self._session(db, session_id)
            cells = db.scalars(select(CellRow).where(CellRow.session_id == session_id))
            return {to_problem(row): row.state for row in cells}

        return self._do.read(work)

    def trials(self, *, session_id: int | None = None, problem: Problem | None = None) -> list[Trial]:
        def work(db: orm.Session) -> list[Trial]:
            chosen = []
            if session_id is not None:
                self._session(db, session_id)
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

    def add_table(self, session_id: int | None, table_json: str, fingerprint: str, digest: str) -> int:
        def work(db: orm.Session) -> int:
            if session_id is not None:
                self._session(db, session_id)
            row = TableRow(
                session_id=session_id, table_json=table_json, fingerprint=fingerprint, digest=digest, created_at=_now()
            )
            db.add(row)
            db.flush()
            return row.version

        return self._do.write(work)

    def newest_table(self, fingerprint: str) -> StoredTable | None:
        newest = select(TableRow).where(TableRow.fingerprint == fingerprint).order_by(TableRow.version.desc()).limit(1)

        def work(db: orm.Session) -> StoredTable | None:
            row = db.scalar(newest)
            return None if row is None else to_table(row)

        return self._do.read(work)

    def tables(self) -> list[StoredTable]:
        every = select(TableRow).order_by(TableRow.version)
        return self._do.read(lambda db: [to_table(row) for row in db.scalars(every)])

    def _cell(self, digest: str, session_id: int) -> list[Trial]:
        chosen = (TrialRow.problem_digest == digest, TrialRow.session_id == session_id)
        return self._do.read(lambda db: read_trials(db, *chosen))

    def _session(self, db: orm.Session, session_id: int) -> SessionRow:
        row = db.get(SessionRow, session_id)
        if row is None:
            raise StoreError(f"{self.shown} has no session {session_id}", remedy="autotune run opens a new session")
        return row

    def _go_on(self, db: orm.Session, session_id: int) -> None:
        state = state_of(db, session_id)
        if state is SessionState.FINISHED:
            raise StoreError(
                f"session {session_id} of {self.shown} is finished, so nothing is added to it",
                remedy="autotune run opens a new session",
            )
        if state is not SessionState.RUNNING:
            self._session(db, session_id).state = SessionState.RUNNING


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
