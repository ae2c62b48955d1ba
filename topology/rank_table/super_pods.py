"""The ``super_pod_list`` of rank tables 1.2 and of global tables: which servers stand in which super pod."""

from __future__ import annotations

from collections.abc import Sequence

from .faults import Faults, Node
from .values import RankHost, SuperPodHosts


def read_super_pods(pods: Node) -> tuple[SuperPodHosts, ...]:
    """The super pods with the ids of their servers, those that could be read."""
    found: list[SuperPodHosts] = []
    for pod in pods.items():
        pod_id, servers = pod.get("super_pod_id"), pod.get("server_list")
        name = None if pod_id is None else pod_id.text()
        nodes = [server.get("server_id") for server in servers.items()] if servers is not None else []
        ids = [text for node in nodes if node is not None and (text := node.text()) is not None]
        if name is not None:
            found.append(SuperPodHosts(super_pod_id=name, server_ids=tuple(ids)))
    return tuple(found)


def check_super_pods(
    pods: Node, super_pods: Sequence[SuperPodHosts], hosts: Sequence[RankHost], faults: Faults
) -> None:
    """Each server is in one super pod, those of one are together, as many in each, and super devices each once."""
    known = {host.server_id: host for host in hosts}
    faults.unique([(pod.value_at("super_pod_id"), f"{pod.path}.super_pod_id") for pod in pods.items()], "super_pod_id")
    places = [
        (server.value_at("server_id"), f"{server.path}.server_id")
        for pod in pods.items()
        for server in pod.list_at("server_list")
    ]
    faults.unique(places, "server_id")
    for server_id, path in places:
        if isinstance(server_id, str) and server_id not in known:
            faults.add(path, f"{server_id} is not in server_list")
    placed = {server_id: pod.super_pod_id for pod in super_pods for server_id in pod.server_ids}
    for host in hosts:
        if host.server_id not in placed:
            faults.add(pods.path, f"server {host.server_id} is in no super pod")
        for device in host.devices:
            if device.super_device_id is None:
                faults.add(f"{device.path}.super_device_id", "is missing, and there is a super_pod_list")
    sizes = sorted({len(pod.server_ids) for pod in super_pods})
    if len(sizes) > 1:
        faults.add(pods.path, f"super pods of {' and '.join(map(str, sizes))} servers; wanted are as many in each")
    _check_together(hosts, placed, faults)
    for pod in super_pods:
        inside = [device for server_id in pod.server_ids if server_id in known for device in known[server_id].devices]
        faults.unique([(d.super_device_id, f"{d.path}.super_device_id") for d in inside], "super_device_id")


def _check_together(hosts: Sequence[RankHost], placed: dict[str, str], faults: Faults) -> None:
    seen: set[str] = set()
    before: str | None = None
    for host in hosts:
        pod = placed.get(host.server_id)
        if pod is not None and pod in seen and pod != before:
            faults.add(
                host.path,
                f"is in super pod {pod}, and servers of another one stand between; wanted is that the servers of a "
                "super pod are together",
            )
        if pod is not None:
            seen.add(pod)
        before = pod
