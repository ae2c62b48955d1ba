"""Version 4: whose table it is, in columns: its backend, and the hosts of a cluster that find it as well."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = sa.table(
    "tables", sa.column("version"), sa.column("fingerprint"), sa.column("backend"), sa.column("table_json")
)
HOSTS = sa.table("table_hosts", sa.column("fingerprint"), sa.column("version"))


def upgrade() -> None:
    """Read once from the text of each table; what cannot be read there stays unknown, as it was."""
    op.add_column("tables", sa.Column("backend", sa.String, nullable=True))
    op.create_table(
        "table_hosts",
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("version", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", "version", name=op.f("pk_table_hosts")),
        sa.ForeignKeyConstraint(["version"], ["tables.version"], name=op.f("fk_table_hosts_version")),
    )
    op.create_index(op.f("ix_table_hosts_version"), "table_hosts", ["version"])
    op.drop_index(op.f("ix_tables_fingerprint_version"), "tables")
    op.create_index(op.f("ix_tables_fingerprint_backend_version"), "tables", ["fingerprint", "backend", "version"])
    connection = op.get_bind()
    for version in connection.scalars(sa.select(TABLES.c.version)).all():
        row = connection.execute(sa.select(TABLES).where(TABLES.c.version == version)).one()
        found = _document(row.table_json)
        backend, hosts = found.get("defaults", {}), found.get("host_fingerprints", [])
        name = backend.get("backend") if isinstance(backend, dict) else None
        if isinstance(name, str):
            connection.execute(sa.update(TABLES).where(TABLES.c.version == version).values(backend=name))
        others = {host for host in hosts if isinstance(host, str)} if isinstance(hosts, list) else set()
        for host in sorted(others - {row.fingerprint}):
            connection.execute(sa.insert(HOSTS).values(fingerprint=host, version=version))


# Any: the tree of JSON.
def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
