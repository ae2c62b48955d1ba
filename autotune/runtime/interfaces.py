"""Which network interfaces this process could use, and what AUTOTUNE_NET_DEVICES and AUTOTUNE_NETWORK make of them.

In:  the network namespace that the process is in, and /sys for InfiniBand and RoCE. Out: names as UCX has them.
May not touch: UCX; who uses the names opens connections. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError

LOOPBACK = "lo"
_INFINIBAND = Path("/sys/class/infiniband")
_INTERFACES = Path("/sys/class/net")
_SIOCGIFADDR = 0x8915  # netdevice(7)


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


def rails(chosen: str) -> tuple[str, ...]:
    """The IPv4 addresses of the fastest interfaces that are up, where there are several of one rate; else none.

    Bridges are left out: they say the rate of whatever is plugged into them.

    Args:
        chosen: what `chosen_devices` returned.
    """
    names = chosen.split(",") if chosen else [name for name in devices() if ":" not in name]
    found: dict[int, list[str]] = {}
    for name in names:
        address, mbit = _address(name), _mbit(name)
        if address is not None and mbit is not None and not (_INTERFACES / name / "bridge").exists():
            found.setdefault(mbit, []).append(address)
    fastest = found[max(found)] if found else []
    return tuple(fastest) if len(fastest) > 1 else ()


def turned(told: bytes, addresses: Sequence[str], place: int) -> bytes:
    """What a rank tells of where its sockets are reached, a line each, the best first; the one of its place in front.

    So ranks of a host are reached by different interfaces of it, and all of these carry.

    Args:
        told: by the native network.
        addresses: of interfaces that are as good as each other.
        place: of the rank among those of its host.
    """
    if not addresses:
        return told
    lines = told.decode().splitlines(keepends=True)
    equal = [line for address in addresses for line in lines if line.partition(" ")[0] == address]
    if not equal:
        return told
    first = place % len(equal)
    in_front = [*equal[first:], *equal[:first]]
    return "".join([*in_front, *(line for line in lines if line not in in_front)]).encode()


def _address(name: str) -> str | None:
    """The IPv4 address of an interface; None where it has none, or is no interface of this kind."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked, contextlib.suppress(OSError):
        answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        return socket.inet_ntoa(answer[20:24])
    return None


def _mbit(name: str) -> int | None:
    """The rate that the driver tells; None where it tells none, or the interface has no link."""
    with contextlib.suppress(OSError, ValueError):
        mbit = int((_INTERFACES / name / "speed").read_text(encoding="ascii"))
        return mbit if mbit > 0 else None
    return None
