"""What every TrialStore must do, whatever database is under it: one suite for all engines.

A test module subclasses StoreContract and gives a fixture ``store`` that yields an empty TrialStore. It may hold rounds
or not: what is held is stored by every verb but add_round and mark_cell.
"""

from __future__ import annotations

from .reading import Reading
from .round_trips import RoundTrips
from .rounds import Rounds
from .sessions import Sessions
from .tables import Tables
from .values import DIRECT, KEY, LARGE, NEW, RING, SMALL, TREE, failed, opened, stored, table_naming, timed

__all__ = [
    "DIRECT",
    "KEY",
    "LARGE",
    "NEW",
    "RING",
    "SMALL",
    "TREE",
    "Reading",
    "Rounds",
    "Sessions",
    "StoreContract",
    "Tables",
    "failed",
    "opened",
    "stored",
    "table_naming",
    "timed",
]


class StoreContract(Sessions, Rounds, Reading, Tables, RoundTrips):
    """All of it."""
