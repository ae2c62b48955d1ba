"""The least time that any schedule needs on a fabric: what must leave some part of it, over what can.

In:  a fabric, groups, a collective and a size. Out: microseconds. May not touch: schedules, latencies. numpy only.

A fabric is cut into like parts: ranks, groups, hosts, the hosts below a switch. Of h parts, a part must on average give
out (or take in) a share of the message that follows from the collective alone; time is at least that over what all the
part's ways out carry together. The largest of these bounds is the fabric's own, and a schedule that reaches it uses all
of its theoretical bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..types import Collective
from .fabric import Fabric, IntArray
from .sharing import classes_of, fair_rates


def least_us(
    fabric: Fabric, groups: Sequence[Sequence[int]], collective: Collective, message_bytes: int
) -> float | None:
    """The largest bound; None for one rank, where nothing has to move.

    Args:
        groups: ranks with fast links between them, as in a layout.
    """
    bounds = []
    for n_parts, gb_per_s in _cuts(fabric, groups):
        messages = _crossing(collective, n_parts, fabric.n_ranks // n_parts)
        bounds.append(messages * message_bytes / (gb_per_s * 1e3))
    return max(bounds, default=None)


def _crossing(collective: Collective, n_parts: int, n_ranks: int) -> float:
    """Messages that leave or enter one of so many parts, of so many ranks each; whichever is less avoidable."""
    others = (n_parts - 1) / n_parts
    match collective:
        case Collective.ALL_REDUCE:
            return 2 * others
        case Collective.BROADCAST | Collective.REDUCE:
            return 1.0
        case Collective.ALL_TO_ALL:
            return n_ranks * others
        case _:
            return others


def _cuts(fabric: Fabric, groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, float]]:
    """(number of parts, GB/s out of the narrowest) of every way to cut the fabric into like parts."""
    g = fabric.host.n_ranks
    if fabric.n_ranks > 1:
        yield fabric.n_ranks, min(_out_of(fabric, np.array([rank], np.int32)) for rank in range(g))
    sizes = {len(group) for group in groups}
    if fabric.n_hosts == 1:
        if len(groups) > 1 and len(sizes) == 1:
            yield len(groups), min(_out_of(fabric, np.array(group, np.int32)) for group in groups)
        return
    yield fabric.n_hosts, _out_of(fabric, np.arange(g, dtype=np.int32))
    for network in fabric.networks:
        for tier in network.tiers:
            if network.hosts >= fabric.n_hosts > tier.hosts and len(fabric.networks) == 1:
                yield -(-fabric.n_hosts // tier.hosts), tier.uplink_gb_per_s


def _out_of(fabric: Fabric, part: IntArray) -> float:
    """GB/s that some ranks of the first host send out together: each to every other rank there, and to another host."""
    g = fabric.host.n_ranks
    outside = np.setdiff1d(np.arange(g, dtype=np.int32), part)
    src, dst = (np.ravel(grid) for grid in np.meshgrid(part, outside, indexing="ij"))
    if fabric.n_hosts > 1:
        src = np.concatenate([src, part])
        dst = np.concatenate([dst, part + np.int32(g)])
    resources = fabric.routes(src, dst).resources
    classes = classes_of(np.ones(len(src)), resources, fabric.capacities())
    return float(fair_rates(classes.crossed, classes.capacity)[classes.of_flow].sum())
