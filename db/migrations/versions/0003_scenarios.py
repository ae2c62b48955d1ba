"""Version 3: indexes for stores of a million trials: a scenario's cells, and a problem's newest session."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Only indexes, so nothing is copied."""
    op.drop_index(op.f("ix_trials_problem_digest"), "trials")
    op.create_index(op.f("ix_trials_problem_digest_session_id"), "trials", ["problem_digest", "session_id"])
    op.create_index(
        op.f("ix_cells_collective_n_ranks_backend_message_bytes"),
        "cells",
        ["collective", "n_ranks", "backend", "message_bytes"],
    )
