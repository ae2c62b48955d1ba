"""The group of a job that torchrun (or who sets its variables) started on several hosts: torch's store is its board.

In:  MASTER_ADDR and MASTER_PORT, a rank. Out: a Communicator over all ranks. The only file here that imports torch, in
its function. May not touch: torch's process groups; an initialised one lends its store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from ..errors import CommunicatorError, UsageError
from ..settings import Settings, launcher_environment
from ..table import TuningTable
from .board import KeyValueStore
from .hosts import join_hosts

if TYPE_CHECKING:
    from ..kernels import Communicator


def join_launched(
    rank: int,
    n_ranks: int,
    settings: Settings,
    *,
    group: str,
    table: TuningTable | str | os.PathLike[str] | None,
    max_error: float | None,
) -> Communicator:
    """As `join_hosts`, on the launcher's store.

    Raises:
        UsageError: MASTER_ADDR or MASTER_PORT is not set, or torch is missing.
    """
    environ = launcher_environment()
    restart = environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun's store outlives its workers
    store = _store(rank, n_ranks, environ, settings.timeout_s)
    return join_hosts(
        store, rank, n_ranks, group=f"{group}/{restart}", table=table, max_error=max_error, settings=settings
    )


_stores: list[KeyValueStore] = []
"""The store of this process's job: kept, since the ranks of other hosts may still read what rank 0's process serves."""


def _store(rank: int, n_ranks: int, environ: Mapping[str, str], timeout_s: float) -> KeyValueStore:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not environ.get(name):
            raise UsageError(
                f"ranks are on several hosts, and {name} is not set",
                remedy="start them with torchrun, or set MASTER_ADDR and MASTER_PORT to a free port of rank 0's host",
            )
    try:
        from torch.distributed import rendezvous
        from torch.distributed.distributed_c10d import _get_default_store, is_initialized
    except ImportError as err:
        raise UsageError(
            "ranks are on several hosts, and torch, whose TCPStore they meet on, is not installed",
            remedy="pip install 'mc2-autotune[torch]'",
        ) from err
    if is_initialized():
        store: KeyValueStore = _get_default_store()
        return store
    if not _stores:
        try:
            store, _, _ = next(rendezvous("env://", rank, n_ranks, timeout=timedelta(seconds=timeout_s)))
        except (RuntimeError, ValueError, OSError) as err:
            raise CommunicatorError(
                f"rank {rank} does not reach the store at {environ['MASTER_ADDR']}:{environ['MASTER_PORT']}: "
                f"{(str(err).splitlines() or ['no reason given'])[0]}",
                remedy="check that MASTER_ADDR is rank 0's host as the others reach it, and that the port is open",
            ) from err
        _stores.append(store)
    return _stores[0]
