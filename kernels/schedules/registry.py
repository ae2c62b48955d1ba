"""The algorithms by name: what each does, where it is legal, who published it.

In: a collective, a name, a number of positions and, for hierarchical, a layout. Out: schedules, and what they cost in
steps and bytes. A new algorithm is one entry here (and a file beside this one, if its pattern is new); it is then
checked, executed, priced, tuned and documented. Knows no executor, no topology and no byte.
"""

from __future__ import annotations

import difflib
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from ...errors import UsageError
from ...types import Collective, Layout
from . import bruck, chain, direct, doubling, flat, folded, hierarchical, nhr, owners, pairwise, ring, trees
from .algorithm import DENSE_LIMIT, Algorithm
from .hierarchical import Groups
from .ir import Schedule

_ALL = frozenset(Collective)
_THAKUR = "Thakur, Rabenseifner and Gropp 2005, Optimization of collective communication operations in MPICH"

ALGORITHMS: tuple[Algorithm, ...] = (
    Algorithm(
        name="ring",
        summary="neighbour to neighbour, every link busy all the time; fewest bytes, most steps",
        source="Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations",
        plain={
            Collective.ALL_REDUCE: ring.all_reduce,
            Collective.ALL_GATHER: ring.all_gather,
            Collective.REDUCE_SCATTER: ring.reduce_scatter,
            Collective.BROADCAST: ring.broadcast,
            Collective.REDUCE: lambda n: ring.broadcast(n).reversed(),
        },
    ),
    Algorithm(
        name="tree",
        summary="binomial tree: those who have the data double in every step",
        source=f"{_THAKUR}, on broadcast",
        plain={
            Collective.ALL_REDUCE: trees.all_reduce,
            Collective.BROADCAST: trees.broadcast,
            Collective.REDUCE: lambda n: trees.broadcast(n).reversed(),
            Collective.SCATTER: trees.scatter,
            Collective.GATHER: lambda n: trees.scatter(n).mirrored(),
        },
    ),
    Algorithm(
        name="double_tree",
        summary="two binary trees, half the buffer each; nobody is an inner node of both",
        source="Sanders, Speck and Traeff 2009, Two-tree algorithms for full bandwidth broadcast, reduction and scan",
        plain={
            Collective.ALL_REDUCE: trees.double_all_reduce,
            Collective.BROADCAST: trees.double_broadcast,
            Collective.REDUCE: lambda n: trees.double_broadcast(n).reversed(),
        },
    ),
    Algorithm(
        name="chain",
        summary="all ranks in a row, slices following each other",
        source="Pjesivac-Grbic et al. 2007, Performance analysis of MPI collective operations, pipeline",
        plain={
            Collective.ALL_REDUCE: chain.all_reduce,
            Collective.BROADCAST: chain.broadcast,
            Collective.REDUCE: lambda n: chain.broadcast(n).reversed(),
        },
    ),
    Algorithm(
        name="recursive_doubling",
        summary="partners at distance 1, 2, 4 ... exchange all they have; not a power of two: pairs are folded",
        source=f"{_THAKUR}, on allgather and allreduce",
        plain={Collective.ALL_REDUCE: doubling.all_reduce_whole, Collective.ALL_GATHER: doubling.all_gather},
    ),
    Algorithm(
        name="recursive_halving_doubling",
        summary="partners exchange halves, then quarters ..., and back; not a power of two: pairs are folded",
        source="Rabenseifner 2004, Optimization of collective reduction operations",
        plain={
            Collective.ALL_REDUCE: doubling.all_reduce_halves,
            Collective.REDUCE_SCATTER: lambda n: doubling.all_gather(n).reversed(),
            Collective.BROADCAST: doubling.broadcast,
            Collective.REDUCE: lambda n: doubling.broadcast(n).reversed(),
        },
    ),
    Algorithm(
        name="nhr",
        summary="log2 n steps and fewest bytes for any n; the largest messages go to the nearest rank",
        source="HCCL (CANN), algorithm NHR; all_gather also Loch and Koslovski 2021, Sparbit",
        plain={
            Collective.ALL_REDUCE: nhr.all_reduce,
            Collective.ALL_GATHER: nhr.all_gather,
            Collective.REDUCE_SCATTER: lambda n: nhr.all_gather(n).reversed(),
            Collective.BROADCAST: nhr.broadcast,
            Collective.REDUCE: lambda n: nhr.broadcast(n).reversed(),
        },
        dense=_ALL,
    ),
    Algorithm(
        name="bruck",
        summary="log2 n steps for any n; every message one range, the largest go farthest",
        source="Bruck et al. 1997, Efficient algorithms for all-to-all communications in multiport message-passing "
        "systems; all_reduce: Traeff 2024, Optimal, non-pipelined reduce-scatter and allreduce algorithms",
        plain={
            Collective.ALL_REDUCE: bruck.all_reduce,
            Collective.ALL_GATHER: bruck.all_gather,
            Collective.REDUCE_SCATTER: lambda n: bruck.all_gather(n).reversed(),
            Collective.ALL_TO_ALL: bruck.all_to_all,
        },
        dense=frozenset({Collective.ALL_TO_ALL}),
    ),
    Algorithm(
        name="direct",
        summary="every block straight from source to reader, all at once; fewest bytes in one or two steps",
        source="Cowan et al. 2023, MSCCLang, All Pairs; Shah et al. 2025, MSCCL++, two-phase all-pairs",
        plain={
            Collective.ALL_REDUCE: direct.all_reduce,
            Collective.ALL_GATHER: direct.all_gather,
            Collective.REDUCE_SCATTER: lambda n: direct.all_gather(n).reversed(),
            Collective.BROADCAST: direct.broadcast,
            Collective.REDUCE: direct.reduce,
            Collective.ALL_TO_ALL: direct.all_to_all,
        },
        dense=_ALL,
    ),
    Algorithm(
        name="flat",
        summary="one step: everybody reads whole what it wants; for the smallest messages",
        source="Pjesivac-Grbic et al. 2007, flat tree; all_reduce: Shah et al. 2025, MSCCL++, one-phase all-pairs",
        plain={
            Collective.ALL_REDUCE: flat.all_reduce,
            Collective.BROADCAST: flat.broadcast,
            Collective.REDUCE: lambda n: flat.broadcast(n).reversed(),
            Collective.SCATTER: flat.scatter,
            Collective.GATHER: lambda n: flat.scatter(n).mirrored(),
        },
        dense=frozenset({Collective.ALL_REDUCE}),
    ),
    Algorithm(
        name="pairwise",
        summary="n - 1 permutations; never two messages to one rank at once",
        source=f"{_THAKUR}, on all-to-all",
        plain={Collective.ALL_TO_ALL: pairwise.all_to_all},
        dense=_ALL,
    ),
    Algorithm(
        name="hierarchical",
        summary="inside groups with fast links, then between them: each byte over the slow links once",
        source="Cho et al. 2019, BlueConnect; leaders: Karonis et al. 2000; all_to_all: Hwang et al. 2023, Tutel, 2DH",
        grouped={
            Collective.ALL_REDUCE: hierarchical.all_reduce,
            Collective.ALL_GATHER: hierarchical.all_gather,
            Collective.REDUCE_SCATTER: lambda groups: hierarchical.all_gather(groups).reversed(),
            Collective.BROADCAST: hierarchical.broadcast,
            Collective.REDUCE: lambda groups: hierarchical.broadcast(groups).reversed(),
            Collective.ALL_TO_ALL: hierarchical.all_to_all,
        },
        dense=frozenset({Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL}),
        equal_groups=frozenset({Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL}),
    ),
    *(
        Algorithm(
            name=f"hierarchical_{name}",
            summary=f"hierarchical, with {words} between the groups",
            source="Cho et al. 2019, BlueConnect",
            grouped={Collective.ALL_REDUCE: partial(hierarchical.all_reduce, between=between)},
            dense=frozenset({Collective.ALL_REDUCE}) if name == "nhr" else frozenset(),
        )
        for name, between, words in (
            ("ring", ring.all_reduce, "a ring"),
            ("halving_doubling", doubling.all_reduce_halves, "recursive halving and doubling"),
            ("double_tree", trees.double_all_reduce, "two trees"),
            ("nhr", nhr.all_reduce, "nhr"),
        )
    ),
    Algorithm(
        name="leaders",
        summary="one rank of each group collects, talks to the others' and hands out: fewest messages between groups",
        source="Karonis et al. 2000, Exploiting hierarchy in parallel computer networks",
        grouped={
            Collective.ALL_REDUCE: partial(hierarchical.all_reduce, n_leaders=1),
            Collective.ALL_GATHER: hierarchical.all_gather_by_leaders,
            Collective.REDUCE_SCATTER: lambda groups: hierarchical.all_gather_by_leaders(groups).reversed(),
            Collective.BROADCAST: hierarchical.broadcast_by_leaders,
            Collective.REDUCE: lambda groups: hierarchical.broadcast_by_leaders(groups).reversed(),
        },
        dense=frozenset({Collective.ALL_GATHER, Collective.REDUCE_SCATTER}),
    ),
    *(
        Algorithm(
            name=f"{word}_leaders",
            summary=f"{word} ranks of each group do so, for hosts with {word} interfaces",
            source="Karonis et al. 2000, Exploiting hierarchy in parallel computer networks",
            grouped={Collective.ALL_REDUCE: partial(hierarchical.all_reduce, n_leaders=number)},
        )
        for word, number in (("two", 2), ("four", 4), ("eight", 8))
    ),
    Algorithm(
        name="folded_leaders",
        summary="leaders fold onto each other until two exchange: fewest messages between groups, for small ones",
        source="Rabenseifner 2004, Optimization of collective reduction operations, on folding",
        grouped={
            Collective.ALL_REDUCE: folded.all_reduce_by_leaders,
            Collective.ALL_GATHER: folded.all_gather_by_leaders,
        },
        dense=frozenset({Collective.ALL_GATHER}),
        groups_of_one=True,
    ),
    Algorithm(
        name="owners",
        summary="the first rank of each group owns a share, sums it up, shows it to all; for ranks that share cores",
        source="Karonis et al. 2000, Exploiting hierarchy in parallel computer networks; shares: Rabenseifner 2004",
        grouped={Collective.ALL_REDUCE: owners.all_reduce},
        dense=frozenset({Collective.ALL_REDUCE}),
    ),
)

