"""Plans: what a tuning run measures. In comes the YAML a user writes, or a count of cores; out come problems in order.

plan  the checked value, its digest, its problems
load  the only reader of plan files, and the only yaml
"""

from __future__ import annotations

from .load import load_plan, parse_plan
from .plan import Plan, default_plan, parse_collective, parse_memory, quick_plan

__all__ = ["Plan", "default_plan", "load_plan", "parse_collective", "parse_memory", "parse_plan", "quick_plan"]
