"""Version 2: what a lossy config's result was off by on the data of its trial, and the density that it relied on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two columns, both empty for lossless trials. SQLite adds a constraint only by copying the table."""
    with op.batch_alter_table("trials", table_kwargs={"sqlite_autoincrement": True}) as batch:
        for name in ("error", "density"):
            batch.add_column(sa.Column(name, sa.Double, nullable=True))
        batch.create_check_constraint(
            op.f("ck_trials_fidelity"), "(error IS NULL) = (density IS NULL) AND (error IS NULL OR error >= 0)"
        )
