"""Sound rank tables of every version, as JSON trees that tests change; written after the vendor's formats.

In:  nothing. Out: fresh trees, and the reader's answer to one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from autotune.errors import ProbeError
from autotune.topology.rank_table import RankTable, read_rank_table

Tree = dict[str, Any]  # Any: what JSON holds


def version_1(*, super_pods: bool = False) -> Tree:
    """Two servers of two devices."""
    servers = [
        {
            "server_id": f"node_{server}",
            "device": [
                {"device_id": str(i), "device_ip": f"192.0.2.{10 * server + i + 1}", "rank_id": str(2 * server + i)}
                | ({"super_device_id": str(2 * server + i)} if super_pods else {})
                for i in range(2)
            ],
        }
        for server in range(2)
    ]
    table: Tree = {"status": "completed", "version": "1.0", "server_count": "2", "server_list": servers}
    if super_pods:
        pods = [{"super_pod_id": "7", "server_list": [{"server_id": "node_0"}, {"server_id": "node_1"}]}]
        table |= {"version": "1.2", "super_pod_list": pods}
    return table


def version_2() -> Tree:
    """Two servers of one device."""
    ranks = [
        {
            "rank_id": rank,
            "local_id": 0,
            "device_id": 0,
            "device_port": 16666,
            "level_list": [
                {
                    "net_layer": layer,
                    "net_instance_id": f"pod{rank}" if layer == 0 else "az0",
                    "net_type": "TOPO_FILE_DESC" if layer == 0 else "CLOS",
                    "rank_addr_list": [
                        {"addr_type": "EID", "addr": f"{16 * rank + layer:032x}", "ports": ["0/4"], "plane_id": "p0"}
                    ],
                }
                for layer in range(2)
            ],
        }
        for rank in range(2)
    ]
    return {"status": "completed", "version": "2.0", "rank_count": 2, "rank_list": ranks}


def group_list() -> Tree:
    """Two pods of one device, on one server each."""
    instances = [
        {
            "pod_name": f"p{i}",
            "server_id": f"node_{i}",
            "devices": [{"device_id": "0", "device_ip": f"192.0.2.{i + 1}"}],
        }
        for i in range(2)
    ]
    group = {"group_name": "", "instance_count": "2", "device_count": "2", "instance_list": instances}
    return {"status": "completed", "group_count": "1", "group_list": [group]}


def global_table() -> Tree:
    """A scheduler without devices, and two jobs whose ranks begin at 0."""
    servers = [
        {
            "server_id": f"203.0.113.{job}",
            "server_ip": f"203.0.113.{job}",
            "device": [{"device_id": 0, "device_ip": f"192.0.2.{job}", "device_logical_id": "0", "rank_id": "0"}],
        }
        for job in (1, 2)
    ]
    groups = [{"group_id": "0", "server_list": [{"server_ip": "203.0.113.9"}]}]
    groups += [
        {"group_id": str(job), "server_count": "1", "server_list": [server]}  # type: ignore[dict-item] # mixed lists
        for job, server in enumerate(servers, start=1)
    ]
    return {"status": "completed", "version": "1.0", "server_group_list": groups}


def topology_file() -> Tree:
    """Two devices, joined to each other and to a network."""
    ends = {"local_a": 0, "local_a_ports": ["1/0"], "protocols": ["UB_CTP"]}
    edges = [
        ends
        | {"net_layer": 0, "link_type": "PEER2PEER", "local_b": 1, "local_b_ports": ["1/0"], "topo_type": "1DMESH"},
        ends | {"net_layer": 1, "link_type": "PEER2NET", "topo_type": "CLOS", "position": "DEVICE"},
    ]
    peers = [{"local_id": 0}, {"local_id": 1}]
    return {"version": "2.0", "peer_count": 2, "peer_list": peers, "edge_count": 2, "edge_list": edges}


MAKERS: dict[str, Callable[[], Tree]] = {
    "1.0": version_1,
    "1.2": lambda: version_1(super_pods=True),
    "2.0": version_2,
    "group list": group_list,
    "global": global_table,
}


def read(tree: Tree) -> RankTable:
    return read_rank_table(json.dumps(tree, indent=1), "hccl.json")


def faults_of(tree: Tree) -> str:
    with pytest.raises(ProbeError) as caught:
        read(tree)
    assert caught.value.message.startswith("rank table hccl.json: ")
    assert caught.value.remedy
    return caught.value.message
