"""Plans: what a tuning run measures. In comes the YAML a user writes, or a count of cores; out come problems in order.

plan      the checked value, its digest, its problems
load      the reader of plan files
workload  what a job calls in a step, and the reader of its files
source    a YAML file under inspection; the only yaml, with workload
words     the words of files and command lines
"""

from __future__ import annotations

from .load import load_plan, parse_plan
from .plan import Plan, default_plan, quick_plan
from .words import named, parse_collective, parse_memory
from .workload import Workload, WorkloadCall, load_workload, parse_workload

__all__ = [
    "Plan",
    "Workload",
    "WorkloadCall",
    "default_plan",
    "load_plan",
    "load_workload",
    "named",
    "parse_collective",
    "parse_memory",
    "parse_plan",
    "parse_workload",
    "quick_plan",
]