_BY_NAME = {algorithm.name: algorithm for algorithm in ALGORITHMS}


def names(collective: Collective, n: int, layout: Layout | None = None) -> tuple[str, ...]:
    """The algorithms that are legal, in the order of the registry.

    Raises:
        UsageError: n is below 1.
        ValueError: the layout is not one of n ranks, or its groups do not hold every rank once.
    """
    groups = _groups(n, layout)
    return tuple(a.name for a in ALGORITHMS if a.objection(collective, n, groups) is None)


def build(collective: Collective, name: str, n: int, layout: Layout | None = None) -> Schedule:
    """The schedule over positions 0 .. n-1; the root is position 0, and position p is rank ``layout.order[p]``.

    all_gather, reduce_scatter, scatter and gather have n blocks, all_to_all n * n; the others as many as suit them.

    Args:
        layout: needed for hierarchical only, which reads its groups.

    Raises:
        UsageError: the name is unknown, the algorithm does not do this collective, or it is not legal here.
        ValueError: as in ``names``.
    """
    groups = _groups(n, layout)
    if name not in _BY_NAME:
        nearest = difflib.get_close_matches(name, _BY_NAME, n=1)
        raise UsageError(
            f"algorithm {name!r} is not known",
            remedy=f"did you mean {nearest[0]!r}?" if nearest else f"use one of {', '.join(_BY_NAME)}",
        )
    objection = _BY_NAME[name].objection(collective, n, groups)
    if objection is not None:
        legal = names(collective, n, layout)
        raise UsageError(
            f"algorithm {name!r} cannot do {collective.value} over {n} ranks: {objection}",
            remedy=f"use one of {', '.join(legal)}" if legal else f"use {DENSE_LIMIT} ranks or fewer",
        )
    return _built(collective, name, n, groups if collective in _BY_NAME[name].grouped else ())


