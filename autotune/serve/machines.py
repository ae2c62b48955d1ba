"""The store's machines as values: which tables they have, which runs, and what a report of them holds. No HTTP.

In:  a store. Out: tables, plain documents, `Contents` for a page. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from .. import __version__
from ..backends.choice import REFERENCES
from ..db import KnownMachine, Session, StoredTable, TrialStore
from ..errors import ProbeError, StoreError
from ..report.page.contents import Contents, Run
from ..table import TuningTable, parse_table
from ..topology.devices import Host
from ..topology.document import from_json
from ..topology.graph import Topology
from ..topology.labels import label
from ..types import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that the store knows.

    Args:
        words: what it is, in a line; empty where that is not known.
    """

    known: KnownMachine
    words: str


def served(store: TrialStore, fingerprint: str, backend: str) -> StoredTable | None:
    """A machine's newest table of a backend, else that of a cluster which the machine belongs to; checked.

    Raises:
        StoreError: the store cannot be read.
        TableFormatError: what it holds is damaged.
    """
    stored = store.newest_table(fingerprint, backend)
    if stored is not None:
        _check(stored.version, stored.table_json)
    return stored


@lru_cache(maxsize=64)
def _check(version: int, table_json: str) -> None:
    parse_table(table_json, f"version {version} in the store")


def machines(store: TrialStore) -> list[Machine]:
    """All of them, the one that was measured last first."""
    found = [Machine(known=known, words=_words(_read(known.description))) for known in store.machines()]
    return sorted(found, key=lambda machine: _last(machine.known), reverse=True)


def _last(known: KnownMachine) -> str:
    return max(known.last_session_at or "", *(table.created_at for table in known.tables), "")


def topology_of(store: TrialStore, fingerprint: str) -> Topology | None:
    """The machine's topology; None where it is not in the store or was written by a later version."""
    return _read(store.topology(fingerprint))


def _read(description: str | None) -> Topology | None:
    if description is None:
        return None
    try:
        return from_json(description)
    except ProbeError:
        return None


def _words(topology: Topology | None) -> str:
    hosts = [] if topology is None else [device for device in topology.devices if isinstance(device, Host)]
    if topology is None or not hosts:
        return ""
    first = label(topology, hosts[0])
    return first if len(hosts) == 1 else f"{len(hosts)} hosts, the first: {first}"


def machine_document(machine: Machine) -> dict[str, Any]:
    """In JSON."""
    known = machine.known
    return {
        "fingerprint": known.fingerprint,
        "words": machine.words or None,
        "tables": [
            {
                "backend": table.backend,
                "version": table.version,
                "digest": table.digest,
                "created_at": table.created_at,
            }
            for table in known.tables
        ],
        "n_runs": known.n_sessions,
        "last_run_at": known.last_session_at,
    }


def run_document(run: Session) -> dict[str, Any]:
    """In JSON; the plan, which is long, is left to the database."""
    return {
        "run": run.session_id,
        "fingerprint": run.fingerprint,
        "backend": run.backend,
        "state": run.state.value,
        "command": run.command,
        "created_at": run.created_at,
        "finished_at": run.finished_at,
        "environment": dict(run.environment),
    }


def report_contents(
    table: TuningTable, origin: str, store: TrialStore | None, fingerprint: str | None, *, no_store: str = ""
) -> Contents:
    """What a page about a table holds, with what the store has of its machine.

    Args:
        store: None where there is none, for which `no_store` says why.
        fingerprint: of the machine whose runs count; None where the table is of no machine.

    Raises:
        StoreError: the store cannot be read.
    """
    backend = table.defaults.backend
    topology: Topology | None = None
    runs: list[Session] = []
    trials: list[Trial] = []
    if store is not None and fingerprint is not None:
        topology = topology_of(store, fingerprint)
        own = [run for run in store.sessions(fingerprint=fingerprint) if run.backend == backend]
        counted = _counted(table, store, own)
        runs = [run for run in own if run.session_id in counted]
        trials = [trial for run in runs for trial in store.trials(session_id=run.session_id)]
    where = no_store if store is None else f"{len(trials)} trials are in {store.shown}."
    return Contents(
        table=table,
        origin=origin,
        topology=topology,
        runs=tuple(map(_run, runs)),
        trials=tuple(trials),
        note=where,
        reference=REFERENCES.get(backend, REFERENCES["native"]),
        made_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        version=__version__,
    )


def _counted(table: TuningTable, store: TrialStore, own: Sequence[Session]) -> set[int]:
    """The runs that prove the table's rules, and the newest: a store may hold years of others."""
    known = {run.session_id for run in own}
    found = {own[-1].session_id} if own else set()
    left = {rule.trial_ids[0] for rules in table.rules.values() for rule in rules if rule.trial_ids}
    while left and found < known:
        try:
            session_id = store.trial(left.pop()).session_id
        except StoreError:  # the table is not of this store
            continue
        if session_id in known and session_id not in found:
            found.add(session_id)
            left -= _ids(store.trials(session_id=session_id))
    return found


def _ids(trials: Iterable[Trial]) -> set[int]:
    return {trial.trial_id for trial in trials if trial.trial_id is not None}


def _run(session: Session) -> Run:
    return Run(
        session_id=session.session_id,
        state=session.state.value,
        command=session.command,
        created_at=session.created_at,
        finished_at=session.finished_at,
        environment=session.environment,
    )
