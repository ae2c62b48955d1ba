"""Which network interfaces this process could use, and what AUTOTUNE_NET_DEVICES and AUTOTUNE_NETWORK make of them.

In:  the network namespace that the process is in, and /sys for InfiniBand and RoCE. Out: names as UCX has them.
May not touch: UCX, sockets; who uses the names opens them. Standard library only.
"""

from __future__ import annotations

import socket
from pathlib import Path

from ..errors import UsageError

LOOPBACK = "lo"
_INFINIBAND = Path("/sys/class/infiniband")


def devices() -> tuple[str, ...]:
    """Names that AUTOTUNE_NET_DEVICES may list: network interfaces but the loopback, and ``adapter:port``."""
    names = [name for _, name in socket.if_nameindex() if name != LOOPBACK]
    ports = _INFINIBAND.glob("*/ports/*") if _INFINIBAND.is_dir() else ()
    return (*names, *sorted(f"{port.parent.parent.name}:{port.name}" for port in ports))


def active_adapters() -> tuple[str, ...]:
    """``adapter:port`` of every InfiniBand or RoCE port that has a link."""
    states = sorted(_INFINIBAND.glob("*/ports/*/state")) if _INFINIBAND.is_dir() else []
    active = [state.parent for state in states if "ACTIVE" in state.read_text()]
    return tuple(f"{port.parent.parent.name}:{port.name}" for port in active)


def chosen_carrier(setting: str, chosen: str) -> str:
    """``ucx`` or ``sockets``: what carries messages to ranks of other hosts.

    Args:
        setting: AUTOTUNE_NETWORK.
        chosen: what `chosen_devices` returned.

    Raises:
        UsageError: sockets, over what is no network interface.
    """
    names = chosen.split(",") if chosen else []
    adapters = [name for name in names if ":" in name]
    if setting == "sockets" and adapters:
        raise UsageError(
            f"AUTOTUNE_NETWORK is sockets, and AUTOTUNE_NET_DEVICES names {adapters[0]}, which is no network interface",
            remedy="name network interfaces (ip -brief link), or set AUTOTUNE_NETWORK to ucx",
        )
    if setting != "auto":
        return setting
    return "ucx" if adapters or (not names and active_adapters()) else "sockets"


def chosen_devices(setting: str | None) -> str:
    """The names, without blanks; empty for all but the loopback (UCX: for what UCX_NET_DEVICES says, before).

    Args:
        setting: AUTOTUNE_NET_DEVICES, names with commas between them; None if it is not set.

    Raises:
        UsageError: a name that is not there; says which are.
    """
    if setting is None:
        return ""
    there = devices()
    names = [name.strip() for name in setting.split(",")]
    for name in names:
        if name not in there:
            raise UsageError(
                f"AUTOTUNE_NET_DEVICES names {name!r}, which {socket.gethostname()} does not have",
                remedy=f"set it to one or more of {', '.join(there)}" if there else "connect this host to a network",
            )
    return ",".join(names)
