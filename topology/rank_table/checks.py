"""What must hold over a whole rank table: ranks, devices and addresses each once, no gaps, counts that agree.

In: what was read, and the list of faults. Out: faults added to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ..links import LinkKind
from .faults import Faults, Form, Node
from .values import Network, RankHost

ROCE = "RoCE of the rank table"
_MOST_COUNT = (1 << 32) - 1
_RANKS_SHOWN = 8


def check_count(node: Node | None, n: int, what: str, form: Form) -> None:
    """A count, where there is one, agrees with what is there."""
    number = None if node is None else node.whole(0, _MOST_COUNT, form)
    if node is not None and number is not None and number != n:
        node.fault(f"{n}, the number of {what}")


def check_ranks(hosts: Sequence[RankHost], n_devices: int, faults: Faults) -> None:
    """Ranks from 0 without gaps and each once.

    Args:
        n_devices: how many the file lists; those that could not be read are not among ``hosts``, so that what their
            ranks may be is not asked then.
    """
    devices = [device for host in hosts for device in host.devices]
    faults.unique([(device.rank, f"{device.path}.rank_id") for device in devices], "rank_id")
    for device in devices:
        if device.rank >= n_devices:
            allowed = f"0 to {n_devices - 1}, as many as there are devices"
            faults.add(f"{device.path}.rank_id", f"{device.rank}; wanted is {allowed}")
    missing = sorted(set(range(n_devices)) - {device.rank for device in devices})
    if missing and len(devices) == n_devices:
        more = f" and {len(missing) - _RANKS_SHOWN} more" if len(missing) > _RANKS_SHOWN else ""
        faults.add("$", f"no device has rank {', '.join(map(str, missing[:_RANKS_SHOWN]))}{more}")


def check_ranks_together(hosts: Sequence[RankHost], faults: Faults) -> None:
    """No rank of another server stands between two ranks of a server."""
    owner = {device.rank: host.server_id for host in hosts for device in host.devices}
    ranks = sorted(owner)
    for host in hosts:
        own = sorted({device.rank for device in host.devices})
        inside = ranks[bisect_left(ranks, own[0]) : bisect_left(ranks, own[-1])] if own else []
        other = next((rank for rank in inside[: len(own)] if owner[rank] != host.server_id), None)
        if other is not None:
            faults.add(
                host.path,
                f"has rank {own[0]} and rank {own[-1]}, and rank {other} between them is on {owner[other]}; wanted is "
                "that the ranks of a server are together",
            )


def check_devices(host: RankHost, faults: Faults) -> None:
    """Devices of a server each once."""
    faults.unique([(device.device_id, f"{device.path}.device_id") for device in host.devices], "device_id")


def check_addresses(hosts: Sequence[RankHost], faults: Faults, *, needed: bool) -> None:
    """Addresses of devices each once, as many for each device, and there at all where HCCL needs them."""
    devices = [device for host in hosts for device in host.devices]
    faults.unique(
        [(address, f"{device.path}.device_ip") for device in devices for address in device.addresses], "device_ip"
    )
    most = max((len(device.addresses) for device in devices), default=0)
    for device in devices:
        if not device.addresses and needed:
            faults.add(f"{device.path}.device_ip", "is missing, and there are several servers or super pods")
        elif device.addresses and len(device.addresses) != most:
            faults.add(f"{device.path}.device_ip", f"{len(device.addresses)} addresses, and other devices have {most}")


def roce_network(hosts: Sequence[RankHost]) -> tuple[Network, ...]:
    """What joins the devices that have an address."""
    ranks = sorted(device.rank for host in hosts for device in host.devices if device.addresses)
    return (Network(name=ROCE, net_layer=None, kind=LinkKind.RDMA, ranks=tuple(ranks)),) if ranks else ()


def by_first_rank(hosts: Sequence[RankHost]) -> tuple[RankHost, ...]:
    """In the order of their first ranks."""
    return tuple(sorted(hosts, key=lambda host: host.devices[0].rank if host.devices else -1))
