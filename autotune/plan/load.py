"""The YAML a user writes -> a checked `Plan`. Nothing in the file is executed, nothing is half-loaded.

    collectives: [all_reduce, all_gather]
    sizes: 8-64MiB            # a range in powers of four, or a list such as [8, 4KiB, 1MiB]
    ranks: [2, 4]
    dtypes: [float32, bfloat16]
    op: sum
    memory: private           # or symmetric, or a list of both
    budget: 10m
    effort: normal            # quick, normal, thorough
    rounds: 15                # paired rounds behind a decision, at least 9

Every key may be left out and then means what the default plan says. A range of sizes is where to begin: sizes between
them are measured where the best config changes. A list is measured as it stands. How strict the reader is: `source`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..units import parse_duration, parse_ranks, parse_sizes
from .plan import Plan, default_plan
from .source import Source, read_bytes
from .words import parse_collective, parse_dtype, parse_effort, parse_memory, parse_op, parse_rounds

MAX_PLAN_BYTES = 64 << 10
_KEYS = ("collectives", "sizes", "ranks", "dtypes", "op", "memory", "budget", "effort", "rounds")


def load_plan(path: Path | str, *, n_cores: int) -> Plan:
    """Read a plan file.

    Args:
        n_cores: for the rank counts, where the file gives none.

    Raises:
        UsageError: the file cannot be read, is not YAML, or says something that cannot be meant.
    """
    return parse_plan(read_bytes(path, "plan", MAX_PLAN_BYTES), name=str(path), n_cores=n_cores)


def parse_plan(data: bytes, *, name: str, n_cores: int) -> Plan:
    """Check the bytes of a plan file; `name` stands in errors. Raises like `load_plan`."""
    source = Source(name, what="plan", most_bytes=MAX_PLAN_BYTES)
    values = source.mapping(source.tree(source.text(data)), _KEYS, "collectives: [all_reduce]")
    plan = default_plan(n_cores)
    if "collectives" in values:
        plan = replace(plan, collectives=source.distinct(values["collectives"], parse_collective))
    if "sizes" in values:
        ranged = any("-" in word for word in source.listed(values["sizes"], str))
        plan = replace(plan, sizes=source.merged(values["sizes"], parse_sizes), refine=ranged)
    if "ranks" in values:
        plan = replace(plan, ranks=source.merged(values["ranks"], parse_ranks))
    if "dtypes" in values:
        plan = replace(plan, dtypes=source.distinct(values["dtypes"], parse_dtype))
    if "op" in values:
        plan = replace(plan, op=source.value(values["op"], parse_op))
    if "memory" in values:
        plan = replace(plan, memories=source.distinct(values["memory"], parse_memory))
    if "budget" in values:
        plan = replace(plan, budget_s=source.value(values["budget"], parse_duration))
    if "effort" in values:
        plan = replace(plan, effort=source.value(values["effort"], parse_effort))
    if "rounds" in values:
        rounds = source.value(values["rounds"], parse_rounds)
        most = max(rounds, plan.effort.most_rounds)
        plan = replace(plan, effort=replace(plan.effort, confirm_rounds=rounds, most_rounds=most))
    return plan
