"""Ranks of several hosts become one group: they meet on a key-value store, connect, and meet again on each host.

In:  a store that all ranks reach, a rank. Out: a Communicator over all of them, or one error that all ranks raise.
May not touch: how ranks were started, the environment (settings reads it). The kernels load in the function.

1. Every rank writes a signed note: who and where it is, its address, what must agree, or why it cannot take part.
2. Rank 0 reads all, compares, and answers all with the table and everybody's note, or with the error.
3. Every rank connects to the ranks of other hosts, meets those of its own (rendezvous.py), and says how that went;
   rank 0 answers again. So whatever keeps one rank from joining is an error on all.
4. What comes first on each connection proves the secret; until then a peer does not count (kernels/csrc/network.h).

What stays open: notes and packets are authenticated, not encrypted. Who can read the network can read the data and the
8 bytes with which later packets are told from strangers'; who can read the store can read a secret that is told on it
(AUTOTUNE_SECRET keeps it off the store). Sockets take the first connection that proves the secret, and listen no longer
than until all are connected; UCX's own listeners take connections from anybody, at any time.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from typing import TYPE_CHECKING

from .. import __version__
from ..errors import AutotuneError, UsageError
from ..settings import Settings, read
from ..table import TuningTable, parse_table
from ..topology.host_rates import kept_rate, late_hosts
from ..types import Collective, Config, DType, Memory, ReduceOp
from .arguments import error_budget
from .board import Board, KeyValueStore
from .brought import BroughtTable, brought_table
from .host_meeting import excuse, meet_on_board, note_of, ready_together
from .interfaces import chosen_carrier, chosen_devices, rails, turned
from .rendezvous import meet
from .selector import Selector
from .whereabouts import host_numbers, whereabouts

if TYPE_CHECKING:
    from ..kernels import Communicator
    from ..kernels.network import Hosts

__all__ = ["KeyValueStore", "join_hosts"]

_TOKEN_BYTES = 8
_log = logging.getLogger(__name__)
_groups: Counter[str] = Counter()  # made by this process, by name: keys of a store are not used twice


def join_hosts(
    store: KeyValueStore,
    rank: int,
    n_ranks: int,
    *,
    group: str = "default",
    table: TuningTable | str | os.PathLike[str] | None = None,
    max_error: float | None = None,
    timeout_s: float | None = None,
    settings: Settings | None = None,
) -> Communicator:
    """Make one group of ranks on several hosts; every rank calls it.

    Args:
        store: reached by all ranks, such as torch.distributed.TCPStore. What it holds afterwards may stay.
        group: groups of one store that were not made by all of the same processes have different names.
        table: as for ``select``. Rank 0's table is the group's.
        max_error: as for ``select``, for all calls; None keeps them lossless.
        timeout_s: the longest wait for another rank, here and in calls; None for AUTOTUNE_TIMEOUT.
        settings: None for the environment's.

    Raises:
        UsageError: a rank that is not one of the group; an error budget that is none.
        CommunicatorError: a rank is missing, differs, cannot use the network, or does not know the run's secret. The
            same on all ranks that can be told.
    """
    from ..kernels import network as networks

    settings = read() if settings is None else settings
    timeout_s = settings.timeout_s if timeout_s is None else timeout_s
    max_error = None if max_error is None else error_budget(max_error)
    if not 0 <= rank < n_ranks:
        raise UsageError(f"rank {rank} is not in a group of {n_ranks}", remedy=f"give ranks from 0 to {n_ranks - 1}")
    _groups[group] += 1
    board = Board(store, f"autotune/{group}/{_groups[group]}", deadline_s=time.monotonic() + timeout_s)
    board.agree_on_secret(settings.secret, first=rank == 0)
    place = whereabouts(settings.runtime_dir)
    mine = brought_table(rank, settings, table)
    agree = _must_agree(settings, mine, max_error)
    network = None
    try:
        if mine.failure is not None:
            raise mine.failure
        devices = chosen_devices(settings.net_devices)
        network = networks.connection(rank, n_ranks, devices, chosen_carrier(settings.network, devices))
        agree["AUTOTUNE_NETWORK"] = network.name
        place_on_host = rank if settings.local_rank is None else settings.local_rank
        address = (
            turned(network.address, rails(devices), place_on_host) if network.name == "sockets" else network.address
        )
        note = note_of(rank, n_ranks, place, agree, address, kept_rate(settings.cache_dir, place.host))
    except AutotuneError as err:
        note = excuse(err, place)
    met = meet_on_board(board, rank, n_ranks, note, agree, mine.text, timeout_s)
    assert network is not None, "rank 0 accepted a rank without a network"
    host_of, names = host_numbers([p.host for p in met.places], [p.name for p in met.places])
    fd = -1
    try:
        try:
            network.connect(list(host_of), list(names), met.addresses, *_greetings(board, met.run, rank, n_ranks))
            networks.meet(network, timeout_s)
            if network.refused:
                strangers = f"{network.refused} connections were closed that did not prove the run's secret"
                _log.warning("rank %d: %s, the last from %s", rank, strangers, network.last_refused)
            fd = _segment(met.run, rank, host_of, settings, timeout_s)
            note = {"rank": rank}
        except AutotuneError as err:
            note = excuse(err, place)
        ready_together(board, rank, n_ranks, note, timeout_s)
        same_machine = [p for p in met.places if p.machine == place.machine]
        rates = [met.rates_gb_per_s[host_of.index(host)] for host in range(len(names))]
        hosts = networks.Hosts(
            network=network,
            host_of=host_of,
            host_names=names,
            n_neighbours=len(same_machine),
            last_hosts=tuple(late_hosts(rates)),
        )
        n_cores = len({core for p in same_machine for core in p.cores})
        return _communicator(fd, rank, n_ranks, hosts, n_cores, met.table_text, max_error, settings, timeout_s)
    finally:
        if fd >= 0:
            os.close(fd)


def _must_agree(settings: Settings, table: BroughtTable, max_error: float | None) -> dict[str, str]:
    return {
        "autotune version": __version__,
        **table.must_agree,
        "AUTOTUNE_STAGING": str(settings.staging_bytes),
        "AUTOTUNE_CHECK": str(int(settings.check)),
        "max_error": str(max_error),
    }


def _greetings(board: Board, run: str, rank: int, n_ranks: int) -> tuple[list[bytes], list[bytes]]:
    """By rank, what this rank says first on a connection, and what it has to hear."""

    def greeting(sender: int, receiver: int) -> bytes:
        way = f"{run}\n{sender}\n{receiver}"
        return board.sign(f"greeting\n{way}") + board.sign(f"token\n{way}")[:_TOKEN_BYTES]

    return [greeting(rank, other) for other in range(n_ranks)], [greeting(other, rank) for other in range(n_ranks)]


def _segment(run: str, rank: int, host_of: tuple[int, ...], settings: Settings, timeout_s: float) -> int:
    """The segment of this host's ranks, which has room for all."""
    from ..kernels import create_segment

    ours = [other for other, host in enumerate(host_of) if host == host_of[rank]]

    def create() -> int:
        return create_segment(len(host_of), settings.staging_bytes, 0)

    if len(ours) == 1:
        return create()
    return meet(
        f"{run}.{host_of[rank]}",
        ours.index(rank),
        len(ours),
        must_agree={},
        cores=(),
        table_text="",
        create=create,
        runtime_dir=settings.runtime_dir,
        timeout_s=timeout_s,
    ).fd


def _communicator(
    fd: int,
    rank: int,
    n_ranks: int,
    hosts: Hosts,
    n_cores: int,
    table_text: str,
    max_error: float | None,
    settings: Settings,
    timeout_s: float,
) -> Communicator:
    from ..kernels import Communicator
    from ..topology.memory_left import memory_left

    selector = Selector(parse_table(table_text, "the table of rank 0"))
    placement = tuple(sorted(Counter(hosts.host_of).values()))

    def config_for(collective: Collective, message_bytes: int, dtype: DType, op: ReduceOp, memory: Memory) -> Config:
        return selector.select(
            collective,
            message_bytes=message_bytes,
            n_ranks=n_ranks,
            dtype=dtype,
            op=op,
            placement=placement,
            memory=memory,
            max_error=max_error,
        ).config

    return Communicator(
        fd,
        rank,
        n_ranks,
        selector=config_for,
        cores=n_cores,
        timeout_s=timeout_s,
        check=settings.check,
        room_bytes=memory_left,
        hosts=hosts,
    )
