"""``autotune.communicator``: the kernels, with the group's one table and the settings of the environment.

In:  a rank and a number of ranks (arguments, or RANK and WORLD_SIZE as torchrun sets them). Out: a Communicator whose
calls bring the table's config. May not touch: the store of trials. The kernels, and NumPy with them, load in the
function; torch only where ranks are on several hosts.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import __version__
from ..errors import UsageError
from ..settings import Settings, read
from ..table import TuningTable, parse_table
from ..types import Collective, Config, DType, Memory, ReduceOp
from .arguments import error_budget
from .brought import brought_table
from .rendezvous import meet
from .selector import Selector

if TYPE_CHECKING:
    from ..kernels import Communicator


def communicator(
    rank: int | None = None,
    n_ranks: int | None = None,
    *,
    group: str = "default",
    table: TuningTable | str | os.PathLike[str] | None = None,
    max_error: float | None = None,
    timeout_s: float | None = None,
) -> Communicator:
    """Join a group of processes; every rank calls it, and leaves with ``close()`` or ``with``.

    Ranks on several hosts, as torchrun starts them (LOCAL_WORLD_SIZE below WORLD_SIZE), meet at MASTER_ADDR and
    MASTER_PORT; that needs torch.

    Args:
        rank: None for the environment's RANK.
        n_ranks: None for the environment's WORLD_SIZE.
        group: processes that give the same name meet; groups that exist at the same time have different names.
        table: as for ``select``. Rank 0's table is the group's.
        max_error: as for ``select``, for all calls; None keeps them lossless.
        timeout_s: the longest wait for another rank, here and in calls; None for AUTOTUNE_TIMEOUT.

    Raises:
        UsageError: no rank is given, or not one of the group; an error budget that is none.
        CommunicatorError: a rank is missing after AUTOTUNE_TIMEOUT, or differs in version, table, settings or budget,
            or rank 0 could not fetch the table.
        AutotuneError: the table cannot be used; as ``select``.
    """
    from ..kernels import Communicator, create_segment
    from ..topology.memory_left import memory_left

    max_error = None if max_error is None else error_budget(max_error)
    settings = read()
    if timeout_s is not None:
        settings = replace(settings, timeout_s=timeout_s)
    rank, n_ranks = _identity(rank, n_ranks, settings)
    if _several_hosts(n_ranks, settings):
        from .launched import join_launched

        return join_launched(rank, n_ranks, settings, group=group, table=table, max_error=max_error)
    mine = brought_table(rank, settings, table)
    met = meet(
        group,
        rank,
        n_ranks,
        must_agree={
            "autotune version": __version__,
            **mine.must_agree,
            "AUTOTUNE_STAGING": str(settings.staging_bytes),
            "AUTOTUNE_SYMMETRIC": str(settings.symmetric_bytes),
            "AUTOTUNE_CHECK": str(int(settings.check)),
            "max_error": str(max_error),
        },
        cores=os.sched_getaffinity(0),
        table_text=mine.text,
        create=lambda: mine.unless_failed(
            lambda: create_segment(n_ranks, settings.staging_bytes, settings.symmetric_bytes)
        ),
        runtime_dir=settings.runtime_dir,
        timeout_s=settings.timeout_s,
    )
    selector = Selector(parse_table(met.table_text, "the table of rank 0"))

    def config_for(collective: Collective, message_bytes: int, dtype: DType, op: ReduceOp, memory: Memory) -> Config:
        return selector.select(
            collective,
            message_bytes=message_bytes,
            n_ranks=n_ranks,
            dtype=dtype,
            op=op,
            memory=memory,
            max_error=max_error,
        ).config

    try:
        return Communicator(
            met.fd,
            rank,
            n_ranks,
            selector=config_for,
            cores=met.n_cores,
            timeout_s=settings.timeout_s,
            check=settings.check,
            room_bytes=memory_left,
        )
    finally:
        os.close(met.fd)


def _several_hosts(n_ranks: int, settings: Settings) -> bool:
    """Whether a launcher says that the whole job is asked for, and is on more than this host."""
    return n_ranks == settings.n_ranks and settings.n_local_ranks is not None and settings.n_local_ranks < n_ranks


def _identity(rank: int | None, n_ranks: int | None, settings: Settings) -> tuple[int, int]:
    rank = settings.rank if rank is None else rank
    n_ranks = settings.n_ranks if n_ranks is None else n_ranks
    if rank is None or n_ranks is None:
        missing = "rank" if rank is None else "n_ranks"
        raise UsageError(
            f"{missing} is not given, and {'RANK' if rank is None else 'WORLD_SIZE'} is not set",
            remedy="call communicator(rank, n_ranks), or start the ranks with torchrun",
        )
    return rank, n_ranks
