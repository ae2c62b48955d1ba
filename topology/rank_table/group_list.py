"""The older rank table of 910 servers: groups of instances (pods) that have devices; it has no version and no ranks.

HCCL makes one group of all; ranks are counted in the order of the file. Several instances may stand on one server.
"""

from __future__ import annotations

from dataclasses import replace

from .checks import by_first_rank, check_addresses, check_count, check_devices, roce_network
from .faults import Faults, Form, Node
from .server_list import MOST_SERVER_ID_CHARACTERS
from .values import RankDevice, RankHost, RankTable

_MOST_DEVICE_ID = 7


def read_group_list(root: Node, faults: Faults) -> RankTable:
    """The servers of all groups; not to be used where faults were added."""
    listed = root.get("group_list")
    groups = [] if listed is None else listed.items()
    check_count(root.get("group_count"), len(groups), "groups in group_list", Form.TEXT)
    hosts: dict[str, RankHost] = {}
    n_ranks = 0
    for group in groups:
        instances = group.get("instance_list")
        nodes = [] if instances is None else instances.items()
        check_count(group.get("instance_count"), len(nodes), "instances in instance_list", Form.TEXT)
        n_devices = sum(len(node.list_at("devices")) for node in nodes)
        check_count(group.get("device_count"), n_devices, "devices in the group", Form.TEXT)
        faults.unique([(node.value_at("pod_name"), f"{node.path}.pod_name") for node in nodes], "pod_name")
        for node in nodes:
            host = _instance(node, n_ranks)
            n_ranks += len(host.devices)
            known = hosts.get(host.server_id)
            both = host if known is None else replace(known, devices=(*known.devices, *host.devices))
            hosts[host.server_id] = both
    found = by_first_rank([host for host in hosts.values() if host.devices])
    for host in found:
        check_devices(host, faults)
    check_addresses(found, faults, needed=True)
    return RankTable(version="group list", hosts=found, networks=roce_network(found))


def _instance(node: Node, first_rank: int) -> RankHost:
    pod, named, devices = node.get("pod_name"), node.get("server_id"), node.get("devices")
    if pod is not None:
        pod.text()
    server_id = None if named is None else named.text(most=MOST_SERVER_ID_CHARACTERS)
    found: list[RankDevice] = []
    for device in [] if devices is None else devices.items():
        device_id, address = device.get("device_id"), device.get("device_ip")
        number = None if device_id is None else device_id.whole(0, _MOST_DEVICE_ID, Form.TEXT)
        addresses = () if address is None else address.addresses()
        if number is not None:
            rank = first_rank + len(found)
            found.append(RankDevice(rank=rank, device_id=number, addresses=addresses, path=device.path))
    return RankHost(
        server_id=server_id or node.path, address=None, hardware_type=None, devices=tuple(found), path=node.path
    )
