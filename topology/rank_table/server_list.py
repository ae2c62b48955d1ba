"""Rank tables 1.0 and 1.2: ``server_list``, and ``super_pod_list`` in 1.2; mind-cluster's hccl.json is such a table.

The rules are HCCL's, from its rank table documents (910, A2, A3) and its parser, which takes numbers in quotes only.
"""

from __future__ import annotations

from .checks import (
    by_first_rank,
    check_addresses,
    check_count,
    check_devices,
    check_ranks,
    check_ranks_together,
    roce_network,
)
from .faults import Faults, Form, Node
from .super_pods import check_super_pods, read_super_pods
from .values import RankDevice, RankHost, RankTable

MOST_SERVER_ID_CHARACTERS = 64
_MOST_DEVICE_ID = 15
_MOST_RANK = (1 << 16) - 1
_MOST_SUPER_DEVICE_ID = (1 << 32) - 2  # all ones is HCCL's word for none


def read_server_list(root: Node, faults: Faults) -> RankTable:
    """A table of version 1.0 or 1.2; not to be used where faults were added."""
    in_super_pods = root.value_at("version") == "1.2"
    servers = root.get("server_list")
    listed = [] if servers is None else servers.items()
    check_count(root.maybe("server_count"), len(listed), "servers in server_list", Form.TEXT)
    hosts = [_server(node) for node in listed]
    faults.unique([(host.server_id, f"{host.path}.server_id") for host in hosts], "server_id")
    check_ranks(hosts, sum(len(node.list_at("device")) for node in listed), faults)
    check_ranks_together(hosts, faults)
    for host in hosts:
        check_devices(host, faults)
    pods = root.maybe("super_pod_list")
    if pods is not None and not in_super_pods:
        faults.add(pods.path, 'belongs to version "1.2"')
    super_pods = read_super_pods(pods) if pods is not None and in_super_pods else ()
    if pods is not None and in_super_pods:
        check_super_pods(pods, super_pods, hosts, faults)
    check_addresses(hosts, faults, needed=len(super_pods) > 1 if super_pods else len(hosts) > 1)
    ordered = by_first_rank(hosts)
    version = "1.2" if in_super_pods else "1.0"
    return RankTable(version=version, hosts=ordered, super_pods=super_pods, networks=roce_network(ordered))


def _server(node: Node) -> RankHost:
    named, own, kind = node.get("server_id"), node.maybe("host_ip"), node.maybe("hardware_type")
    server_id = None if named is None else named.text(most=MOST_SERVER_ID_CHARACTERS)
    addresses = () if own is None else own.addresses()
    device = node.get("device")
    return RankHost(
        server_id=server_id or node.path,
        address=addresses[0] if addresses else None,
        hardware_type=None if kind is None else kind.text(),
        devices=() if device is None else read_devices(device, Form.TEXT),
        path=node.path,
    )


def read_devices(device: Node, form: Form) -> tuple[RankDevice, ...]:
    """The devices of a server by rank, those that could be read."""
    nodes = device.items()
    ports = [(node.whole_at("host_port", 1, 65535, form), f"{node.path}.host_port") for node in nodes]
    device.faults.unique(ports, "host_port")
    found = [read for node in nodes if (read := _device(node, form)) is not None]
    return tuple(sorted(found, key=lambda device: device.rank))


def _device(node: Node, form: Form) -> RankDevice | None:
    device_id, rank = node.get("device_id"), node.get("rank_id")
    number = None if device_id is None else device_id.whole(0, _MOST_DEVICE_ID, form)
    rank_id = None if rank is None else rank.whole(0, _MOST_RANK, form)
    own, backup = node.maybe("device_ip"), node.maybe("backup_device_ip")
    addresses = () if own is None else own.addresses()
    backups = () if backup is None else backup.addresses()
    super_device_id = node.whole_at("super_device_id", 0, _MOST_SUPER_DEVICE_ID, form)
    for port in ("device_port", "backup_device_port"):
        node.whole_at(port, 1, 65535, form)
    if number is None or rank_id is None:
        return None
    return RankDevice(
        rank=rank_id,
        device_id=number,
        addresses=addresses,
        backup_address=backups[0] if backups else None,
        super_device_id=None if super_device_id is None else str(super_device_id),
        path=node.path,
    )
