"""Global rank tables: groups of servers, of several jobs or roles (``server_group_list``).

mind-cluster, MindIE and ModelArts write them for serving; their readers take numbers with and without quotes, servers
that have no devices (a scheduler's), and ranks that begin at 0 in every job.
"""

from __future__ import annotations

from dataclasses import replace

from .checks import check_addresses, check_count, check_devices, roce_network
from .faults import Faults, Form, Node
from .server_list import MOST_SERVER_ID_CHARACTERS, read_devices
from .super_pods import read_super_pods
from .values import RankHost, RankTable, SuperPodHosts


def read_global_table(root: Node, faults: Faults) -> RankTable:
    """The servers that have devices; ranks are counted on in the order of the file. Not to be used after faults."""
    listed = root.get("server_group_list")
    groups = [] if listed is None else listed.items()
    faults.unique([(group.value_at("group_id"), f"{group.path}.group_id") for group in groups], "group_id")
    hosts: dict[str, RankHost] = {}
    pods: dict[str, list[str]] = {}
    n_ranks = 0
    for group in groups:
        servers = group.get("server_list")
        nodes = [] if servers is None else servers.items()
        check_count(group.maybe("server_count"), len(nodes), "servers in server_list", Form.EITHER)
        for node in nodes:
            host = _server(node, n_ranks, faults)
            n_ranks += len(host.devices)
            if host.devices:
                known = hosts.get(host.server_id)
                both = host if known is None else replace(known, devices=(*known.devices, *host.devices))
                hosts[host.server_id] = both
        super_pods = group.maybe("super_pod_list")
        for pod in () if super_pods is None else read_super_pods(super_pods):
            pods.setdefault(pod.super_pod_id, []).extend(pod.server_ids)
    if listed is not None and groups and not hosts:
        faults.add(listed.path, "no server in it has devices")
    for host in hosts.values():
        check_devices(host, faults)
    found = tuple(hosts.values())
    check_addresses(found, faults, needed=False)
    return RankTable(
        version="global",
        hosts=found,
        super_pods=tuple(SuperPodHosts(super_pod_id=pod, server_ids=tuple(ids)) for pod, ids in pods.items()),
        networks=roce_network(found),
    )


def _server(node: Node, first_rank: int, faults: Faults) -> RankHost:
    named = node.maybe("server_id") or node.get("server_ip")
    server_id = None if named is None else named.text(most=MOST_SERVER_ID_CHARACTERS)
    own, device = node.maybe("server_ip"), node.maybe("device")
    addresses = () if own is None else own.addresses()
    devices = () if device is None else read_devices(device, Form.EITHER)
    faults.unique([(found.rank, f"{found.path}.rank_id") for found in devices], "rank_id")
    return RankHost(
        server_id=server_id or node.path,
        address=addresses[0] if addresses else None,
        hardware_type=None,
        devices=tuple(replace(found, rank=first_rank + index) for index, found in enumerate(devices)),
        path=node.path,
    )
