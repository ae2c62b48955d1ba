"""The store: what was measured, and the tables that came of it. The only room with SQLAlchemy and alembic.

Callers see TrialStore and plain values; rows, sessions and engines stay inside. Importing this package costs a quarter
of a second, so commands that need no store do not. For looking after a database there are ``status``,
``upgrade_store``, ``prune`` and ``merge``; ``optuna_export`` is imported by itself.
"""

from __future__ import annotations

from .merge import Merged, merge
from .prune import Pruned, prune
from .records import (
    Best,
    CellState,
    KnownMachine,
    NewSession,
    RoundResult,
    Session,
    SessionState,
    StoredTable,
    TableInfo,
    environment_digest,
)
from .status import StoreStatus, Upgrade, status, upgrade_store
from .store import TrialStore, open_store

__all__ = [
    "Best",
    "CellState",
    "KnownMachine",
    "Merged",
    "NewSession",
    "Pruned",
    "RoundResult",
    "Session",
    "SessionState",
    "StoreStatus",
    "StoredTable",
    "TableInfo",
    "TrialStore",
    "Upgrade",
    "environment_digest",
    "merge",
    "open_store",
    "prune",
    "status",
    "upgrade_store",
]
