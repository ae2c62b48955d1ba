"""Schedules as programs of the native executor, and which algorithms there are for what.

In:  a collective, a route, where ranks are. Out: native `Program` objects; names of algorithms.
May not touch: sizes but for how they are cut, buffers, other ranks, the table that configs come from.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..errors import UsageError
from ..types import Collective, DType, Layout
from . import _native
from .compiler import compile_program
from .knobs import SLICES_IN_FLIGHT
from .schedules.ir import Transfer
from .schedules.registry import build, names
from .schedules.wire import codec_legality
from .shared_cores import FOR_SHARED_CORES
from .zero_copy import NotZeroCopy, compile_single_copy, compile_zero_copy

DTYPE_NUMBER = {dtype: number for number, dtype in enumerate(DType)}


@dataclass(frozen=True, slots=True)
class Route:
    """What, besides a collective and its root, decides a program.

    Args:
        exchange: one of `EXCHANGES`.
        in_place: whether input and output are one buffer; only zero-copy programs differ by it.
        lossy: whether messages are encoded, by whichever codec.
        cores: by rank, the core that it runs on, for an algorithm over groups of ranks that share one; () for others.
    """

    algorithm: str
    exchange: str = "staged"
    in_place: bool = False
    lossy: bool = False
    cores: tuple[int, ...] = ()


def load_program(
    collective: Collective,
    route: Route,
    n_ranks: int,
    rank: int,
    root: int,
    host_of: tuple[int, ...] | None = None,
    last_hosts: tuple[int, ...] = (),
) -> _native.Program:
    """Build, compile and load, in the order that `layout_of` gives.

    Args:
        host_of: by rank, the number of its host; None where all share one. Ranks of one host then follow each other.
        last_hosts: as of `layout_of`.

    Raises:
        UsageError: no such algorithm, or not for this collective, number of ranks, exchange or lossy codecs.
    """
    layout = layout_of(n_ranks, root if collective.has_root else None, route.cores or host_of, last_hosts)
    order = layout.order
    schedule = build(collective, route.algorithm, n_ranks, layout)
    if route.lossy and (objection := codec_legality(collective, schedule)):
        raise UsageError(
            f"{route.algorithm} cannot do {collective.value} over {n_ranks} ranks with a lossy codec: {objection}",
            remedy="use the codec none, or one of "
            f"{', '.join(lossy_names(collective, n_ranks, host_of)) or 'no others'}",
        )
    if route.exchange == "staged":
        program = compile_program(collective, schedule, rank, order, lossy=route.lossy, host_of=host_of)
        return _native.Program(program.flatten())
    try:
        if route.exchange == "zero_copy":
            programs = compile_zero_copy(collective, schedule, order, in_place=route.in_place)
        else:
            programs = compile_single_copy(collective, schedule, order)
    except NotZeroCopy as err:
        others = (zero_copy_names if route.exchange == "zero_copy" else single_copy_names)(collective, n_ranks)
        raise UsageError(
            f"{route.algorithm} cannot do {collective.value} over {n_ranks} ranks by {route.exchange.replace('_', ' ')}"
            f"{', in place' if route.in_place else ''}: {err}",
            remedy=f"use exchange=staged, or one of {', '.join(others) or 'no others'}",
        ) from None
    return _native.Program(programs[rank].flatten())


def layout_of(
    n_ranks: int, root: int | None, host_of: tuple[int, ...] | None = None, last_hosts: tuple[int, ...] = ()
) -> Layout:
    """Which rank stands at which position, the root first, and which share a host, or a core of the only one.

    Args:
        root: None where the collective has none; the order is that from rank 0 then.
        host_of: as of `load_program`, or the cores of a `Route`; the root's host comes first then, and each host's
            ranks follow each other.
        last_hosts: hosts whose links are slow. They end the order, but for a root's: the last position is the end of a
            chain and a leaf of a tree, which sends and receives each byte once.
    """
    ranks = [(position + (root or 0)) % n_ranks for position in range(n_ranks)]
    if host_of is None:
        return Layout(order=tuple(ranks))
    hosts: dict[int, list[int]] = {}
    for rank in ranks:
        hosts.setdefault(host_of[rank], []).append(rank)
    first = None if root is None else host_of[root]
    late = {host: place for place, host in enumerate(last_hosts, 1)}
    sequence = sorted(hosts, key=lambda host: (host != first, late.get(host, 0)))
    groups = tuple(tuple(hosts[host]) for host in sequence)
    return Layout(order=tuple(rank for group in groups for rank in group), groups=groups)


def host_numbers(placement: Sequence[int]) -> tuple[int, ...] | None:
    """(2, 2) -> (0, 0, 1, 1), the host of each rank; None on one host."""
    if len(placement) < 2:
        return None
    return tuple(host for host, size in enumerate(placement) for _ in range(size))


@lru_cache(maxsize=256)
def zero_copy_names(collective: Collective, n_ranks: int, keep: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Algorithms that run over symmetric memory whether a call is in place or not, one of those that do the same.

    Args:
        keep: as of `distinct_names`.
    """
    distinct = distinct_names(collective, n_ranks, keep)
    return tuple(name for name in distinct if _runs_zero_copy(collective, name, n_ranks))


