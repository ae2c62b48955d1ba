"""The main job: probe this host, tune it, store every trial, distil a table and put it where `select` finds it.

In:  a checked plan, settings. Out: a `RunResult`: the report, the table and its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ..backends.choice import make_backend
from ..backends.launch import start_here
from ..backends.mpi_program import KINDS as MPI
from ..db import Session, TrialStore
from ..distil import Verdict
from ..errors import AutotuneError
from ..exchange.words import library
from ..launch import Job
from ..measure import Backend
from ..plan import Plan
from ..probing import Probe, probe
from ..settings import Settings
from ..table import TuningTable, check_place
from ..topology.pairs import pinning_order
from ..tune import Interrupted, Knowledge, Progress, Sampler, TuneReport, pricing_of, proposer_for, tune
from ..tune.history import learn_history
from ..types import Problem, Trial
from .beginning import begun, environment_of, store_for_measuring
from .publishing import distilled, published


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run leaves behind.

    Args:
        path: of the table that `select` now finds; None if not one cell was decided.
        resumed: whether the run went on with an earlier one that was interrupted.
        decided: by cell, for the cells of this run's plan and the sizes between them.
        interrupted: Ctrl-C ended it; the same command continues.
    """

    probe: Probe
    session: Session
    report: TuneReport
    table: TuningTable
    path: Path | None
    database: str
    resumed: bool
    decided: dict[Problem, Verdict]
    interrupted: bool


def run_plan(
    plan: Plan,
    settings: Settings,
    *,
    command: str,
    backend: str = "native",
    device: str = "cpu",
    copy_to: Path | None = None,
    sampler: Sampler = Sampler.MODEL,
    converge: bool = False,
    said: Callable[[str], None] = lambda _: None,
    progress: Callable[[Progress], None] = lambda _: None,
    job: Job | None = None,
) -> RunResult:
    """Do all of it, or go on with what an interrupted run of the same plan left.

    Args:
        command: as the user typed it, kept with the session.
        backend: ``"native"`` or ``"torch"``; each has tables of its own.
        device: where the torch backend's tensors live.
        copy_to: a second place for the table.
        sampler: the search.
        converge: measure on until no decision is open.
        said: told in words what happens beside measuring.
        job: of the launcher that started this process: its ranks measure, on its hosts.

    Raises:
        AutotuneError: the host cannot be read, the store cannot be used, the ranks do not start, or no config of any
            cell gave a right answer.
    """
    # First what may be refused: a run that could not keep its results should not begin.
    if copy_to is not None:
        check_place(copy_to)
    store = store_for_measuring(settings)
    try:
        probed = probe(settings, backend=_prober(backend, job), progress=said, job=job)
        measured = make_backend(
            backend,
            pinning_order(probed.topology),
            settings,
            device=device,
            data=plan.data,
            start_ranks=start_here if job is None else job.start,
        )
        try:
            around = environment_of(probed, settings, backend, device)
            session, resumed = begun(plan.digest, plan.canonical, around, store, probed, backend, command)
            if resumed:
                said(f"continuing session {session.session_id} of {session.created_at}")
            knowledge = _knowledge(measured, settings, store, session, probed, said)
            report, interrupted = _tuned(
                plan, measured, store, session, progress, sampler=sampler, knowledge=knowledge, converge=converge
            )
            decided, table = distilled(measured, store, probed, session)
            if not table.rules and report.failures and not interrupted:
                raise _no_right_answer(report.failures[0])
            path = None
            if table.rules:
                path = published(table, settings, store, session, copy_to=copy_to, job=job)
            cells = {*plan.problems(measured.name), *report.between}
            return RunResult(
                probe=probed,
                session=session,
                report=report,
                table=table,
                path=path,
                database=store.shown,
                resumed=resumed,
                decided={problem: verdict for problem, verdict in decided.items() if problem in cells},
                interrupted=interrupted,
            )
        finally:
            measured.close()
    finally:
        store.close()


def plan_of_job(plan: Plan, job: Job, *, ranks_given: bool) -> Plan:
    """The plan with the groups of ranks that a launcher's job can have.

    Args:
        ranks_given: the plan's rank counts are the user's; else what the job started decides.

    Raises:
        UsageError: more ranks than were started.
    """
    plan = plan if ranks_given or plan.workload is not None else replace(plan, ranks=job.rank_counts)
    counts = sorted({problem.key.n_ranks for problem in plan.problems()})
    return replace(plan, placements=tuple(own for n_ranks in counts for own in job.placements(n_ranks)))


def _prober(backend: str, job: Job | None) -> str:
    """What carries the messages that a probe measures: ours, but between hosts torch, where it carries the trials."""
    return "native" if backend == "native" or job is None or not job.several_hosts else "torch"


def _knowledge(
    backend: Backend,
    settings: Settings,
    store: TrialStore,
    session: Session,
    probed: Probe,
    said: Callable[[str], None],
) -> Knowledge:
    """The cost model's prices here, and what earlier runs measured."""
    pricing = pricing_of(probed.topology, backend.name, cluster=probed.cluster, staging_bytes=settings.staging_bytes)
    knowledge = Knowledge(pricing, backend.default)
    own, similar = learn_history(knowledge, store, session, probed.topology)
    if own + similar:
        said(f"starting from {own} earlier runs here and {similar} on machines like this one")
    return knowledge


def _tuned(
    plan: Plan,
    backend: Backend,
    store: TrialStore,
    session: Session,
    progress: Callable[[Progress], None],
    *,
    sampler: Sampler,
    knowledge: Knowledge,
    converge: bool,
) -> tuple[TuneReport, bool]:
    try:
        report = tune(
            plan.problems(backend.name),
            backend=backend,
            store=store,
            session=session,
            effort=plan.effort,
            budget_s=plan.budget_s,
            progress=progress,
            proposer_for=proposer_for(sampler),
            knowledge=knowledge,
            refine=plan.refine,
            converge=converge,
            calls=plan.weights(backend.name),
            whole_job=library(backend.name).start_of if backend.name in MPI else None,
        )
    except Interrupted as stop:
        return stop.report, True
    return report, False


def _no_right_answer(first: Trial) -> AutotuneError:
    return AutotuneError(
        f"no config gave a right answer: {first.problem.key} {first.config}: {first.message}",
        remedy="run autotune doctor; if it finds nothing, report this message",
    )
