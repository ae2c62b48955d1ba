"""From the options of `run` to a plan: what is measured, with how much effort, by which search.

In:  words of the command line. Out: a `Plan`, a `Sampler`. May not touch: ranks, stores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..plan import Plan, Workload
    from ..tune import Sampler


def plan_of(
    path: str | None,
    *,
    quick: bool,
    collective: list[str] | None,
    sizes: str | None,
    ranks: str | None,
    memory: list[str] | None,
    budget: str | None,
) -> Plan:
    """The plan file's plan, the quick one or the default one, with what the options say instead.

    Raises:
        UsageError: two plans at once, or a word that means nothing.
    """
    from ..plan import default_plan, load_plan, parse_collective, parse_memory, quick_plan
    from ..topology.host import collect, parse
    from ..units import parse_duration, parse_ranks, parse_sizes

    if path is not None and quick:
        raise UsageError("--quick and a plan file are two plans", remedy="write effort: quick into the plan")
    n_cores = parse(collect()).n_cores
    base = load_plan(path, n_cores=n_cores) if path else quick_plan(n_cores) if quick else default_plan(n_cores)
    return base.override(
        collectives=[parse_collective(word) for word in collective or ()],
        sizes=None if sizes is None else parse_sizes(sizes),
        refine="-" in (sizes or ""),
        ranks=None if ranks is None else parse_ranks(ranks),
        memories=[parse_memory(word) for word in memory or ()],
        budget_s=None if budget is None else parse_duration(budget),
    )


def searched(
    plan: Plan, *, exhaustive: bool, calls: Workload | None, given: tuple[str | list[str] | None, ...]
) -> Plan:
    """The plan of a job's calls, or with the effort of the reference.

    Args:
        given: the options that say what is measured, which a job's calls leave no room for.

    Raises:
        UsageError: both.
    """
    from ..measure import EXHAUSTIVE

    if calls is not None and any(word is not None for word in given):
        raise UsageError(
            "--workload and --model say what is measured, and so do a plan, --collective, --sizes and --ranks",
            remedy="leave those out, or write the calls into a workload",
        )
    return plan.override(effort=EXHAUSTIVE if exhaustive else None, workload=calls)


def sampler_of(word: str | None, *, exhaustive: bool) -> Sampler:
    """The search by its name; without one, everything where everything is asked for.

    Raises:
        UsageError: no such search, or one that does not go with --exhaustive.
    """
    from ..plan import named
    from ..tune import Sampler

    if exhaustive and word not in (None, Sampler.GRID.value):
        raise UsageError(f"--exhaustive measures everything, and --sampler {word} does not", remedy="leave one out")
    if word is None:
        return Sampler.GRID if exhaustive else Sampler.MODEL
    return named("sampler", word, {sampler.value: sampler for sampler in Sampler})


def types_of(backend: str, plan: Plan) -> Plan:
    """The default plan's element types, as far as the backend has them; a plan file's are the user's."""
    from ..backends.mpi_knobs import DTYPES
    from ..backends.mpi_program import KINDS

    return replace(plan, dtypes=tuple(d for d in plan.dtypes if d in DTYPES)) if backend in KINDS else plan


def with_error_budget(plan: Plan, max_error: float | None, data: str | None, distribution: str | None) -> Plan:
    """The plan with lossy codecs, where a budget for their error is given.

    Raises:
        UsageError: data without a budget, or the other way round.
    """
    from ..backends.data import data_word
    from ..runtime.arguments import error_budget

    if max_error is None:
        if data is not None or distribution is not None:
            raise UsageError("data without an error budget", remedy="give --max-error too")
        return plan
    return plan.override(max_error=error_budget(max_error), data=data_word(data, distribution))
