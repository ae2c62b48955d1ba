"""`autotune simulate`: what collectives would take on a machine that need not be here, and which config would be best.

machine  what is simulated, and its cost models
native   our own schedules, and a table of simulated rules
hccl     where HCCL's own choice is predicted to lose

May not touch: the terminal, ranks, the store.
"""

from __future__ import annotations

from .hccl import simulate_hccl
from .machine import BACKEND, Subject, scaling_ranks, subject, with_trials
from .native import NETWORK_SEGMENTS, simulate, table_of

__all__ = [
    "BACKEND",
    "NETWORK_SEGMENTS",
    "Subject",
    "scaling_ranks",
    "simulate",
    "simulate_hccl",
    "subject",
    "table_of",
    "with_trials",
]
