"""Rank tables: every version is read, and what it tells is kept."""

from __future__ import annotations

import json

import pytest
from rank_table_trees import MAKERS, global_table, group_list, read, topology_file, version_1, version_2

from autotune.topology.links import LinkKind
from autotune.topology.rank_table import read_rank_table, read_topology_file


@pytest.mark.parametrize("version", MAKERS)
def test_every_version_is_read(version: str) -> None:
    table = read(MAKERS[version]())
    assert table.version == version
    assert [device.rank for device in table.devices] == list(range(len(table.devices)))
    assert len(table.hosts) == 2


def test_version_1_tells_addresses_and_the_network_between_them() -> None:
    table = read(version_1())
    assert [device.addresses for device in table.hosts[1].devices] == [("192.0.2.11",), ("192.0.2.12",)]
    assert [(network.kind, network.ranks) for network in table.networks] == [(LinkKind.RDMA, (0, 1, 2, 3))]


def test_super_pods_and_mind_cluster_s_names_are_kept() -> None:
    tree = version_1(super_pods=True)
    tree["server_list"][0] |= {"host_ip": "203.0.113.5", "container_ip": "198.51.100.2", "hardware_type": "800I-A3-64G"}
    table = read(tree)
    assert [(pod.super_pod_id, pod.server_ids) for pod in table.super_pods] == [("7", ("node_0", "node_1"))]
    assert (table.hosts[0].address, table.hosts[0].hardware_type) == ("203.0.113.5", "800I-A3-64G")
    assert [device.super_device_id for device in table.devices] == ["0", "1", "2", "3"]


def test_version_2_tells_hosts_by_their_network_of_layer_0() -> None:
    table = read(version_2())
    assert [host.server_id for host in table.hosts] == ["pod0", "pod1"]
    assert [(network.name, network.net_layer, network.ranks) for network in table.networks] == [("az0", 1, (0, 1))]


def test_a_global_table_counts_its_ranks_on() -> None:
    assert [device.rank for device in read(global_table()).devices] == [0, 1]


def test_pods_of_one_server_are_one_host() -> None:
    tree = group_list()
    second = tree["group_list"][0]["instance_list"][1]
    second |= {"server_id": "node_0", "devices": [{"device_id": "1", "device_ip": "192.0.2.9"}]}
    (host,) = read(tree).hosts
    assert [device.device_id for device in host.devices] == [0, 1]


def test_a_byte_order_mark_and_crlf_are_no_faults() -> None:
    text = "\ufeff" + json.dumps(version_1(), indent=1).replace("\n", "\r\n")
    assert read_rank_table(text, "hccl.json") == read(version_1())


def test_a_topology_file_is_read() -> None:
    file = read_topology_file(json.dumps(topology_file()), "topo.json")
    assert file.local_ids == (0, 1)
    assert [(edge.kind, edge.local_a, edge.local_b, edge.n_ports) for edge in file.edges] == [
        (LinkKind.UB, 0, 1, 1),
        (LinkKind.UB, 0, None, 1),
    ]
