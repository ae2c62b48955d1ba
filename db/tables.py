"""Tables as rows, and the machines that have them: few statements, none of which reads a text that nobody asked for.
Private to db.

In:  a transaction. Out: values of ``records``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import func, insert, orm, select

from .models import SessionRow, TableHostRow, TableRow, TopologyRow
from .records import KnownMachine, StoredTable, TableInfo

_INFO = (
    TableRow.version,
    TableRow.session_id,
    TableRow.fingerprint,
    TableRow.backend,
    TableRow.digest,
    TableRow.created_at,
)


def insert_table(
    db: orm.Session,
    *,
    session_id: int | None,
    table_json: str,
    fingerprint: str,
    digest: str,
    created_at: str,
    backend: str | None,
    host_fingerprints: Collection[str],
) -> int:
    """A new row, and its version."""
    row = TableRow(
        session_id=session_id,
        table_json=table_json,
        fingerprint=fingerprint,
        digest=digest,
        created_at=created_at,
        backend=backend,
    )
    db.add(row)
    db.flush()
    if others := sorted(set(host_fingerprints) - {fingerprint}):
        db.execute(insert(TableHostRow), [{"fingerprint": host, "version": row.version} for host in others])
    return row.version


def newest(db: orm.Session, fingerprint: str, backend: str | None) -> StoredTable | None:
    """A machine's own table with the highest version; else that of a cluster of which it is a host."""
    wanted = select(TableRow) if backend is None else select(TableRow).where(TableRow.backend == backend)
    wanted = wanted.order_by(TableRow.version.desc()).limit(1)
    row = db.scalar(wanted.where(TableRow.fingerprint == fingerprint))
    if row is None:
        row = db.scalar(wanted.join(TableHostRow).where(TableHostRow.fingerprint == fingerprint))
    return None if row is None else to_table(row)


def all_tables(db: orm.Session) -> list[StoredTable]:
    """All versions, oldest first."""
    return [to_table(row) for row in db.scalars(select(TableRow).order_by(TableRow.version))]


def known_machines(db: orm.Session) -> list[KnownMachine]:
    """Every machine with a session or a table of its own, by fingerprint."""
    of_sessions = select(SessionRow.fingerprint, func.count(), func.max(SessionRow.created_at))
    ran = {
        fingerprint: (n_sessions, last)
        for fingerprint, n_sessions, last in db.execute(of_sessions.group_by(SessionRow.fingerprint))
    }
    newest_of_each = select(func.max(TableRow.version)).group_by(TableRow.fingerprint, TableRow.backend)
    tables: defaultdict[str, list[TableInfo]] = defaultdict(list)
    every = select(*_INFO).where(TableRow.version.in_(newest_of_each))
    for version, session_id, fingerprint, backend, digest, created_at in db.execute(every):
        info = TableInfo(
            version=version,
            session_id=session_id,
            fingerprint=fingerprint,
            backend=backend,
            digest=digest,
            created_at=created_at,
        )
        tables[fingerprint].append(info)
    found = sorted({*ran, *tables})
    descriptions = select(TopologyRow.fingerprint, TopologyRow.description)
    described = {fingerprint: description for fingerprint, description in db.execute(descriptions)}
    return [
        KnownMachine(
            fingerprint=fingerprint,
            description=described.get(fingerprint),
            n_sessions=ran.get(fingerprint, (0, None))[0],
            last_session_at=ran.get(fingerprint, (0, None))[1],
            tables=tuple(sorted(tables[fingerprint], key=lambda info: (info.backend or "", info.version))),
        )
        for fingerprint in found
    ]


def to_table(row: TableRow) -> StoredTable:
    """One version of a table."""
    return StoredTable(
        version=row.version,
        session_id=row.session_id,
        fingerprint=row.fingerprint,
        backend=row.backend,
        digest=row.digest,
        created_at=row.created_at,
        table_json=row.table_json,
    )
