"""Measuring a table's rules again on the machine that it is of.

In:  a table, settings. Out: what became of each rule; everything measured is in the store. The table stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from ..backends.choice import make_backend
from ..errors import UsageError
from ..probing import probe
from ..settings import Settings
from ..table import TuningTable
from ..topology.pairs import pinning_order
from ..tune import Progress
from ..tune.claims import claims_of
from ..tune.recheck import Recheck, recheck
from ..types import Problem
from .beginning import begun, environment_of, store_for_measuring


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
    store = store_for_measuring(settings)
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
            around = environment_of(probed, settings, backend, device)
            session, resumed = begun(
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
