"""The store: what was measured, and the tables that came of it. The only room with SQLAlchemy and alembic.

Callers see TrialStore and plain values; rows, sessions and engines stay inside. Importing this package costs a quarter
of a second, so commands that need no store do not.
"""

from __future__ import annotations

from .records import CellState, NewSession, RoundResult, Session, SessionState, StoredTable, environment_digest
from .store import TrialStore, open_store

__all__ = [
    "CellState",
    "NewSession",
    "RoundResult",
    "Session",
    "SessionState",
    "StoredTable",
    "TrialStore",
    "environment_digest",
    "open_store",
]
