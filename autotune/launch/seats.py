"""Where ranks sit: which of the launched ranks make a smaller group, and which core each is pinned to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import UsageError

Hosts = Sequence[Sequence[int]]
"""The launched ranks of each host, hosts in the order of their first ranks."""


def rank_counts(hosts: Hosts) -> tuple[int, ...]:
    """What is worth measuring unless told: the ranks of a host, one rank on each host, and all."""
    sizes = [len(host) for host in hosts]
    return tuple(sorted({max(sizes), len(hosts), sum(sizes)} - {1}))


def placements(hosts: Hosts, n_ranks: int) -> tuple[tuple[int, ...], ...]:
    """So many ranks on as few hosts as can be, and spread over all hosts; one where that is the same. Each ascending.

    Raises:
        UsageError: the launcher started fewer.
    """
    sizes = sorted((len(host) for host in hosts), reverse=True)
    if n_ranks > sum(sizes):
        raise UsageError(
            f"{n_ranks} ranks are asked for, and the launcher started {sum(sizes)}",
            remedy=f"give --ranks up to {sum(sizes)}, or start more with the launcher",
        )
    packed, left = [], n_ranks
    for size in sizes:
        packed.append(min(size, left))
        left -= packed[-1]
    spread = [0] * len(sizes)
    while sum(spread) < n_ranks:
        at = min((i for i, size in enumerate(sizes) if spread[i] < size), key=spread.__getitem__)
        spread[at] += 1
    return tuple(dict.fromkeys(tuple(sorted(filter(None, counts))) for counts in (packed, spread)))


def members_of(hosts: Hosts, placement: Sequence[int]) -> tuple[int, ...]:
    """The launched ranks of a group, ascending: the first ones of each host, the most on the hosts that have the most.

    Raises:
        UsageError: the hosts do not have so many.
    """
    by_size = sorted(hosts, key=len, reverse=True)
    counts = sorted(placement, reverse=True)
    if len(counts) > len(by_size) or any(n > len(host) for n, host in zip(counts, by_size, strict=False)):
        raise UsageError(
            f"ranks placed as {'+'.join(map(str, placement))} are asked for, and the launcher started "
            f"{'+'.join(str(len(host)) for host in hosts)}",
            remedy="start as many ranks on as many hosts with the launcher",
        )
    return tuple(sorted(rank for n, host in zip(counts, by_size, strict=False) for rank in sorted(host)[:n]))


def pinned(cores: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """The core of each rank of a host: the first of those the launcher lets it use that no rank before it has.

    Args:
        cores: by rank, in the order in which ranks are to be pinned; where all are taken, ranks go round them.
    """
    taken: dict[int, int] = {}
    for place, rank in enumerate(sorted(cores)):
        own = cores[rank]
        free = [core for core in own if core not in taken.values()]
        taken[rank] = free[0] if free else own[place % len(own)]
    return taken
