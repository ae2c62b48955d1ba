"""Making a database smaller: deleting what no kept table needs.

In:  the words of ``--db``, an age, how many tables to keep. Out: `Pruned`, what was or would be deleted.

Kept are the newest versions of each machine's table for each backend, all trials of the cells that prove their rules
(the rivals too, which ``explain`` shows), and everything younger than the age. The rest goes, session by session, each
in a transaction of its own. Ids are never given out again, so that a table that was carried elsewhere cannot come to
name other trials.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, orm, select

from ..errors import StoreError, TableFormatError
from ..table import TuningTable, parse_table
from .models import CellRow, SampleRow, SessionRow, TableHostRow, TableRow, TrialRow
from .opening import found, opened
from .transactions import Transactions

_WAIT_S = 30.0
_IDS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many rows went, or would go; sessions that lose only some of their cells are not counted as sessions."""

    sessions: int = 0
    cells: int = 0
    trials: int = 0
    samples: int = 0
    tables: int = 0


def prune(url_or_path: str, *, older_than_days: int, keep_tables: int, really: bool) -> Pruned:
    """Delete what is older than so many days and needed by none of the kept tables.

    Args:
        older_than_days: 1 or more; counted from the beginning of a session.
        keep_tables: versions to keep of each machine's table for each backend, 1 or more.
        really: False only counts.

    Raises:
        AutotuneError: the database cannot be used, or a kept table cannot be read, so that its needs are not known.
    """
    if older_than_days < 1 or keep_tables < 1:
        raise ValueError("what is younger than a day, and the newest table, always stay")
    found(url_or_path, wait_s=_WAIT_S)[0].close()  # a missing file is not made
    transactions, _ = opened(url_or_path, wait_s=_WAIT_S)
    before = (datetime.now(UTC) - timedelta(days=older_than_days)).isoformat(timespec="seconds")
    with closing(transactions):
        dropped, needed = transactions.read(lambda db: _plan(db, transactions.shown, before, keep_tables))
        done = Pruned(tables=len(dropped))
        if really and dropped:
            transactions.write(lambda db: _delete_tables(db, dropped))
        old = transactions.read(
            lambda db: db.scalars(select(SessionRow.session_id).where(SessionRow.created_at < before)).all()
        )
        for session_id in old:
            gone = _prune_session(transactions, session_id, needed.get(session_id, set()), dropped, really=really)
            done = _sum(done, gone)
        if really:
            transactions.shrink()
    return done


def _plan(db: orm.Session, shown: str, before: str, keep_tables: int) -> tuple[set[int], dict[int, set[str]]]:
    """Versions of tables to drop, and what the others need: problem digests by session."""
    kept: defaultdict[tuple[str, str], int] = defaultdict(int)
    dropped: set[int] = set()
    trial_ids: set[int] = set()
    for row in db.scalars(select(TableRow).order_by(TableRow.version.desc())):
        table = _parsed(row, shown)
        kind = (row.fingerprint, table.defaults.backend)
        if kept[kind] >= keep_tables and row.created_at < before:
            dropped.add(row.version)
            continue
        kept[kind] += 1
        trial_ids.update(trial for rules in table.rules.values() for rule in rules for trial in rule.trial_ids)
    needed: defaultdict[int, set[str]] = defaultdict(set)
    for some in _chunks(sorted(trial_ids)):
        cells = select(TrialRow.session_id, TrialRow.problem_digest).where(TrialRow.trial_id.in_(some)).distinct()
        for session_id, digest in db.execute(cells):
            needed[session_id].add(digest)
    return dropped, needed


def _delete_tables(db: orm.Session, versions: Collection[int]) -> None:
    db.execute(delete(TableHostRow).where(TableHostRow.version.in_(versions)))
    db.execute(delete(TableRow).where(TableRow.version.in_(versions)))


def _parsed(row: TableRow, shown: str) -> TuningTable:
    try:
        return parse_table(row.table_json, f"table {row.version} of {shown}")
    except TableFormatError as err:
        raise StoreError(
            f"what table {row.version} needs is not known: {err.message}",
            remedy="pip install --upgrade mc2-autotune, and prune with that",
        ) from err


def _prune_session(
    transactions: Transactions, session_id: int, needed: Collection[str], dropped: Collection[int], *, really: bool
) -> Pruned:
    def work(db: orm.Session) -> Pruned:
        trials = [TrialRow.session_id == session_id, TrialRow.problem_digest.not_in(needed)]
        samples = SampleRow.trial_id.in_(select(TrialRow.trial_id).where(*trials))
        cells = [CellRow.session_id == session_id, CellRow.problem_digest.not_in(needed)]
        # A table that stays points at its session, though it may need none of its trials.
        tables = select(TableRow.version).where(TableRow.session_id == session_id)
        named = set(db.scalars(tables)) - set(dropped)
        gone = Pruned(
            sessions=0 if needed or named else 1,
            cells=_count(db, CellRow, cells),
            trials=_count(db, TrialRow, trials),
            samples=_count(db, SampleRow, [samples]),
        )
        if really:
            db.execute(delete(SampleRow).where(samples).execution_options(synchronize_session=False))
            db.execute(delete(TrialRow).where(*trials).execution_options(synchronize_session=False))
            db.execute(delete(CellRow).where(*cells).execution_options(synchronize_session=False))
            if gone.sessions:
                db.execute(delete(SessionRow).where(SessionRow.session_id == session_id))
        return gone

    return transactions.write(work) if really else transactions.read(work)


def _count(db: orm.Session, rows: type[CellRow | TrialRow | SampleRow], which: Sequence[ColumnElement[bool]]) -> int:
    return db.scalar(select(func.count()).select_from(rows).where(*which)) or 0


def _sum(a: Pruned, b: Pruned) -> Pruned:
    return replace(
        a,
        sessions=a.sessions + b.sessions,
        cells=a.cells + b.cells,
        trials=a.trials + b.trials,
        samples=a.samples + b.samples,
    )


def _chunks(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[start : start + _IDS_AT_ONCE] for start in range(0, len(ids), _IDS_AT_ONCE))
