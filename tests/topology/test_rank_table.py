"""Rank tables: every version is read, every fault is found and all of them are told at once, with their paths."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProbeError
from autotune.topology.links import LinkKind
from autotune.topology.rank_table import RankTable, is_rank_table, read_rank_table, read_topology_file

Tree = dict[str, Any]  # Any: what JSON holds
Change = Callable[[Tree], object]


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


_ODD = st.sampled_from([None, True, -1, 0, 3, 1e300, "", "0", "1.2", "xx", "<id>", "9" * 30, [], {}, [[]], "\0", "é"])


def _mutated(data: st.DataObject, value: Any) -> Any:  # noqa: ANN401 - JSON
    """The value with one place in it replaced, doubled or taken away."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 9)):
        name = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 9)) == 0:
            return {key: each for key, each in value.items() if key != name}
        return value | {name: _mutated(data, value[name])}
    if isinstance(value, list) and value and data.draw(st.integers(0, 9)):
        index = data.draw(st.integers(0, len(value) - 1))
        how = data.draw(st.integers(0, 9))
        if how < 2:
            return [*value[:index], *value[index + how :], *value[index : index + how]]
        return [*value[:index], _mutated(data, value[index]), *value[index + 1 :]]
    return data.draw(_ODD)


@settings(max_examples=400)
@given(version=st.sampled_from(sorted(MAKERS)), n=st.integers(1, 3), data=st.data())
def test_a_mutated_table_is_an_error_or_a_sound_table(version: str, n: int, data: st.DataObject) -> None:
    tree = MAKERS[version]()
    for _ in range(n):
        tree = _mutated(data, tree)
    with contextlib.suppress(ProbeError):
        table = read_rank_table(json.dumps(tree), "hccl.json")
        ranks = [device.rank for device in table.devices]
        assert ranks == list(range(len(ranks)))
        assert ranks
        addresses = [address for device in table.devices for address in device.addresses]
        assert len(set(addresses)) == len(addresses)


@settings(max_examples=200)
@given(text=st.text(max_size=200), cut=st.integers(0, 1200), version=st.sampled_from(sorted(MAKERS)))
def test_a_cut_or_overwritten_text_is_an_error(text: str, cut: int, version: str) -> None:
    whole = json.dumps(MAKERS[version](), indent=1)
    damaged = whole[: min(cut, len(whole) - 2)] + text
    with contextlib.suppress(ProbeError):
        assert read_rank_table(damaged, "hccl.json").devices
    assert isinstance(is_rank_table(damaged), bool)


def test_many_ranks_and_faults_take_no_longer_than_they_must() -> None:
    """Ranks of 400 servers, each with a rank of another one between its own: linear, not quadratic."""
    servers = [
        {
            "server_id": f"n{server}",
            "device": [
                {"device_id": str(i), "device_ip": f"2001:db8::{server:x}:{i}", "rank_id": str(rank)}
                for i, rank in enumerate((server, 799 - server))
            ],
        }
        for server in range(400)
    ]
    words = faults_of({"status": "completed", "version": "1.0", "server_list": servers})
    assert words.count("wanted is that the ranks of a server are together") == 399
