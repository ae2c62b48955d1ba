"""The tables of the store, as SQLAlchemy rows. Private to db: callers see ``types`` and ``records``.

    topologies ──< sessions ──< trials ──< samples        trials, samples: append-only (see TrialStore)
                       │  └───< cells                     cells: problems that a session is through with
                       └──────< tables ──< table_hosts    versions of the distilled table, and the hosts of a cluster

A trial is one config on one problem in one session. Samples of one (session, problem, kind, phase, round) were taken
together and are compared as pairs; that is why a trial has at most one sample of a kind in a round. Ids that a table
names as evidence are never given out twice, even after deletions.

Words are stored as text with a CHECK, not as a server's enum type, so that both engines hold the same. A new word is a
new schema version: an older autotune could not read it, and refuses the file instead. Every change here needs a
migration in ``migrations/versions``; a test compares the two.
"""

from __future__ import annotations

import enum

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Double,
    Enum,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ..types import Collective, DType, KnobValue, Memory, OpClass, Phase, SampleKind, TrialState
from .records import CellState, SessionState

SCHEMA_VERSION = 4

# SQLite counts rows only in a column declared INTEGER, which holds 64 bits there.
_ROW_ID = BigInteger().with_variant(Integer, "sqlite")


def _word(kind: type[enum.Enum]) -> Enum:
    return Enum(
        kind,
        name=kind.__name__.lower(),
        native_enum=False,
        create_constraint=True,
        length=32,
        values_callable=lambda members: [member.value for member in members],
    )


