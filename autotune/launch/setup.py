"""What the child of an agent on several hosts is told when it starts. Pure; standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..backends.rank_process import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A rank of a group on several hosts.

    Args:
        rank: in the group, as n_ranks counts its ranks.
        local_rank: on the host, among all launched ranks: the number of its device.
        core: to be pinned to.
        n_cores: that the group's ranks of this host have together.
        timeout_s: the longest wait inside a collective.
        store_address: of the job's TCPStore.
        group: a name that no other group of the job has.
        address: of this host, by which the others reach it; None where that is not known.
    """

    rank: int
    n_ranks: int
    local_rank: int
    core: int
    n_cores: int
    timeout_s: float
    store_address: str
    store_port: int
    group: str
    address: str | None

    def message(self) -> dict[str, Json]:
        """As it is sent."""
        return {name: getattr(self, name) for name in Setup.__slots__}


def read_setup(message: Mapping[str, Any]) -> Setup:  # Any: what JSON holds
    """A `Setup` that was sent."""
    return Setup(**message)
