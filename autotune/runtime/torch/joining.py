"""How a process group comes about: torch calls the creator, the ranks agree, and the communicator is made.

In:  torch's store, rank, size and time-out. Out: a `ProcessGroup`.
May not touch: collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist

from ..communicator import communicator
from ..hosts import join_hosts
from ..selector import Selector
from .agreement import Agreed, Store, agree

if TYPE_CHECKING:
    from ...kernels import Communicator
    from .process_group import ProcessGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """One rank's part of a group that has come together.

    Args:
        selector: over the group's table.
        channel: opens the channel from one rank to another, as its end 0 or 1.
        store: the group's alone.
        checks: AUTOTUNE_CHECK.
    """

    rank: int
    n_ranks: int
    communicator: Communicator
    selector: Selector
    channel: Callable[[int, int, int], Communicator]
    store: Store
    checks: bool


def create(store: Store, rank: int, n_ranks: int, timeout: timedelta, members: Sequence[int] = ()) -> ProcessGroup:
    """What torch calls for every member of a new group.

    Args:
        members: their ranks in the job; none where it is the whole job.
        timeout: the longest wait for another rank, here and in calls.

    Raises:
        CommunicatorError: the ranks do not agree, or one is missing.
        AutotuneError: settings or the table cannot be used.
    """
    from .process_group import ProcessGroup

    own = dist.PrefixStore("mc2", store)
    agreed = agree(own, rank, n_ranks, backend="native", timeout=timeout, members=members)

    def channel(source: int, target: int, end: int) -> Communicator:
        hosts = [agreed.hosts[source], agreed.hosts[target]]
        return _open(own, end, hosts, f"{agreed.name}.{source}-{target}", agreed, timeout)

    return ProcessGroup(
        Joined(
            rank=rank,
            n_ranks=n_ranks,
            communicator=_open(own, rank, agreed.hosts, agreed.name, agreed, timeout),
            selector=Selector(agreed.table),
            channel=channel,
            store=own,
            checks=agreed.check,
        )
    )


def _open(store: Store, rank: int, hosts: Sequence[str], name: str, agreed: Agreed, timeout: timedelta) -> Communicator:
    """A communicator between ranks on these hosts."""
    seconds = timeout.total_seconds()
    if len(set(hosts)) == 1:
        return communicator(rank, len(hosts), group=name, table=agreed.table, timeout_s=seconds)
    return join_hosts(store, rank, len(hosts), group=name, table=agreed.table, timeout_s=seconds)
