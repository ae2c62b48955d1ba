"""Version 1: topologies, sessions, trials with their samples, cells, tables.

The constraint names are what the naming convention of ``models.Base`` gives. Revision ids are schema versions.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter", "gather", "all_to_all")
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")


def word(table: str, column: str, name: str, *words: str, nullable: bool = False) -> list[sa.schema.SchemaItem]:
    """A column that holds one of a few words."""
    allowed = ", ".join(f"'{word}'" for word in words)
    return [
        sa.Column(column, sa.String(32), nullable=nullable),
        sa.CheckConstraint(f"{column} IN ({allowed})", name=op.f(f"ck_{table}_{name}")),
    ]


def problem(table: str) -> list[sa.schema.SchemaItem]:
    """The columns of a problem, the same in trials and cells."""
    return [
        sa.Column("problem_digest", sa.String(32), nullable=False),
        sa.Column("backend", sa.String, nullable=False),
        *word(table, "collective", "collective", *COLLECTIVES),
        *word(table, "dtype", "dtype", *DTYPES, nullable=True),
        *word(table, "op_class", "opclass", "sum", "minmax", "prod", nullable=True),
        sa.Column("message_bytes", sa.BigInteger, nullable=False),
        sa.Column("n_ranks", sa.Integer, nullable=False),
        sa.Column("placement", sa.JSON, nullable=False),
        *word(table, "memory", "memory", "private", "symmetric"),
        sa.Column("max_error", sa.Double, nullable=True),
        sa.CheckConstraint("(dtype IS NULL) = (op_class IS NULL)", name=op.f(f"ck_{table}_computes")),
        sa.CheckConstraint(
            "message_bytes >= 0 AND n_ranks >= 1 AND (max_error IS NULL OR max_error > 0)",
            name=op.f(f"ck_{table}_problem"),
        ),
    ]


def upgrade() -> None:
    op.create_table(
        "topologies",
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_topologies")),
    )
    op.create_table(
        "sessions",
        sa.Column("session_id", ROW_ID, nullable=False),
        *word("sessions", "state", "sessionstate", "running", "interrupted", "finished"),
        sa.Column("plan_digest", sa.String, nullable=False),
        sa.Column("plan_text", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("environment", sa.JSON, nullable=False),
        sa.Column("environment_digest", sa.String, nullable=False),
        sa.Column("backend", sa.String, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("finished_at", sa.String, nullable=True),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_sessions")),
        sa.ForeignKeyConstraint(["fingerprint"], ["topologies.fingerprint"], name=op.f("fk_sessions_fingerprint")),
        sa.CheckConstraint("(state = 'finished') = (finished_at IS NOT NULL)", name=op.f("ck_sessions_finished_at")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_sessions_plan_digest_fingerprint_environment_digest"),
        "sessions",
        ["plan_digest", "fingerprint", "environment_digest"],
    )
    op.create_table(
        "trials",
        sa.Column("trial_id", ROW_ID, nullable=False),
        sa.Column("session_id", ROW_ID, nullable=False),
        *problem("trials"),
        sa.Column("config_digest", sa.String(32), nullable=False),
        sa.Column("algorithm", sa.String, nullable=False),
        sa.Column("segment_bytes", sa.BigInteger, nullable=True),
        sa.Column("codec", sa.String, nullable=False),
        sa.Column("knobs", sa.JSON, nullable=False),
        *word("trials", "state", "trialstate", "ok", "wrong_result", "invalid", "timeout", "crashed"),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("wrong_rank", sa.Integer, nullable=True),
        sa.Column("wrong_index", sa.BigInteger, nullable=True),
        sa.Column("wrong_got", sa.String, nullable=True),
        sa.Column("wrong_expected", sa.String, nullable=True),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_trials")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name=op.f("fk_trials_session_id")),
        sa.UniqueConstraint(
            "session_id",
            "problem_digest",
            "config_digest",
            name=op.f("uq_trials_session_id_problem_digest_config_digest"),
        ),
        sa.CheckConstraint("segment_bytes IS NULL OR segment_bytes >= 1", name=op.f("ck_trials_segment_bytes")),
        sa.CheckConstraint("(state = 'ok') = (message = '')", name=op.f("ck_trials_message")),
        sa.CheckConstraint("wrong_rank IS NULL OR state = 'wrong_result'", name=op.f("ck_trials_wrong")),
        sa.CheckConstraint(
            "(wrong_rank IS NULL) = (wrong_index IS NULL) AND (wrong_rank IS NULL) = (wrong_got IS NULL)"
            " AND (wrong_rank IS NULL) = (wrong_expected IS NULL)",
            name=op.f("ck_trials_wrong_whole"),
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_trials_problem_digest"), "trials", ["problem_digest"])
    op.create_table(
        "samples",
        sa.Column("trial_id", ROW_ID, nullable=False),
        *word("samples", "phase", "phase", "race", "confirm"),
        *word("samples", "kind", "samplekind", "fresh", "steady"),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("batch_calls", sa.Integer, nullable=False),
        sa.Column("time_us", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("trial_id", "phase", "kind", "round", name=op.f("pk_samples")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.trial_id"], name=op.f("fk_samples_trial_id")),
        sa.CheckConstraint(
            "round >= 0 AND position >= 0 AND batch_calls >= 1 AND time_us > 0", name=op.f("ck_samples_sample")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "cells",
        sa.Column("session_id", ROW_ID, nullable=False),
        *problem("cells"),
        *word("cells", "state", "cellstate", "done", "failed"),
        sa.PrimaryKeyConstraint("session_id", "problem_digest", name=op.f("pk_cells")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name=op.f("fk_cells_session_id")),
    )
    op.create_table(
        "tables",
        sa.Column("version", ROW_ID, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("session_id", ROW_ID, nullable=True),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("table_json", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_tables")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name=op.f("fk_tables_session_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_tables_fingerprint_version"), "tables", ["fingerprint", "version"])
    op.create_index(op.f("ix_tables_session_id"), "tables", ["session_id"])
