"""Several hosts in one: matched to the rank table, joined by what is told, contradictions and gaps said."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import ProbeError
from autotune.topology import host
from autotune.topology.accelerators import Npu, SuperPod, Switch
from autotune.topology.cluster import build
from autotune.topology.devices import Nic
from autotune.topology.document import to_json
from autotune.topology.graph import Topology
from autotune.topology.links import LinkKind, Provenance
from autotune.topology.machines import fill, match
from autotune.topology.rank_table import read_rank_table
from autotune.topology.recordings import Found, RecordedHost, load
from autotune.topology.renaming import renamed
from autotune.topology.routes import Routes

Recorded = Callable[[str], dict[str, str]]
MACHINES = Path(__file__).parents[1] / "golden" / "machines"


def cluster(name: str) -> Found:
    return load([MACHINES / name / "recording"])


def ways(topology: Topology, a: str, b: str) -> list[LinkKind]:
    route = Routes(topology).between(a, b)
    return [] if route is None else [link.kind for link in route.links]


def test_a_host_of_a_rank_table_is_found_by_its_addresses_and_contradictions_are_told() -> None:
    topology = build(cluster("cluster-a2-rank-table"))
    assert [one.name for one in topology.hosts] == ["hosta", "203.0.113.6"]
    assert topology.contradictions == (
        "rank table $.server_list[0].device[3]: address 192.0.2.23, and NPU 3 of hosta has 192.0.2.93",
    )
    assert ways(topology, "host0/npu0", "host1/npu5") == [LinkKind.RDMA, LinkKind.RDMA]
    assert any("its ranks are in the order of NPUs 1, 0, 2" in words for words in topology.unseen)


def test_an_npu_of_the_table_that_the_host_does_not_have_is_told() -> None:
    found = cluster("cluster-a2-rank-table")
    (one,) = found.hosts
    four = {place: text for place, text in one.recording.items() if place.startswith("hccn_tool")}
    four = {place: text for place, text in four.items() if int(place.split()[2]) < 4}
    topology = build(replace(found, hosts=(RecordedHost(name="hosta", recording=four),)))
    assert any("has NPUs 4-7, and hosta has only NPUs 0-3" in words for words in topology.contradictions)


def test_super_pods_of_a_table_hold_their_hosts_and_join_their_npus() -> None:
    topology = build(cluster("cluster-a3-super-pod"))
    assert [(one.name, one.parent) for one in topology.hosts] == [
        ("hosta", "pod0"),
        ("node_1", "pod0"),
        ("node_2", "pod1"),
        ("node_3", "pod1"),
    ]
    assert ways(topology, "host0/npu0", "host1/npu3") == [LinkKind.HCCS_SW, LinkKind.HCCS_SW]
    assert ways(topology, "host0/npu0", "host2/npu0") == [LinkKind.RDMA, LinkKind.RDMA]
    assert topology.device("host0/npu2").super_device_id == "2"  # type: ignore[attr-defined] # an Npu
    assert topology.contradictions == ()


def test_another_super_pod_by_the_driver_is_a_contradiction() -> None:
    found = cluster("cluster-a3-super-pod")
    (one,) = found.hosts
    recording = {
        place: text.replace("Super Pod ID                    : 0", "Super Pod ID : 5")
        for place, text in one.recording.items()
    }
    topology = build(replace(found, hosts=(replace(one, recording=recording),)))
    assert topology.contradictions == ("hosta: super pod 0 in the rank table, 5 on it",)
    assert {pod.id for pod in topology.of(SuperPod)} == {"pod0", "pod1"}


def test_lldp_joins_hosts_by_their_leaves() -> None:
    topology = build(cluster("cluster-a2-lldp"))
    assert [(switch.id, switch.name) for switch in topology.of(Switch)] == [
        ("leaf0", "00:00:5e:00:53:01"),
        ("leaf1", "00:00:5e:00:53:02"),
    ]
    assert ways(topology, "host0/npu0", "host1/npu2") == [LinkKind.RDMA, LinkKind.RDMA]
    assert not any("nothing joins" in words for words in topology.unseen)


def test_a_subnet_over_several_leaves_is_a_spine() -> None:
    found = cluster("cluster-a2-lldp")
    hosts = [
        replace(
            one,
            recording={
                **one.recording,
                **{
                    f"hccn_tool -i {npu} -ip -g": f"ipaddr:192.0.2.{10 * number + npu}\nnetmask:255.255.255.0"
                    for npu in range(4)
                },
            },
        )
        for number, one in enumerate(found.hosts, start=1)
    ]
    topology = build(replace(found, hosts=tuple(hosts)))
    assert [switch.name for switch in topology.of(Switch)][2:] == ["subnet 192.0.2.0/24"]
    assert len(ways(topology, "host0/npu0", "host1/npu1")) == 4
    assert len(ways(topology, "host0/npu0", "host1/npu0")) == 2


def test_subnets_join_interfaces_and_rdma_ports_of_the_same_function() -> None:
    topology = build(cluster("cluster-cpu-subnet"))
    (switch,) = topology.of(Switch)
    assert switch.name == "subnet 192.0.2.0/24"
    below = {src: link for (src, dst), link in topology.links.items() if dst == switch.id}
    assert {src: link.kind for src, link in below.items()} == {
        "host0/net-ens3f0np0": LinkKind.NETWORK,
        "host0/rdma-mlx5_0-1": LinkKind.RDMA,
        "host1/net-enp125s0f0": LinkKind.NETWORK,
        "host1/rdma-hns_0-1": LinkKind.RDMA,
    }
    assert {(link.bandwidth_gb_per_s, link.source) for link in below.values()} == {(12.5, Provenance.DATASHEET)}


def test_what_nothing_joins_is_said(recorded: Recorded) -> None:
    hosts = tuple(RecordedHost(name=name, recording=recorded("virtual-machine")) for name in ("hosta", "hostb"))
    topology = build(Found(hosts=hosts))
    assert topology.unseen[-1] == ("nothing joins these hosts, no rank table, switch (LLDP) or subnet: hosta; hostb")
    assert topology.unseen[0].startswith("hosta: ")


def test_one_host_is_built_as_it_is_alone(recorded: Recorded) -> None:
    recording = recorded("two-sockets-smt-roce")
    alone = build(Found(hosts=(RecordedHost(name=None, recording=recording),)))
    assert to_json(alone) == to_json(host.parse(recording))


def test_a_network_of_version_2_joins_npus_and_its_topology_file_those_of_a_host() -> None:
    topology = build(cluster("cluster-950-rank-table-2"))
    assert ways(topology, "host0/npu0", "host0/npu3") == [LinkKind.UB]
    assert ways(topology, "host0/npu0", "host1/npu3") == [LinkKind.UB, LinkKind.UB]


def test_a_topology_file_for_other_npus_is_not_taken() -> None:
    found = cluster("cluster-950-rank-table-2")
    (file,) = found.topology_files
    topology = build(replace(found, topology_files=(replace(file, local_ids=(0, 1, 2)),)))
    assert any("no topology file has its NPUs" in words for words in topology.unseen)


def test_rank_tables_that_differ_are_refused() -> None:
    a, b = (cluster(name).rank_tables[0] for name in ("cluster-a2-rank-table", "cluster-a3-super-pod"))
    with pytest.raises(ProbeError, match="differ, and a cluster has one"):
        build(Found(rank_tables=(a, b)))
    assert build(Found(rank_tables=(a, a))) == build(Found(rank_tables=(a,)))


def test_the_order_of_everything_does_not_matter(recorded: Recorded) -> None:
    hosts = [
        RecordedHost(name=name, recording=recorded(machine))
        for name, machine in (("h10", "virtual-machine"), ("h9", "two-sockets-smt-roce"), ("h2", "virtual-machine"))
    ]
    texts = {to_json(build(Found(hosts=order))) for order in itertools.permutations(hosts)}
    assert len(texts) == 1
    names = [one["name"] for one in json.loads(texts.pop())["devices"] if one["kind"] == "host"]
    assert names == ["h2", "h9", "h10"]


def test_whole_topologies_stand_beside_recordings(recorded: Recorded) -> None:
    whole = build(cluster("cluster-a2-lldp"))
    found = Found(hosts=(RecordedHost(name="zz", recording=recorded("virtual-machine")),), topologies=((None, whole),))
    topology = build(found)
    assert [one.name for one in topology.hosts] == ["hosta", "hostb", "zz"]
    assert [switch.id for switch in topology.of(Switch)] == ["leaf0", "leaf1"]
    assert len(topology.of(Npu)) == 8


def test_a_matched_cluster_gets_the_datasheet_s_figures() -> None:
    found = cluster("cluster-a2-lldp")
    topology = build(found)
    name = match(topology)
    assert name is not None
    filled = fill(topology, name)
    assert all(link.bandwidth_gb_per_s is not None for link in filled.links.values())
    assert {link.source for link in filled.links.values()} == {Provenance.DATASHEET}


def test_renaming_reaches_everything(recorded: Recorded) -> None:
    topology = host.parse(recorded("pcie-npus-beside-roce"))
    other = renamed(topology, {"host0": "host7"})
    assert "host0" not in to_json(other)
    assert renamed(other, {"host7": "host0"}) == topology


def test_interfaces_of_a_probed_npu_that_only_the_table_knows_are_added() -> None:
    found = cluster("cluster-a2-rank-table")
    (one,) = found.hosts
    bare = {place: text for place, text in one.recording.items() if not place.startswith("hccn_tool")}
    hosts = (RecordedHost(name="203.0.113.5", recording=bare),)
    topology = build(replace(found, hosts=hosts))
    assert len(topology.within("host0", Nic)) == 8
    assert {npu.address for npu in topology.within("host0", Npu)} == {f"192.0.2.{20 + index}" for index in range(8)}


def test_a_table_knows_npus_by_their_physical_numbers(recorded: Recorded) -> None:
    numbers = (1, 2, 4, 5, 8, 10, 13, 14)
    devices = [{"device_id": str(number), "rank_id": str(rank)} for rank, number in enumerate(numbers)]
    servers = [{"server_id": "hosta", "device": devices}]
    text = json.dumps({"status": "completed", "version": "1.0", "server_count": "1", "server_list": servers})
    table = read_rank_table(text, "hccl.json")
    found = Found(
        hosts=(RecordedHost(name="hosta", recording=recorded("atlas-pcie-sparse-ids")),), rank_tables=(("x", table),)
    )
    topology = build(found)
    assert topology.contradictions == host.parse(recorded("atlas-pcie-sparse-ids")).contradictions
    assert len(topology.hosts) == 1
