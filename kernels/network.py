"""The connections of a group over several hosts: where UCX is, and who stands where.

In:  what the ranks agreed on (autotune.runtime.hosts). Out: a `Hosts`, which a Communicator takes.
May not touch: stores, environment, secrets; it gets their results. UCX is loaded in `connection`, not before.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from . import _native

SYSTEM_LIBRARY = "libucp.so.0"
WHEEL = "libucx"
"""The module of the PyPI wheel libucx-cu12, which the extra `ucx` installs; it needs no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Where the ranks of a group are.

    Args:
        network: this rank's connections.
        host_of: by rank, the number of its host.
        host_names: by host, for people.
        n_neighbours: ranks that share this rank's cores: all on its machine, whose containers may be several hosts.
    """

    network: _native.Network
    host_of: tuple[int, ...]
    host_names: tuple[str, ...]
    n_neighbours: int

    def transports(self) -> dict[int, tuple[str, ...]]:
        """By rank of another host, what reaches it, such as ``tcp/eth0``."""
        mine = self.host_of[self.network.rank]
        return {rank: tuple(self.network.transports(rank)) for rank, host in enumerate(self.host_of) if host != mine}


def libraries() -> list[str]:
    """Where libucp may be, the system's first: it is the one that knows the system's InfiniBand or RoCE."""
    found = [SYSTEM_LIBRARY]
    spec = importlib.util.find_spec(WHEEL)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found.append(str(Path(folder) / "lib" / SYSTEM_LIBRARY))
    return found


def connection(rank: int, n_ranks: int, devices: str = "") -> _native.Network:
    """A rank's end of the network, not yet connected.

    Args:
        devices: as UCX_NET_DEVICES; empty for what that says, else all but the loopback.

    Raises:
        CommunicatorError: there is no usable UCX, or it cannot use these devices.
    """
    return _native.Network(libraries(), devices, rank, n_ranks)
