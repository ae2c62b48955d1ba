"""What the network between hosts would be made of, and is made of in a group: for `doctor` and for people.

In:  AUTOTUNE_NETWORK, AUTOTUNE_NET_DEVICES; a group that has been made. Out: what carries messages, UCX's library and
version, interfaces, transports by pair.
May not touch: connections. UCX is loaded in the function.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import AutotuneError
from ..types import Config
from .interfaces import chosen_carrier, chosen_devices, devices

if TYPE_CHECKING:
    from ..kernels import Communicator

_EXCHANGE = Config(algorithm="ring", segment_bytes=65536)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """What this host has for groups over several hosts.

    Args:
        carrier: ``sockets`` or ``ucx``; None where neither can be used.
        library: path of libucp; None where it is not used.
        version: UCX's, such as ``1.18.0``.
        devices: interfaces that AUTOTUNE_NET_DEVICES may name.
        problem: why ranks of this host cannot take part; None if they can.
    """

    carrier: str | None
    library: str | None
    version: str | None
    devices: tuple[str, ...]
    problem: AutotuneError | None = None


def network_facts(setting: str, net_devices: str | None) -> NetworkFacts:
    """This host's.

    Args:
        setting: AUTOTUNE_NETWORK.
        net_devices: AUTOTUNE_NET_DEVICES; None if it is not set.
    """
    from ..kernels.network import connection

    there = devices()
    try:
        chosen = chosen_devices(net_devices)
        network = connection(0, 1, chosen, chosen_carrier(setting, chosen))
    except AutotuneError as err:
        return NetworkFacts(carrier=None, library=None, version=None, devices=there, problem=err)
    return NetworkFacts(
        carrier=network.name, library=network.library or None, version=network.version or None, devices=there
    )


def pair_transports(comm: Communicator) -> dict[tuple[int, int], tuple[str, ...]]:
    """What carries each pair's messages, by (lower, higher rank); every rank of the group calls it.

    ``shared memory`` inside a host; else what `Hosts.transports` says, seen from the lower rank.
    """
    mine = {} if comm.hosts is None else comm.hosts.transports()
    listed = [list(mine.get(other, ("shared memory",))) for other in range(comm.n_ranks)]
    text = json.dumps(listed).encode()
    size = max(_everyones(comm, len(text).to_bytes(8, "little"), 8, lambda part: int.from_bytes(part, "little")))
    rows = _everyones(comm, text.ljust(size), size, json.loads)
    return {(low, high): tuple(rows[low][high]) for low in range(comm.n_ranks) for high in range(low + 1, comm.n_ranks)}


def _everyones(comm: Communicator, mine: bytes, size: int, read: Callable[[bytes], Any]) -> list[Any]:
    """All ranks' notes of one size, in the order of ranks."""
    together = bytearray(size * comm.n_ranks)
    comm.all_gather(bytearray(mine), together, dtype="uint8", config=_EXCHANGE)
    return [read(bytes(together[rank * size : (rank + 1) * size])) for rank in range(comm.n_ranks)]
