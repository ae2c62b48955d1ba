"""Rank tables: every fault is found, and all of them are told at once, with their paths."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from rank_table_trees import Tree, faults_of, group_list, read, topology_file, version_1, version_2

from autotune.errors import ProbeError
from autotune.topology.rank_table import read_rank_table, read_topology_file

Change = Callable[[Tree], object]


def device(server: int, index: int) -> Callable[[Tree], Tree]:
    return lambda tree: tree["server_list"][server]["device"][index]  # type: ignore[no-any-return] # JSON


def set_in(place: Callable[[Tree], Any], **values: object) -> Change:
    return lambda tree: place(tree).update(values)


def top(tree: Tree) -> Tree:
    return tree


VERSION_1_FAULTS: dict[str, tuple[Change, str]] = {
    "rank twice": (
        set_in(device(1, 0), rank_id="0"),
        "$.server_list[1].device[0].rank_id: rank_id 0 is also at $.server_list[0].device[0].rank_id",
    ),
    "gap": (set_in(device(1, 1), rank_id="7"), "$.server_list[1].device[1].rank_id: 7; wanted is 0 to 3"),
    "gap named": (set_in(device(1, 1), rank_id="7"), "$: no device has rank 3"),
    "device twice": (
        set_in(device(0, 1), device_id="0"),
        "[0].device[1].device_id: device_id 0 is also at",
    ),
    "address twice": (
        set_in(device(1, 1), device_ip="192.0.2.1"),
        "$.server_list[1].device[1].device_ip: device_ip 192.0.2.1 is also at",
    ),
    "no address": (
        lambda tree: device(0, 0)(tree).pop("device_ip"),
        "$.server_list[0].device[0].device_ip: is missing",
    ),
    "address": (set_in(device(0, 0), device_ip="192.0.2"), '"192.0.2"; wanted is an IPv4 or IPv6 address'),
    "two addresses": (set_in(device(0, 0), device_ip="192.0.2.1,192.0.2.8"), "and other devices have 2"),
    "rank a number": (
        set_in(device(0, 0), rank_id=0),
        "$.server_list[0].device[0].rank_id: 0; wanted is",
    ),
    "quotes": (set_in(device(0, 0), rank_id=0), "in quotes"),
    "device too large": (set_in(device(0, 0), device_id="16"), "a whole number from 0 to 15"),
    "not ascii": (set_in(device(0, 0), device_id="\u0663"), "a whole number from 0 to 15"),
    "placeholder": (set_in(device(0, 0), device_ip="xx.xx.xx.xx"), '"xx.xx.xx.xx" is a placeholder'),
    "angle brackets": (set_in(device(0, 0), rank_id="<rank>"), '"<rank>" is a placeholder'),
    "server twice": (
        lambda tree: tree["server_list"][1].update(server_id="node_0"),
        "server_id: server_id node_0 is also at $.server_list[0].server_id",
    ),
    "server without name": (
        lambda tree: tree["server_list"][1].pop("server_id"),
        "$.server_list[1].server_id: is missing",
    ),
    "ranks apart": (
        lambda tree: (device(0, 1)(tree).update(rank_id="2"), device(1, 0)(tree).update(rank_id="1")),
        "rank 1 between them is on node_1",
    ),
    "count": (set_in(top, server_count="3"), '$.server_count: "3"; wanted is 2, the number of servers'),
    "version": (set_in(top, version="1.1"), "$.version: \"1.1\"; wanted is '1.0' or '1.2' or '2.0'"),
    "no version": (lambda tree: tree.pop("version"), "$.version: is missing"),
    "status": (set_in(top, status="initializing"), "the table is not complete yet"),
    "no status": (lambda tree: tree.pop("status"), "$.status: is missing"),
    "super pods in 1.0": (set_in(top, super_pod_list=[]), '$.super_pod_list: belongs to version "1.2"'),
    "no servers": (set_in(top, server_list=[]), "$.server_list: []; wanted is a list with something in it"),
    "servers no list": (set_in(top, server_list={}), "$.server_list: {}; wanted is a list"),
    "server no object": (lambda tree: tree["server_list"].append(3), "$.server_list[2]: 3; wanted is an object"),
    "port": (set_in(device(0, 0), device_port="0"), 'device_port: "0"; wanted is a whole number from 1 to 65535'),
    "host port twice": (
        lambda tree: [device(0, i)(tree).update(host_port="60000") for i in range(2)],
        "$.server_list[0].device[1].host_port: host_port 60000 is also at",
    ),
}
SUPER_POD_FAULTS: dict[str, tuple[Change, str]] = {
    "unknown server": (
        lambda tree: tree["super_pod_list"][0]["server_list"][1].update(server_id="node_9"),
        "$.super_pod_list[0].server_list[1].server_id: node_9 is not in server_list",
    ),
    "server in none": (
        lambda tree: tree["super_pod_list"][0]["server_list"].pop(),
        "$.super_pod_list: server node_1 is in no super pod",
    ),
    "super device twice": (set_in(device(1, 0), super_device_id="0"), "super_device_id: super_device_id 0 is also at"),
    "no super device": (
        lambda tree: device(1, 0)(tree).pop("super_device_id"),
        "$.server_list[1].device[0].super_device_id: is missing",
    ),
    "pod twice": (
        lambda tree: tree["super_pod_list"].append(copy.deepcopy(tree["super_pod_list"][0])),
        "$.super_pod_list[1].super_pod_id: super_pod_id 7 is also at",
    ),
    "unequal": (
        lambda tree: tree["super_pod_list"].append({"super_pod_id": "8", "server_list": [{"server_id": "node_0"}]}),
        "super pods of 1 and 2 servers",
    ),
}


@pytest.mark.parametrize("name", VERSION_1_FAULTS)
def test_finds_in_version_1(name: str) -> None:
    change, words = VERSION_1_FAULTS[name]
    tree = version_1()
    change(tree)
    assert words in faults_of(tree)


@pytest.mark.parametrize("name", SUPER_POD_FAULTS)
def test_finds_in_super_pods(name: str) -> None:
    change, words = SUPER_POD_FAULTS[name]
    tree = version_1(super_pods=True)
    change(tree)
    assert words in faults_of(tree)


def test_servers_of_a_super_pod_stand_together() -> None:
    tree = version_1(super_pods=True)
    for number in (2, 3):
        server = copy.deepcopy(tree["server_list"][0])
        server["server_id"] = f"node_{number}"
        for index, each in enumerate(server["device"]):
            each |= {"rank_id": str(2 * number + index), "device_ip": f"198.51.100.{2 * number + index}"}
        tree["server_list"].append(server)
    tree["server_count"] = "4"
    pods = [("a", ["node_0", "node_3"]), ("b", ["node_1", "node_2"])]
    tree["super_pod_list"] = [
        {"super_pod_id": pod, "server_list": [{"server_id": server} for server in servers]} for pod, servers in pods
    ]
    words = faults_of(tree)
    assert "$.server_list[3]: is in super pod a, and servers of another one stand between" in words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: tree.update(rank_count=3), "$.rank_count: 3; wanted is 2"),
        (lambda tree: tree.update(rank_count="2"), "without quotes"),
        (lambda tree: tree["rank_list"][1].update(rank_id=0), "rank_id 0 is also at $.rank_list[0].rank_id"),
        (
            lambda tree: tree["rank_list"][1].update(local_id=65),
            "$.rank_list[1].local_id: 65; wanted is",
        ),
        (lambda tree: tree["rank_list"][1]["level_list"].reverse(), "0 in the first level"),
        (
            lambda tree: tree["rank_list"][1]["level_list"][0]["rank_addr_list"][0].update(addr=f"{0:032x}"),
            f"address {0:032x} of layer 0 is also at $.rank_list[0].level_list",
        ),
        (
            lambda tree: tree["rank_list"][0]["level_list"][0]["rank_addr_list"][0].update(addr="192.0.2.1"),
            "an EID of 32 hexadecimal digits",
        ),
        (
            lambda tree: tree["rank_list"][0]["level_list"][0]["rank_addr_list"][0].update(addr_type="IPV4"),
            "an IPv4 address, as addr_type says",
        ),
        (
            lambda tree: tree["rank_list"][0]["level_list"][0]["rank_addr_list"][0].update(ports=["0/4", "0/4"]),
            "ports[1]: port 0/4 is also at",
        ),
    ],
)
def test_finds_in_version_2(change: Change, words: str) -> None:
    tree = version_2()
    change(tree)
    assert words in faults_of(tree)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: tree.update(group_count="2"), "$.group_count"),
        (lambda tree: tree["group_list"][0].update(device_count="3"), "2, the number of devices in the group"),
        (lambda tree: tree["group_list"][0]["instance_list"][1].update(pod_name="p0"), "pod_name p0 is also at"),
    ],
)
def test_finds_in_a_group_list(change: Change, words: str) -> None:
    tree = group_list()
    change(tree)
    assert words in faults_of(tree)


def test_all_faults_are_told_at_once() -> None:
    tree = version_1(super_pods=True)
    changes = [
        SUPER_POD_FAULTS["no super device"],
        VERSION_1_FAULTS["count"],
        VERSION_1_FAULTS["address twice"],
        VERSION_1_FAULTS["device twice"],
        VERSION_1_FAULTS["rank twice"],
    ]
    for change, _ in changes:
        change(tree)
    words = faults_of(tree)
    assert all(expected in words for _, expected in changes)


def test_comments_are_faults_beside_the_others() -> None:
    tree = version_1()
    device(0, 0)(tree)["rank_id"] = "9"
    text = json.dumps(tree, indent=1).replace('"version": "1.0",', '"version": "1.0",  // the template\n /* a\n b */')
    with pytest.raises(ProbeError) as caught:
        read_rank_table(text, "hccl.json")
    assert 'line 3, column 21: "// the template" is a comment' in caught.value.message
    assert "line 4, column 2: " in caught.value.message
    assert "$.server_list[0].device[0].rank_id: 9" in caught.value.message


def test_what_looks_like_a_comment_in_a_text_is_none() -> None:
    tree = version_1()
    tree["server_list"][0]["server_id"] = "http://a#b/*c*/"
    assert read(tree).hosts[0].server_id == "http://a#b/*c*/"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"server_list": [', "line 1, column 18"),
        ('{"server_list": [], "server_list": []}', "$.server_list: stands twice in its object"),
        ('{"server_list": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "$: cannot be read"),
        ('{"rank_list": ' + "9" * 5000 + "}", "$: cannot be read"),
        ("[]", "$: []; wanted is an object"),
        ("{}", "has none of server_group_list, group_list, rank_list, server_list"),
    ],
)
def test_damaged_json(text: str, words: str) -> None:
    with pytest.raises(ProbeError) as caught:
        read_rank_table(text, "hccl.json")
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: tree.update(peer_count=3), "$.peer_count: 3; wanted is 2"),
        (lambda tree: tree["edge_list"][0].update(local_b=5), "$.edge_list[0].local_b: 5 is not in peer_list"),
        (lambda tree: tree["edge_list"][0].update(local_b=0), "$.edge_list[0].local_b: 0 is local_a too"),
        (lambda tree: tree["edge_list"][0].update(protocols=["FOO"]), '$.edge_list[0].protocols[0]: "FOO"'),
        (lambda tree: tree["edge_list"][1].update(link_type="NET2NET"), "'PEER2PEER' or 'PEER2NET'"),
        (lambda tree: tree["peer_list"].append({"local_id": 0}), "local_id 0 is also at $.peer_list[0].local_id"),
        (lambda tree: tree.update(version="1.0"), "$.version: \"1.0\"; wanted is '2.0'"),
    ],
)
def test_finds_in_a_topology_file(change: Change, words: str) -> None:
    tree = topology_file()
    change(tree)
    with pytest.raises(ProbeError) as caught:
        read_topology_file(json.dumps(tree), "topo.json")
    assert words in caught.value.message