@lru_cache(maxsize=256)
def single_copy_names(collective: Collective, n_ranks: int, keep: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Algorithms whose ranks can read each other's private buffers, one of those that do the same.

    Args:
        keep: as of `distinct_names`.
    """
    distinct = distinct_names(collective, n_ranks, keep)
    return tuple(name for name in distinct if n_ranks > 1 and _runs_single_copy(collective, name, n_ranks))


@lru_cache(maxsize=256)
def lossy_names(collective: Collective, n_ranks: int, host_of: tuple[int, ...] | None = None) -> tuple[str, ...]:
    """Algorithms that give all ranks the same bits with a lossy codec too, one of those that do the same.

    Args:
        host_of: as of `load_program`.
    """
    layout = layout_of(n_ranks, 0, host_of)
    distinct = distinct_names(collective, n_ranks, host_of=host_of)
    return tuple(n for n in distinct if codec_legality(collective, build(collective, n, n_ranks, layout)) is None)


@lru_cache(maxsize=256)
def shared_core_names(collective: Collective, cores: tuple[int, ...], *, zero_copy: bool = False) -> tuple[str, ...]:
    """Algorithms for ranks that share cores, one of those that do the same.

    Args:
        cores: as of a `Route`; () has none.
        zero_copy: only those that run over symmetric memory whether a call is in place or not.
    """
    if not cores:
        return ()
    # Cores have different numbers of ranks, so it matters on which one the root is, but not which of its ranks it is.
    roots = {core: rank for rank, core in enumerate(cores)}.values() if collective.has_root else (None,)
    first, *others = (layout_of(len(cores), root, cores) for root in roots)
    chosen: dict[tuple[frozenset[Transfer], ...], str] = {}
    for name in filter(FOR_SHARED_CORES.__contains__, names(collective, len(cores), first)):
        if not zero_copy or all(_runs_zero_copy(collective, name, len(cores), each) for each in (first, *others)):
            chosen.setdefault(_steps(collective, name, len(cores), first), name)
    return tuple(chosen.values())


def _runs_zero_copy(collective: Collective, algorithm: str, n_ranks: int, layout: Layout | None = None) -> bool:
    schedule = build(collective, algorithm, n_ranks, layout)
    order = tuple(range(n_ranks)) if layout is None else layout.order
    try:
        for in_place in (False,) if collective is Collective.ALL_TO_ALL else (False, True):
            compile_zero_copy(collective, schedule, order, in_place=in_place)
    except NotZeroCopy:
        return False
    return True


def _runs_single_copy(collective: Collective, algorithm: str, n_ranks: int) -> bool:
    try:
        compile_single_copy(collective, build(collective, algorithm, n_ranks), tuple(range(n_ranks)))
    except NotZeroCopy:
        return False
    return True


def slices(
    collective: Collective,
    algorithm: str,
    n_ranks: int,
    message_bytes: int,
    dtype: DType,
    segment_bytes: int,
    staging_bytes: int,
    host_of: tuple[int, ...] | None = None,
    cores: tuple[int, ...] = (),
) -> int:
    """Into how many slices a message is cut: configs that differ in segment_bytes only and give one number are one.

    Args:
        host_of: as of `load_program`.
        cores: as of a `Route`.
    """
    program = load_program(collective, Route(algorithm, cores=cores), n_ranks, 0, 0, host_of)
    count = message_bytes // dtype.itemsize // (n_ranks if collective.splits_by_rank else 1)
    return program.slices(count, DTYPE_NUMBER[dtype], segment_bytes, staging_bytes, SLICES_IN_FLIGHT)


def distinct_names(
    collective: Collective, n_ranks: int, keep: Collection[str] = (), host_of: tuple[int, ...] | None = None
) -> tuple[str, ...]:
    """Legal algorithms, one of those that do the same: at 2 ranks ring, direct and nhr are one schedule.

    Args:
        keep: algorithms that stay in any case, and stand for their twins.
        host_of: as of `load_program`; hierarchical ones need several hosts.
    """
    layout = layout_of(n_ranks, 0, host_of)
    legal = names(collective, n_ranks, layout)
    chosen: dict[tuple[frozenset[Transfer], ...], str] = {}
    for name in (*(kept for kept in keep if kept in legal), *legal):
        chosen.setdefault(_steps(collective, name, n_ranks, layout), name)
    return tuple(name for name in legal if name in keep or name in chosen.values())


def _steps(collective: Collective, name: str, n_ranks: int, layout: Layout | None) -> tuple[frozenset[Transfer], ...]:
    return tuple(frozenset(step) for step in build(collective, name, n_ranks, layout).expand())
