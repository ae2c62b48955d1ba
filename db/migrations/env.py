"""What alembic runs around the migrations: they get the connection, and the transaction, of ``schema.upgrade``.

Alembic loads this file by its path, so it imports nothing of the package.
"""

from __future__ import annotations

from alembic import context

attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    version_table=attributes["version_table"],
    # SQLite cannot change a column in place; alembic then copies the table, and keeps AUTOINCREMENT and WITHOUT ROWID
    # only where batch_alter_table is told so in table_kwargs.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
