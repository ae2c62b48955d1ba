"""The main job: run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .advise import job_calls
from .launched import on_every_rank
from .options import AsJson, BackendName, Database, DeviceName, settings_with, without_password
from .output import say, show, show_json, text_width
from .planning import plan_of, sampler_of, searched, types_of, with_error_budget
from .progress import RunProgress
from .rechecking import confirm_rules
from .step import step_document, step_total, step_view

if TYPE_CHECKING:
    from ..launch import Job
    from ..plan import Plan
    from ..report.outcome import Outcome
    from ..run import RunResult
    from ..settings import Settings

_GOES_ON = "the same command goes on from there"


@on_every_rank
def run(
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN.yaml", help="What to measure; else the default plan.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less than a minute: float32, eight sizes.")] = False,
    collective: Annotated[
        list[str] | None, typer.Option("--collective", metavar="COLLECTIVE", help="Only this one; may be repeated.")
    ] = None,
    sizes: Annotated[str | None, typer.Option("--sizes", metavar="SIZES", help="Such as 8-64MiB or 4K,1M.")] = None,
    ranks: Annotated[str | None, typer.Option("--ranks", metavar="N,N", help="Rank counts, such as 2,4.")] = None,
    memory: Annotated[
        list[str] | None,
        typer.Option("--memory", metavar="KIND", help="private or symmetric buffers; may be repeated for both."),
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            "--max-error", metavar="E", help="Try lossy codecs, off by up to E of the result's norm on the data."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="FILE.npy", help="The data for --max-error: saved by numpy.save.")
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option("--distribution", metavar="NAME", help="Or: normal, laplace, or sparse:0.99 (share of zeros)."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="The most time for measuring, such as 90s or 2m.")
    ] = None,
    until_converged: Annotated[
        bool, typer.Option("--until-converged", help="Measure on until no decision is open, however long it takes.")
    ] = False,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Nine race rounds of every config: the reference, slow.")
    ] = False,
    sampler: Annotated[
        str | None,
        typer.Option(
            "--sampler",
            metavar="NAME",
            help="The search: model (the default), model-tpe, tpe, gp, random, coarse or grid.",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload", metavar="FILE", help="YAML or CSV of a job's calls: measure these, by what they cost it."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Or the calls of this model's step, as autotune advise lists."),
    ] = None,
    tensor_parallel: Annotated[
        int | None, typer.Option("--tensor-parallel", metavar="N", min=1, help="With --model: ranks that share layers.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="B", min=1, help="With --model: sequences of a step; else 1.")
    ] = None,
    sequence: Annotated[
        int | None, typer.Option("--sequence", metavar="S", min=1, help="With --model: tokens of each; else 2048.")
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option("--phase", metavar="PHASE", help="With --model: prefill, decode (the default) or train."),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Measure the rules of the table again, and say which still hold.")
    ] = False,
    backend: BackendName = "native",
    device: DeviceName = "cpu",
    db: Database = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="PATH", help="Write the table to this file, too. With --confirm: the table to confirm."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be measured, and measure nothing.")
    ] = False,
    as_json: AsJson = False,
    *,
    job: Job | None,
) -> None:
    """Measure collectives and write this host's tuning table.

    Every sample is stored. A run that was interrupted or killed goes on where it stopped when the same command is
    given again. The table stands where select() finds it.
    """
    from ..report.outcome import outcome_document, outcome_view
    from ..run import plan_of_job, run_plan

    settings = settings_with(db)
    if confirm:
        planned = (plan, collective, sizes, ranks, memory, max_error, sampler, model)
        if quick or exhaustive or until_converged or dry_run or any(word is not None for word in planned):
            raise UsageError(
                "--confirm measures what the table has, and takes no plan",
                remedy="give it with --budget, --workload, --table, --backend and --db only",
            )
        return confirm_rules(
            settings,
            table,
            backend,
            device,
            budget=budget,
            workload=workload,
            command=_typed(sys.argv),
            as_json=as_json,
        )
    chosen = plan_of(plan, quick=quick, collective=collective, sizes=sizes, ranks=ranks, memory=memory, budget=budget)
    calls = job_calls(workload, model, tensor_parallel, batch, sequence, phase)
    chosen = searched(chosen, exhaustive=exhaustive, calls=calls, given=(plan, sizes, ranks, collective))
    chosen = with_error_budget(chosen, max_error, data, distribution)
    chosen = chosen if plan is not None else types_of(backend, chosen)
    search = sampler_of(sampler, exhaustive=exhaustive)
    if job is not None:
        chosen = plan_of_job(chosen, job, ranks_given=ranks is not None or plan is not None)
    if dry_run:
        return _show_plan(chosen, settings, backend, device, as_json=as_json)
    try:
        with RunProgress() as progress:
            result = run_plan(
                chosen,
                settings,
                command=_typed(sys.argv),
                backend=backend,
                device=device,
                copy_to=None if table is None else Path(table),
                sampler=search,
                converge=until_converged,
                said=progress.said,
                progress=progress.measuring,
                job=job,
            )
    except KeyboardInterrupt:
        say(f"interrupted; {_GOES_ON}")
        raise typer.Exit(130) from None
    outcome = _outcome(chosen, result)
    total = step_total(chosen.weights(result.session.backend) or {}, result.decided)
    if as_json:
        facts = {"cells_undecided": len(result.report.undecided), "step": step_document(total)}
        show_json(outcome_document(outcome) | facts)
    else:
        show(outcome_view(outcome, text_width()), *step_view(total))
    if result.interrupted:
        say(f"interrupted; {_GOES_ON}")
        raise typer.Exit(130)
    if not result.decided or result.report.failed:
        raise typer.Exit(1)


def _typed(words: list[str]) -> str:
    """The command line for the store, without the database's URL, which may hold a password."""
    pairs = zip(["", *words], words, strict=False)
    kept = [word for before, word in pairs if before != "--db" and word != "--db" and not word.startswith("--db=")]
    return shlex.join(["autotune", *kept[1:]])


