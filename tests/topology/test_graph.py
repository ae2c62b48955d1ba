"""The graph's own rules: invariants, distances, links laid over links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autotune.topology.devices import Cache, Core, Cpu, Device, Host, NumaNode
from autotune.topology.graph import Link, LinkKind, Provenance, Topology
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
        ((HOST, replace(CORE, parent=None)), "everything else has one"),
        ((HOST, Host(id="i", parent="h")), "a host has no parent"),
        ((CORE, HOST), "its parent h does not stand before it"),
        ((HOST, replace(CPU, parent="h")), "a CPU stands inside a core"),
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
