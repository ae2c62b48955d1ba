"""The main job: probe this host, tune it, store every trial, distil a table and put it where `select` finds it.

In:  a checked plan, settings. Out: a `RunResult`: the report, the table and its place.
May not touch: the terminal; it tells its progress to a callback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from .backends.choice import make_backend
from .db import NewSession, Session, TrialStore, environment_digest, open_store
from .distil import Verdict, distil, verdicts
from .errors import AutotuneError
from .measure import Backend
from .plan import Plan
from .probing import Probe, probe
from .settings import Settings
from .table import TuningTable, check_place, dump_table, save_table, shipped_table, table_path
from .topology.document import to_json
from .topology.environment import environment
from .topology.pairs import pinning_order
from .tune import Interrupted, Progress, TuneReport, tune
from .types import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run leaves behind.

    Args:
        path: of the table that `select` now finds; None if not one cell was decided.
        resumed: whether the run went on with an earlier one that was interrupted.
        decided: by cell, for the cells of this run's plan.
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
    said: Callable[[str], None] = lambda _: None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> RunResult:
    """Do all of it, or go on with what an interrupted run of the same plan left.

    Args:
        command: as the user typed it, kept with the session.
        backend: ``"native"`` or ``"torch"``; each has tables of its own.
        device: where the torch backend's tensors live.
        copy_to: a second place for the table.
        said: told in words what happens beside measuring.

    Raises:
        AutotuneError: the host cannot be read, the store cannot be used, the ranks do not start, or no config of any
            cell gave a right answer.
    """
    # First what may be refused: a run that could not keep its results should not begin.
    if copy_to is not None:
        check_place(copy_to)
    store = open_store(settings.db)
    try:
        probed = probe(settings, progress=said)
        measured = make_backend(backend, pinning_order(probed.topology), settings, device=device, data=plan.data)
        try:
            around = _environment(settings, backend, device)
            session, resumed = _session(plan, around, store, probed, backend, command)
            if resumed:
                said(f"continuing session {session.session_id} of {session.created_at}")
            report, interrupted = _tuned(plan, measured, store, session, progress)
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
            )
        finally:
            measured.close()
    finally:
        store.close()


def _environment(settings: Settings, backend: str, device: str) -> dict[str, str]:
    """What measurements depend on besides the topology; a run goes on only where nothing of it has changed."""
    if backend == "native":
        return {**environment(), "staging_bytes": str(settings.staging_bytes)}
    return {**environment(), "torch": metadata.version("torch"), "device": device}


def _session(
    plan: Plan, around: dict[str, str], store: TrialStore, probed: Probe, backend: str, command: str
) -> tuple[Session, bool]:
    store.add_topology(probed.fingerprint, to_json(probed.topology))
    earlier = store.resumable(plan.digest, probed.fingerprint, environment_digest(around))
    if earlier is not None:
        return earlier, True
    new = NewSession(
        plan_digest=plan.digest,
        plan_text=plan.canonical,
        fingerprint=probed.fingerprint,
        environment=around,
        backend=backend,
        command=command,
    )
    return store.open_session(new), False


def _tuned(
    plan: Plan, backend: Backend, store: TrialStore, session: Session, progress: Callable[[Progress], None]
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
) -> RunResult:
    # Every session on this machine counts: a run of one collective adds to the table, it does not replace it.
    here = {s.session_id for s in store.sessions() if s.fingerprint == probed.fingerprint and s.backend == backend.name}
    trials = [trial for trial in store.trials() if trial.session_id in here]
    table = distil(
        trials,
        reference=backend.reference,
        defaults=shipped_table(backend.name).defaults,
        fingerprint=probed.fingerprint,
        host_fingerprints=(probed.fingerprint,),
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
        if copy_to is not None:
            save_table(table, copy_to)
            path = copy_to
    cells = set(plan.problems(backend.name))
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