@lru_cache(maxsize=64)
def _built(collective: Collective, name: str, n: int, groups: Groups) -> Schedule:
    algorithm = _BY_NAME[name]
    return algorithm.grouped[collective](groups) if groups else algorithm.plain[collective](n)


def cost_figures(collective: Collective, name: str, n: int, layout: Layout | None = None) -> tuple[int, Fraction]:
    """(steps, bytes on the wire of the busiest rank, in messages), counted in the schedule.

    A rank's bytes are what it sends or what it receives, whichever is more, so that mirror images cost the same. The
    unit is message_bytes: the larger of a rank's input and output buffer.

    Raises:
        UsageError, ValueError: as ``build``.
    """
    schedule = build(collective, name, n, layout)
    busiest = np.zeros((2, n), np.int64)
    for step in schedule.steps:
        for way, positions in enumerate((step.src, step.dst)):
            busiest[way] += step.times * np.bincount(positions, step.count, n).astype(np.int64)
    messages_in_all_blocks = n if collective is Collective.ALL_TO_ALL else 1
    return schedule.n_steps, Fraction(int(busiest.max()) * messages_in_all_blocks, schedule.blocks)


def _groups(n: int, layout: Layout | None) -> Groups:
    """The layout's groups as positions, in the order that ``hierarchical`` asks for."""
    if n < 1:
        raise UsageError(f"{n} ranks cannot run a collective", remedy="use 1 rank or more")
    if layout is None:
        return ()
    position = {rank: p for p, rank in enumerate(layout.order)}
    members = [rank for group in layout.groups for rank in group]
    if len(layout.order) != n or (members and sorted(members) != list(range(n))):
        raise ValueError(f"a layout of {len(layout.order)} ranks, {len(members)} of them in groups, is not one of {n}")
    return tuple(sorted(tuple(sorted(position[rank] for rank in group)) for group in layout.groups if group))
