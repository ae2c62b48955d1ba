"""algbw and busbw, in GB/s (1e9 bytes per second), as nccl-tests reports them. Standard library only.

Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md (all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all);
scatter and gather, which that page leaves out, after src/scatter.cu and src/gather.cu.
"""

from __future__ import annotations

from ..types import Collective


def algbw_gb_per_s(message_bytes: int, time_us: float) -> float:
    """Algorithm bandwidth: the message's size over the time of a call."""
    return message_bytes / time_us / 1e3


def busbw_factor(collective: Collective, n_ranks: int) -> float:
    """What to multiply algbw by, to get the traffic of the busiest link whatever the number of ranks; 0 for one rank
    where nothing has to move."""
    match collective:
        case Collective.BROADCAST | Collective.REDUCE:
            return 1.0
        case Collective.ALL_REDUCE:
            return 2 * (n_ranks - 1) / n_ranks
        case _:
            return (n_ranks - 1) / n_ranks


def busbw_gb_per_s(collective: Collective, n_ranks: int, message_bytes: int, time_us: float) -> float:
    """Bus bandwidth: comparable with the bandwidth of the hardware."""
    return algbw_gb_per_s(message_bytes, time_us) * busbw_factor(collective, n_ranks)
