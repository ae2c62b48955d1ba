"""Schedules: every algorithm written once, for the checker, the executors and the cost model.

``registry`` names them, ``ir`` says what a schedule is, ``semantics`` proves one right, ``catalogue`` prints them; the
other files hold one pattern each. numpy only: no buffers, no processes, no topology.
"""

from .algorithm import Algorithm
from .ir import Schedule, Step, Transfer
from .registry import ALGORITHMS, build, cost_figures, names
from .semantics import ScheduleError, check, holds

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Schedule",
    "ScheduleError",
    "Step",
    "Transfer",
    "build",
    "check",
    "cost_figures",
    "holds",
    "names",
]
