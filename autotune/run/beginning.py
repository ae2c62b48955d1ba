"""What every measuring job begins with: a store, what the figures depend on, a session.

In:  settings, what the probe found. Out: an open store, an environment, a session, new or continued.
"""

from __future__ import annotations

from importlib import metadata

from ..backends.mpi import mpi_environment
from ..backends.mpi_program import KINDS
from ..db import NewSession, Session, TrialStore, environment_digest, open_store
from ..probing import Probe
from ..settings import Settings
from ..topology.document import to_json

HOLD_S = 0.25
"""How much measuring a run that is killed may lose, besides the round in flight. Storing each round by itself would
take a tenth of a quick run's time, and more on a server."""


def store_for_measuring(settings: Settings) -> TrialStore:
    """The store of `--db`, which stores rounds together.

    Raises:
        AutotuneError: it cannot be opened.
    """
    return open_store(settings.db, hold_s=HOLD_S)


def environment_of(probed: Probe, settings: Settings, backend: str, device: str) -> dict[str, str]:
    """What measurements depend on besides the topology; a run goes on only where nothing of it has changed."""
    if backend == "native":
        return {**probed.environment, "staging_bytes": str(settings.staging_bytes)}
    if backend in KINDS:
        return {**probed.environment, **mpi_environment(backend, settings)}
    return {**probed.environment, "torch": metadata.version("torch"), "device": device}


def begun(
    plan_digest: str,
    plan_text: str,
    around: dict[str, str],
    store: TrialStore,
    probed: Probe,
    backend: str,
    command: str,
) -> tuple[Session, bool]:
    """The newest session of the same plan, machine and environment that is not finished, else a new one; and whether it
    is continued.

    Raises:
        StoreError: the store cannot be used.
    """
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