def _show_plan(plan: Plan, settings: Settings, backend: str, device: str, *, as_json: bool) -> None:
    from ..backends.choice import make_backend
    from ..report.grid import listing
    from ..units import format_bytes

    asked = make_backend(backend, (0,), settings, device=device, data=plan.data)
    cells = plan.problems(backend)
    facts = {
        "collectives": [collective.value for collective in plan.collectives],
        "sizes": [format_bytes(size) for size in plan.sizes],
        "ranks": list(plan.ranks),
        "dtypes": [dtype.value for dtype in plan.dtypes],
        "op": plan.op.value,
        "memory": [memory.value for memory in plan.memories],
        "effort": plan.effort.name,
        "budget_s": plan.budget_s,
        **({"max_error": plan.max_error, "data": plan.data} if plan.max_error is not None else {}),
        "cells": len(cells),
        "configs": sum(len(asked.candidates(cell)) for cell in cells),
        "database": without_password(settings.db),
    }
    if as_json:
        show_json({**facts, "sizes": list(plan.sizes)})
    else:
        rows = [
            (name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
            for name, value in facts.items()
        ]
        show(listing(rows))


def _sizes(plan: Plan, result: RunResult) -> tuple[int, ...]:
    """Those of the plan or the workload, and the ones between them that were measured."""
    planned = plan.sizes if plan.workload is None else tuple(call.message_bytes for call in plan.workload.calls)
    return tuple(sorted({*planned, *(problem.message_bytes for problem in result.report.between)}))


def _outcome(plan: Plan, result: RunResult) -> Outcome:
    from ..report.outcome import Outcome

    report = result.report
    return Outcome(
        fingerprint=result.probe.fingerprint,
        session_id=result.session.session_id,
        resumed=result.resumed,
        interrupted=result.interrupted,
        elapsed_s=report.elapsed_s,
        database=result.database,
        table=None if result.path is None else str(result.path),
        table_digest=result.table.digest,
        sizes=_sizes(plan, result),
        keys=tuple(dict.fromkeys(problem.key for problem in plan.problems(result.session.backend))),
        verdicts=result.decided,
        failed=report.failed,
        not_measured=report.not_measured,
        failures=report.failures,
    )
