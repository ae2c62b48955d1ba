"""The main job: probe this host, tune it, store every trial, distil a table and put it where `select` finds it.

In:  a checked plan, settings. Out: a `RunResult`: the report, the table and its place.
May not touch: the terminal; it tells its progress to a callback.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from .backends.choice import make_backend
from .backends.launch import start_here
from .backends.mpi import mpi_environment
from .backends.mpi_program import KINDS
from .db import NewSession, Session, TrialStore, environment_digest, open_store
from .distil import Verdict, deciding, distil, verdicts
from .errors import AutotuneError, UsageError
from .launch import Job
from .measure import Backend
from .plan import Plan
from .probing import Probe, probe
from .settings import Settings
from .table import (
    TuningTable,
    check_place,
    dump_table,
    next_table_path,
    parse_table,
    save_table,
    shipped_table,
    table_path,
)
from .topology.document import to_json
from .topology.fingerprint import cached_fingerprint
from .topology.pairs import pinning_order
from .tune import Interrupted, Knowledge, Progress, Sampler, TuneReport, pricing_of, proposer_for, tune
from .tune.claims import claims_of
from .tune.history import learn_history
from .tune.recheck import Recheck, recheck
from .types import Problem


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
    store = open_store(settings.db)
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
            around = _environment(probed, settings, backend, device)
            session, resumed = _session(plan.digest, plan.canonical, around, store, probed, backend, command)
            if resumed:
                said(f"continuing session {session.session_id} of {session.created_at}")
            knowledge = _knowledge(measured, settings, store, session, probed, said)
            report, interrupted = _tuned(
                plan, measured, store, session, progress, sampler=sampler, knowledge=knowledge, converge=converge
            )
            return _published(
                plan,
                settings,
                measured,
                store,
                probed,
                session,
                report,
                copy_to,
                resumed=resumed,
                interrupted=interrupted,
                job=job,
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


def confirm_table(
    table: TuningTable,
    settings: Settings,
    *,
    command: str,
    backend: str = "native",
    device: str = "cpu",
    budget_s: float | None = None,
    calls: Callable[[str], Mapping[Problem, float] | None] = lambda _: None,
    said: Callable[[str], None] = lambda _: None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> list[Recheck]:
    """Measure the table's rules again, in a session of its own, or go on with one that was interrupted.

    Args:
        calls: by the backend's name, how often a step of the job makes the call of each problem.

    Raises:
        UsageError: the table is of another machine, or has no measured rule of the backend.
        AutotuneError: the host cannot be read, the store cannot be used, or the ranks do not start.
    """
    store = open_store(settings.db)
    try:
        probed = probe(settings, progress=said)
        if not table.serves(probed.fingerprint):
            raise UsageError(
                f"the table is of machine {table.fingerprint}, and this is {probed.fingerprint}",
                remedy="confirm it on its own machine, or make one for this: autotune run",
            )
        measured = make_backend(backend, pinning_order(probed.topology), settings, device=device)
        try:
            claims = claims_of(table, store, measured)
            if not claims:
                raise UsageError(
                    f"the table has no measured rule of the backend {backend}", remedy="make one: autotune run --quick"
                )
            plan = f"confirm {table.digest}"
            around = _environment(probed, settings, backend, device)
            session, resumed = _session(
                hashlib.sha256(plan.encode()).hexdigest(), plan, around, store, probed, backend, command
            )
            if resumed:
                said(f"continuing session {session.session_id} of {session.created_at}")
            return recheck(
                claims,
                backend=measured,
                store=store,
                session=session,
                budget_s=budget_s,
                calls=calls(measured.name),
                progress=progress,
            )
        finally:
            measured.close()
    finally:
        store.close()


def _environment(probed: Probe, settings: Settings, backend: str, device: str) -> dict[str, str]:
    """What measurements depend on besides the topology; a run goes on only where nothing of it has changed."""
    if backend == "native":
        return {**probed.environment, "staging_bytes": str(settings.staging_bytes)}
    if backend in KINDS:
        return {**probed.environment, **mpi_environment(backend, settings)}
    return {**probed.environment, "torch": metadata.version("torch"), "device": device}


def keep_table(settings: Settings, text: str) -> str:
    """Put the table of a job on several hosts where `select` finds it on this one, as the newest; its path.

    Raises:
        AutotuneError: it cannot be written.
    """
    table = parse_table(text, "the table of rank 0")
    own = cached_fingerprint(settings.cache_dir)
    if own is None or not table.serves(own):
        raise AutotuneError(
            "this host's fingerprint is not that of the run's beginning", remedy="run it again; see autotune probe"
        )
    path = next_table_path(settings.data_dir, own, table.defaults.backend)
    save_table(table, path)
    return str(path)


def _session(
    plan_digest: str,
    plan_text: str,
    around: dict[str, str],
    store: TrialStore,
    probed: Probe,
    backend: str,
    command: str,
) -> tuple[Session, bool]:
    store.add_topology(probed.fingerprint, to_json(probed.topology))
    earlier = store.resumable(plan_digest, probed.fingerprint, environment_digest(around))
    if earlier is not None:
        return earlier, True
    new = NewSession(
        plan_digest=plan_digest,
        plan_text=plan_text,
        fingerprint=probed.fingerprint,
        environment=around,
        backend=backend,
        command=command,
    )
    return store.open_session(new), False


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
        )
    except Interrupted as stop:
        return stop.report, True
    return report, False


def _published(
    plan: Plan,
    settings: Settings,
    backend: Backend,
    store: TrialStore,
    probed: Probe,
    session: Session,
    report: TuneReport,
    copy_to: Path | None,
    *,
    resumed: bool,
    interrupted: bool,
    job: Job | None,
) -> RunResult:
    # Every session on this machine counts: a run of one collective adds to the table, it does not replace it. A
    # cluster's table has what was measured on its hosts alone as well, where they are all of one kind.
    machines = {probed.fingerprint, *(probed.host_fingerprints if len(probed.host_fingerprints) == 1 else ())}
    here = {s.session_id for s in store.sessions() if s.fingerprint in machines and s.backend == backend.name}
    stored = store.trials_by_problem(sorted(here))
    trials = list(deciding(stored, default=backend.default, reference=backend.reference))
    table = distil(
        trials,
        reference=backend.reference,
        defaults=shipped_table(backend.name).defaults,
        fingerprint=probed.fingerprint,
        host_fingerprints=probed.host_fingerprints,
        environment=dict(session.environment),
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    if not table.rules and report.failures and not interrupted:
        first = report.failures[0]
        raise AutotuneError(
            f"no config gave a right answer: {first.problem.key} {first.config}: {first.message}",
            remedy="run autotune doctor; if it finds nothing, report this message",
        )
    path = None
    if table.rules:
        version = store.add_table(session.session_id, dump_table(table), probed.fingerprint, table.digest)
        path = table_path(settings.data_dir, probed.fingerprint, version, backend.name)
        save_table(table, path)
        if job is not None and job.several_hosts:
            path = Path(str(job.ask_hosts("keep_table", text=dump_table(table))[0]))
        if copy_to is not None:
            save_table(table, copy_to)
            path = copy_to
    cells = {*plan.problems(backend.name), *report.between}
    decided = verdicts(trials, default=backend.default, reference=backend.reference)
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
