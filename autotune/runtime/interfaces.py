"""Which network interfaces this process could use, and what AUTOTUNE_NET_DEVICES makes of them. Standard library only.

In:  the network namespace that the process is in, and /sys for InfiniBand and RoCE. Out: names as UCX has them.
May not touch: UCX; who uses the names opens it.
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


def chosen_devices(setting: str | None) -> str:
    """The names, without blanks; empty for what UCX_NET_DEVICES says, else all but the loopback.

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
