"""From all that was measured on a machine to the table that `select` finds there.

In:  a store with what this run and those before it measured, the probe. Out: what was decided, the table, its place.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ..db import Session, TrialStore
from ..distil import Verdict, decide, table_of
from ..errors import AutotuneError
from ..launch import Job
from ..measure import Backend
from ..probing import Probe
from ..settings import Settings
from ..table import TuningTable, dump_table, next_table_path, parse_table, save_table, shipped_table, table_path
from ..topology.fingerprint import cached_fingerprint
from ..topology.second_level import second_level_bytes
from ..types import Problem


def distilled(
    backend: Backend, store: TrialStore, probed: Probe, session: Session
) -> tuple[dict[Problem, Verdict], TuningTable]:
    """What all runs of the backend on this machine decided, each cell once, and the table of it.

    A run of one collective adds to the table, it does not replace it. A cluster's table has what was measured on its
    hosts alone as well, where they are all of one kind.

    Raises:
        StoreError: the store cannot be used.
    """
    machines = {probed.fingerprint, *(probed.host_fingerprints if len(probed.host_fingerprints) == 1 else ())}
    here = {s.session_id for s in store.sessions() if s.fingerprint in machines and s.backend == backend.name}
    stored = store.trials_by_problem(sorted(here))
    decided = decide(stored, default=backend.default, reference=backend.reference)
    table = table_of(
        decided.values(),
        defaults=shipped_table(backend.name, l2_bytes=second_level_bytes()).defaults,
        fingerprint=probed.fingerprint,
        host_fingerprints=probed.host_fingerprints,
        environment=dict(session.environment),
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    return decided, table


def published(
    table: TuningTable,
    settings: Settings,
    store: TrialStore,
    session: Session,
    *,
    copy_to: Path | None,
    job: Job | None,
) -> Path:
    """Store a table as the machine's newest, and put it where `select` finds it: on every host of a job.

    Args:
        copy_to: a second place.

    Returns:
        The second place, where there is one; else the first.

    Raises:
        AutotuneError: it cannot be stored or written.
    """
    assert table.fingerprint is not None, "it is of this machine"
    backend = table.defaults.backend
    version = store.add_table(
        session.session_id,
        dump_table(table),
        table.fingerprint,
        table.digest,
        backend=backend,
        host_fingerprints=table.host_fingerprints,
    )
    path = table_path(settings.data_dir, table.fingerprint, version, backend)
    save_table(table, path)
    if job is not None and job.several_hosts:
        path = Path(str(job.ask_hosts("keep_table", text=dump_table(table))[0]))
    if copy_to is not None:
        save_table(table, copy_to)
        path = copy_to
    return path


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