class Base(DeclarativeBase):
    """Constraint names follow from what they bind, so that a migration can name and change them on both engines."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )


class TopologyRow(Base):
    """A machine or cluster, by fingerprint; the description is JSON text."""

    __tablename__ = "topologies"

    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    description: Mapped[str] = mapped_column(Text)
    created_at: Mapped[str]


class SessionRow(Base):
    """A tuning run."""

    __tablename__ = "sessions"
    __table_args__ = (
        Index(None, "plan_digest", "fingerprint", "environment_digest"),
        CheckConstraint("(state = 'finished') = (finished_at IS NOT NULL)", name="finished_at"),
        {"sqlite_autoincrement": True},
    )

    session_id: Mapped[int] = mapped_column(_ROW_ID, primary_key=True)
    state: Mapped[SessionState] = mapped_column(_word(SessionState))
    plan_digest: Mapped[str]
    plan_text: Mapped[str] = mapped_column(Text)
    fingerprint: Mapped[str] = mapped_column(ForeignKey("topologies.fingerprint"))
    environment: Mapped[dict[str, str]] = mapped_column(JSON)
    environment_digest: Mapped[str]
    backend: Mapped[str]
    command: Mapped[str] = mapped_column(Text)
    schema_version: Mapped[int]
    created_at: Mapped[str]
    finished_at: Mapped[str | None]


class ProblemColumns:
    """The columns of a Problem; ``problem_digest`` stands for all of them where NULL would make keys unequal."""

    problem_digest: Mapped[str] = mapped_column(String(32))
    backend: Mapped[str]
    collective: Mapped[Collective] = mapped_column(_word(Collective))
    dtype: Mapped[DType | None] = mapped_column(_word(DType))
    op_class: Mapped[OpClass | None] = mapped_column(_word(OpClass))
    message_bytes: Mapped[int] = mapped_column(BigInteger)
    n_ranks: Mapped[int]
    placement: Mapped[list[int]] = mapped_column(JSON)
    memory: Mapped[Memory] = mapped_column(_word(Memory))
    max_error: Mapped[float | None] = mapped_column(Double)


def _problem_checks() -> tuple[CheckConstraint, ...]:
    return (
        CheckConstraint("(dtype IS NULL) = (op_class IS NULL)", name="computes"),
        CheckConstraint("message_bytes >= 0 AND n_ranks >= 1 AND (max_error IS NULL OR max_error > 0)", name="problem"),
    )


class TrialRow(ProblemColumns, Base):
    """A config tried on a problem in a session."""

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint("session_id", "problem_digest", "config_digest"),
        Index(None, "problem_digest", "session_id"),
        *_problem_checks(),
        CheckConstraint("segment_bytes IS NULL OR segment_bytes >= 1", name="segment_bytes"),
        CheckConstraint("(state = 'ok') = (message = '')", name="message"),
        CheckConstraint("wrong_rank IS NULL OR state = 'wrong_result'", name="wrong"),
        CheckConstraint("(error IS NULL) = (density IS NULL) AND (error IS NULL OR error >= 0)", name="fidelity"),
        CheckConstraint(
            "(wrong_rank IS NULL) = (wrong_index IS NULL) AND (wrong_rank IS NULL) = (wrong_got IS NULL)"
            " AND (wrong_rank IS NULL) = (wrong_expected IS NULL)",
            name="wrong_whole",
        ),
        {"sqlite_autoincrement": True},
    )

    trial_id: Mapped[int] = mapped_column(_ROW_ID, primary_key=True)
    session_id: Mapped[int] = mapped_column(ForeignKey("sessions.session_id"))
    config_digest: Mapped[str] = mapped_column(String(32))
    algorithm: Mapped[str]
    segment_bytes: Mapped[int | None] = mapped_column(BigInteger)
    codec: Mapped[str]
    knobs: Mapped[dict[str, KnobValue]] = mapped_column(JSON)
    state: Mapped[TrialState] = mapped_column(_word(TrialState))
    message: Mapped[str] = mapped_column(Text)
    wrong_rank: Mapped[int | None]
    wrong_index: Mapped[int | None] = mapped_column(BigInteger)
    wrong_got: Mapped[str | None]
    wrong_expected: Mapped[str | None]
    error: Mapped[float | None] = mapped_column(Double)
    density: Mapped[float | None] = mapped_column(Double)


class SampleRow(Base):
    """One timed batch of a trial. The table is its own index (no row ids), which halves its size."""

    __tablename__ = "samples"
    __table_args__ = (
        CheckConstraint("round >= 0 AND position >= 0 AND batch_calls >= 1 AND time_us > 0", name="sample"),
        {"sqlite_with_rowid": False},
    )

    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.trial_id"), primary_key=True)
    phase: Mapped[Phase] = mapped_column(_word(Phase), primary_key=True)
    kind: Mapped[SampleKind] = mapped_column(_word(SampleKind), primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True)
    position: Mapped[int]
    batch_calls: Mapped[int]
    time_us: Mapped[float] = mapped_column(Double)


class CellRow(ProblemColumns, Base):
    """A problem that a session is through with."""

    __tablename__ = "cells"
    __table_args__ = (Index(None, "collective", "n_ranks", "backend", "message_bytes"), *_problem_checks())

    session_id: Mapped[int] = mapped_column(ForeignKey("sessions.session_id"), primary_key=True)
    problem_digest: Mapped[str] = mapped_column(String(32), primary_key=True)
    state: Mapped[CellState] = mapped_column(_word(CellState))


class TableRow(Base):
    """A version of the tuning table; the text is the file's. ``backend`` is what the text says, NULL if it does not."""

    __tablename__ = "tables"
    __table_args__ = (
        Index(None, "fingerprint", "backend", "version"),
        Index(None, "session_id"),
        {"sqlite_autoincrement": True},
    )

    version: Mapped[int] = mapped_column(_ROW_ID, primary_key=True)
    fingerprint: Mapped[str]
    session_id: Mapped[int | None] = mapped_column(ForeignKey("sessions.session_id"))
    digest: Mapped[str]
    created_at: Mapped[str]
    table_json: Mapped[str] = mapped_column(Text)
    backend: Mapped[str | None]


class TableHostRow(Base):
    """A host, by fingerprint, that finds a cluster's table."""

    __tablename__ = "table_hosts"
    __table_args__ = (Index(None, "version"),)

    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(ForeignKey("tables.version"), primary_key=True)
