"""The graph's own rules: invariants, distances, links laid over links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autotune.topology.accelerators import Card, Npu, SuperPod, Switch
from autotune.topology.devices import Cache, Core, Cpu, Device, Host, Nic, NumaNode
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, PciePath, Provenance, SharedResource
from autotune.topology.probes.linux import parse

Recorded = Callable[[str], dict[str, str]]

HOST = Host(id="h", parent=None)
CORE = Core(id="c", parent="h")
CPU = Cpu(id="p", parent="c", number=0, allowed=True)


def link(src: str, dst: str, gb_per_s: float | None = 10.0, source: Provenance = Provenance.PROBE) -> Link:
    return Link(src=src, dst=dst, kind=LinkKind.SHM, latency_us=0.1, bandwidth_gb_per_s=gb_per_s, source=source)


@pytest.mark.parametrize(
    ("devices", "fault"),
    [
        ((HOST, HOST), "two devices are called h"),
        ((HOST, replace(CORE, parent=None)), "stand in no host"),
        ((HOST, Host(id="i", parent="h")), "a host stands alone or in a super pod"),
        ((CORE, HOST), "its parent h does not stand before it"),
        ((HOST, replace(CPU, parent="h")), "a CPU stands inside a core"),
        ((HOST, SuperPod(id="s", parent="h")), "a super pod has no parent"),
        ((HOST, CORE, Switch(id="w", parent="c")), "a switch stands alone"),
        ((HOST, CORE, Npu(id="d", parent="c", number=0)), "an accelerator stands in a card"),
        ((SuperPod(id="s", parent=None), Npu(id="d", parent="s", number=0)), "an accelerator stands in a card"),
        ((SuperPod(id="s", parent=None), Card(id="k", parent="s")), "stand in no host"),
        ((HOST, NumaNode(id="n", parent="h", number=0, distances=(("m", 20),))), "its distance to m"),
    ],
)
def test_devices_stand_inside_each_other(devices: tuple[Device, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Topology(devices=devices)


def test_links_join_devices_that_are_there() -> None:
    with pytest.raises(ValueError, match="there is no device q"):
        Topology(devices=(HOST, CORE, CPU), links={("p", "q"): link("p", "q")})
    with pytest.raises(ValueError, match="is filed under"):
        Topology(devices=(HOST, CORE, CPU), links={("h", "p"): link("p", "h")})


@pytest.mark.parametrize("figure", [0.0, -1.0, float("nan"), float("inf")])
def test_an_unknown_figure_is_none(figure: float) -> None:
    with pytest.raises(ValueError, match="bandwidth_gb_per_s"):
        link("p", "q", figure)


def test_a_link_to_itself_is_none() -> None:
    with pytest.raises(ValueError, match="to itself"):
        link("p", "p")


def test_a_fact_is_not_below_zero() -> None:
    with pytest.raises(ValueError, match="size_bytes is -1"):
        Cache(id="l", parent="h", level=1, size_bytes=-1)


def test_links_cannot_be_changed(recorded: Recorded) -> None:
    topology = parse(recorded("virtual-machine"))
    with pytest.raises(TypeError):
        topology.links["a", "b"] = link("a", "b")  # type: ignore[index]  # that it cannot be is what is tested


@pytest.mark.parametrize(
    ("machine", "a", "b", "words"),
    [
        ("two-sockets-smt-roce", 0, 0, "same cpu"),
        ("two-sockets-smt-roce", 0, 16, "same core"),
        ("two-sockets-smt-roce", 0, 2, "same L3"),
        ("two-sockets-smt-roce", 0, 17, "other socket, NUMA distance 20"),
        ("hybrid-cores", 4, 7, "same L2"),
        ("hybrid-cores", 0, 7, "same L3"),
        ("container-cpuset-quota", 0, 4, "same NUMA node"),
        ("kunpeng-4-numa", 0, 4, "same socket, NUMA distance 12"),
        ("kunpeng-4-numa", 4, 12, "other socket, NUMA distance 24"),
        ("board-without-numa", 0, 2, "same host"),
    ],
)
def test_distance_is_the_smallest_thing_that_both_are_in(
    recorded: Recorded, machine: str, a: int, b: int, words: str
) -> None:
    topology = parse(recorded(machine))
    cpus = {cpu.number: cpu for cpu in topology.of(Cpu)}
    assert str(topology.distance(cpus[a], cpus[b])) == words
    assert topology.distance(cpus[a], cpus[b]) == topology.distance(cpus[b], cpus[a])


def test_distance_between_hosts() -> None:
    other = (Host(id="i", parent=None), Core(id="d", parent="i"), Cpu(id="q", parent="d", number=0, allowed=True))
    topology = Topology(devices=(HOST, CORE, CPU, *other))
    assert str(topology.distance(*topology.allowed_cpus)) == "other host"
    assert topology.n_cores == 2


def test_the_other_pairs_of_a_class_have_its_median(recorded: Recorded) -> None:
    topology = parse(recorded("two-sockets-smt-roce"))
    cpus = {cpu.number: cpu for cpu in topology.of(Cpu)}
    measured = topology.with_links(
        [
            link("host0/cpu0", "host0/cpu2", 8.0),
            link("host0/cpu13", "host0/cpu15", 10.0),
            link("host0/cpu0", "host0/cpu16", 40.0),
        ]
    )
    assert measured.bandwidth_between(cpus[0], cpus[2]) == 8.0
    assert measured.bandwidth_between(cpus[2], cpus[0]) == 9.0
    assert measured.bandwidth_between(cpus[5], cpus[21]) == 40.0
    assert measured.bandwidth_between(cpus[0], cpus[1]) is None


def test_a_link_replaces_the_older_one_as_a_whole(recorded: Recorded) -> None:
    topology = parse(recorded("virtual-machine"))
    ends = ("host0/cpu0", "host0/cpu1")
    told = topology.with_links([link(*ends, source=Provenance.DATASHEET), link(ends[1], ends[0])])
    measured = told.with_links([link(*ends, None)])
    assert measured.links[ends] == link(*ends, None)
    assert measured.links[ends[::-1]] == told.links[ends[::-1]]
    assert not topology.links


def test_only_cores_that_may_be_used_count(recorded: Recorded) -> None:
    topology = parse(recorded("container-cpuset-quota"))
    assert topology.n_cores == 2
    assert [cpu.number for cpu in topology.allowed_cpus] == [4, 5]
    assert len(topology.of(Core)) == 16


def die(number: int, parent: str) -> Npu:
    return Npu(id=f"{parent}/npu{number}", parent=parent, number=number)


CLUSTER = (
    SuperPod(id="s", parent=None),
    Switch(id="plane", parent="s"),
    Host(id="b", parent="s"),
    die(9, "b"),
    die(10, "b"),
    Host(id="a", parent="s"),
    die(1, "a"),
    die(0, "a"),
    Nic(id="nic", parent="a/npu0", name="roce0"),
    Core(id="c", parent="a"),
    Cpu(id="p", parent="c", number=0, allowed=True),
    Switch(id="leaf", parent=None),
)


def test_accelerators_by_number_host_by_host() -> None:
    topology = Topology(devices=CLUSTER)
    ids = ["b/npu9", "b/npu10", "a/npu0", "a/npu1"]
    assert [device.id for device in topology.accelerators()] == ids
    assert [device.id for device in topology.accelerators("a")] == ids[2:]
    assert topology.rank_devices() == topology.accelerators()


def test_without_accelerators_ranks_sit_on_cpus(recorded: Recorded) -> None:
    topology = parse(recorded("two-sockets-smt-roce"))
    assert [device.id for device in topology.rank_devices()][:17:16] == ["host0/cpu0", "host0/cpu16"]
    assert set(topology.rank_devices()) == set(topology.allowed_cpus)


def test_host_of_what_stands_in_one() -> None:
    topology = Topology(devices=CLUSTER)
    assert topology.host_of("nic").id == topology.host_of("a").id == "a"
    with pytest.raises(ValueError, match="plane stands in no host"):
        topology.host_of("plane")


def test_links_and_shared_limits_are_one_kind_of_constraint() -> None:
    root = SharedResource(
        name="root", senders=("a/npu0", "a/npu1"), receivers=("leaf",), bandwidth_gb_per_s=5.0, source=Provenance.USER
    )
    known, unknown = link("a/npu0", "a/npu1", 7.0), link("a/npu1", "a/npu0", None)
    topology = Topology(devices=CLUSTER, links={(x.src, x.dst): x for x in (known, unknown)}, shared=(root,))
    assert list(topology.constraints()) == [
        SharedResource(
            name="a/npu0 to a/npu1",
            senders=("a/npu0",),
            receivers=("a/npu1",),
            bandwidth_gb_per_s=7.0,
            source=Provenance.PROBE,
        ),
        root,
    ]


def test_a_path_is_of_pcie_and_bonds_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="path is of PCIe links, not of shm"):
        replace(link("p", "q"), path=PciePath.PIX)
    with pytest.raises(ValueError, match="n_bonded is 0"):
        replace(link("p", "q"), n_bonded=0)


@pytest.mark.parametrize("side", ["senders", "receivers"])
@pytest.mark.parametrize("ends", [(), ("p", "p")])
def test_a_shared_limit_has_both_sides(side: str, ends: tuple[str, ...]) -> None:
    both = {"senders": ("p",), "receivers": ("q",), side: ends}
    with pytest.raises(ValueError, match=f"shared root: {side}"):
        SharedResource(name="root", **both, bandwidth_gb_per_s=1.0, source=Provenance.USER)
