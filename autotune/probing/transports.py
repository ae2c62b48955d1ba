"""What carries the messages of each pair of a job's ranks: asked of ranks that are connected for it.

In:  a job, settings. Out: kinds by pair. May not touch: the store, tables.
"""

from __future__ import annotations

from contextlib import closing

from ..backends.pooled import WATCHDOG_S
from ..launch import Job
from ..settings import Settings

Transports = dict[tuple[int, int], tuple[str, ...]]
"""By (lower, higher rank): ``shared memory``, ``sockets/eth0``, or as UCX names it, ``rc_mlx5/mlx5_0:1``."""


def job_transports(job: Job, settings: Settings) -> Transports:
    """Of all ranks of the job, by the native backend.

    Raises:
        BackendUnavailable: the ranks do not start, or do not reach each other; says which, and on which host.
        AgentLost: an agent ended.
    """
    placement = tuple(sorted(map(len, job.hosts)))
    started = job.start(
        placement,
        (),
        staging_bytes=settings.staging_bytes,
        timeout_s=settings.timeout_s,
        watchdog_s=WATCHDOG_S + settings.timeout_s,
    )
    with closing(started) as ranks:
        told = ranks.ask({"do": "transports"})[0]["pairs"]
    members = job.members(placement)
    assert isinstance(told, list)
    return {
        (members[int(str(pair[0]))], members[int(str(pair[1]))]): tuple(map(str, pair[2:]))
        for pair in told
        if isinstance(pair, list)
    }
