"""The connections of a group over several hosts: what carries them, where UCX is, and who stands where.

In:  what the ranks agreed on (autotune.runtime.hosts). Out: a `Hosts`, which a Communicator takes.
May not touch: stores, environment, secrets; it gets their results. UCX is loaded in `connection`, not before.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import CommunicatorError
from . import _native

SYSTEM_LIBRARY = "libucp.so.0"
WHEEL = "libucx"
"""The module of the PyPI wheel libucx-cu12, which the extra `ucx` installs; it needs no GPU."""

_LOOK_EVERY_S = 0.1  # so soon Ctrl-C is heard


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Where the ranks of a group are.

    Args:
        network: this rank's connections.
        host_of: by rank, the number of its host.
        host_names: by host, for people.
        n_neighbours: ranks that share this rank's cores: all on its machine, whose containers may be several hosts.
        last_hosts: as of `calls.layout_of`; the same on all ranks.
    """

    network: _native.Network
    host_of: tuple[int, ...]
    host_names: tuple[str, ...]
    n_neighbours: int
    last_hosts: tuple[int, ...] = ()

    def transports(self) -> dict[int, tuple[str, ...]]:
        """By rank of another host, what reaches it: ``sockets/eth0``, or as UCX names it, ``rc_mlx5/mlx5_0:1``."""
        mine = self.host_of[self.network.rank]
        return {rank: tuple(self.network.transports(rank)) for rank, host in enumerate(self.host_of) if host != mine}


def libraries() -> list[str]:
    """Where libucp may be, the system's first: it is the one that knows the system's InfiniBand or RoCE."""
    found = [SYSTEM_LIBRARY]
    spec = importlib.util.find_spec(WHEEL)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found.append(str(Path(folder) / "lib" / SYSTEM_LIBRARY))
    return found


def connection(rank: int, n_ranks: int, devices: str = "", carrier: str = "sockets") -> _native.Network:
    """A rank's end of the network, not yet connected.

    Args:
        devices: names of interfaces with commas between them; empty for all but the loopback (UCX: for what
            UCX_NET_DEVICES says, before).
        carrier: ``sockets``, which need nothing but TCP, or ``ucx``.

    Raises:
        CommunicatorError: there is no usable UCX, or these devices cannot be used.
    """
    if carrier == "ucx":
        return _native.Network.ucx(libraries(), devices, rank, n_ranks)
    return _native.Network.sockets(devices, rank, n_ranks)


def meet(network: _native.Network, timeout_s: float) -> None:
    """Wait until a network is connected to all ranks of other hosts; after its `connect`.

    Raises:
        CommunicatorError: a rank is not reached in time; says which, on which host, and what was tried.
    """
    deadline = time.monotonic() + timeout_s
    while not network.meet(_LOOK_EVERY_S):
        if time.monotonic() < deadline:
            continue
        refused = f"; {network.refused} strangers were refused, the last from {network.last_refused}"
        raise CommunicatorError(
            f"{network.missing()}{refused if network.refused else ''} (within {timeout_s:g} s)",
            remedy="let the hosts reach each other by TCP, and choose interfaces with AUTOTUNE_NET_DEVICES",
        )
