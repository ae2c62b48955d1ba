"""The machines that are known by name: what is shown of each, whom they match, what they fill, and faults in a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import ProbeError, UsageError
from autotune.topology.accelerators import Card, Gpu, Npu, SuperPod, Switch
from autotune.topology.devices import Device, Host
from autotune.topology.document import from_json, to_json
from autotune.topology.fingerprint import fingerprint
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, Provenance
from autotune.topology.machines import description, fill, machine, machine_names, match
from autotune.topology.machines.description import spec_of
from autotune.topology.matrix_view import matrix
from autotune.topology.render import tree

GOLDEN = Path(__file__).parents[1] / "golden" / "descriptions"
NAMES = machine_names()
ACCELERATED = [name for name in NAMES if name != "two-socket-host"]


@pytest.mark.parametrize("name", NAMES)
def test_is_shown_as_reviewed(name: str) -> None:
    several = 2 if description(name).network is not None else 1
    known = description(name)
    sources = "\n".join(f"{key}: {source}" for key, source in known.sources.items())
    host, cluster = tree(known.host), tree(machine(name, n_hosts=several))
    got = f"{known.title}\n\n{host}\n{matrix(known.host)}\n{several} hosts\n\n{cluster}\n{sources}\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        file.write_text(got, "utf-8")
    assert got == file.read_text("utf-8")


def test_every_text_has_its_machine() -> None:
    assert sorted(file.stem for file in GOLDEN.iterdir()) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_json_brings_it_back(name: str) -> None:
    topology = machine(name)
    assert from_json(to_json(topology)) == topology


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no machine 'dgx-9000'; there are atlas-300i-duo, .*two-socket-host"):
        machine("dgx-9000")


@pytest.mark.parametrize("n_hosts", [0, -1])
def test_no_hosts_are_no_machine(n_hosts: int) -> None:
    with pytest.raises(UsageError, match=f"a machine of {n_hosts} hosts"):
        machine("dgx-a100", n_hosts=n_hosts)


def test_hosts_without_a_described_network_stay_alone() -> None:
    with pytest.raises(UsageError, match=r"atlas-300i-duo with 2 hosts: .*no network between its hosts is described"):
        machine("atlas-300i-duo", n_hosts=2)


def test_the_super_pod_comes_whole() -> None:
    topology = machine("atlas-900-a3-superpod")
    assert len(topology.rank_devices()) == 384
    assert len(machine("atlas-900-a3-superpod", n_hosts=25).of(SuperPod)) == 2


def test_a_fat_tree_has_its_leaves_and_oversubscription() -> None:
    topology = machine("atlas-800t-a2", n_hosts=40)
    assert [switch.id for switch in topology.of(Switch)] == ["leaf0", "leaf1", "spine"]
    below = [dst for src, dst in topology.links if src == "leaf0" and dst != "spine"]
    assert len(below) == 32 * 8
    assert topology.links["leaf0", "spine"].bandwidth_gb_per_s == 32 * 8 * 20.0 / 2


def test_a_host_of_many_is_the_described_one() -> None:
    one, many = description("atlas-800t-a3").host, machine("atlas-800t-a3", n_hosts=12)
    renamed = [
        replace(
            device,
            id=device.id.replace("host11", "host0"),
            parent=device.parent and device.parent.replace("host11", "host0"),
        )
        for device in many.devices
        if device.id.partition("/")[0] == "host11"
    ]
    assert tuple(renamed) == one.devices


def probed(topology: Topology) -> Topology:
    """As a probe without measuring sees it: links without figures, no shared limits."""
    bare = [
        replace(link, latency_us=None, bandwidth_gb_per_s=None, source=Provenance.PROBE)
        for link in topology.links.values()
    ]
    return replace(topology.with_links(bare), shared=())


def changed(topology: Topology, **facts: object) -> Topology:
    """The topology with other facts on every accelerator, as far as its class has them."""

    def other(device: Device) -> Device:
        own = {name: value for name, value in facts.items() if hasattr(device, name)}
        return replace(device, **own) if isinstance(device, Npu | Gpu) else device

    return replace(topology, devices=tuple(map(other, topology.devices)))


def seen(topology: Topology, numbers: set[int]) -> Topology:
    """What a container with some of the accelerators sees of one host."""
    gone = {device.id for device in topology.accelerators() if device.number not in numbers}
    devices = tuple(device for device in topology.devices if not {device.id, device.parent} & gone)
    ids = {device.id for device in devices}
    links = {ends: link for ends, link in topology.links.items() if set(ends) <= ids}
    return Topology(devices=devices, links=links)


@pytest.mark.parametrize("name", ACCELERATED)
def test_is_recognised(name: str) -> None:
    assert match(probed(machine(name))) == name


@pytest.mark.parametrize("name", [name for name in ACCELERATED if description(name).network is not None])
def test_is_recognised_as_a_cluster(name: str) -> None:
    assert match(probed(machine(name, n_hosts=3))) == name


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("atlas-800t-a3", {12, 13}), ("atlas-800t-a2", {1, 6}), ("atlas-800-910a", {2, 3, 4}), ("dgx-h100", {0, 7})],
)
def test_a_part_of_a_host_is_recognised(name: str, numbers: set[int]) -> None:
    assert match(seen(machine(name), numbers)) == name


@pytest.mark.parametrize(
    ("what", "topology"),
    [
        ("no accelerators", machine("two-socket-host")),
        ("another chip", changed(machine("atlas-800t-a2"), chip_name="910X")),
        ("a model of two descriptions", changed(machine("atlas-800t-a2"), chip_name=None)),
        ("another memory", changed(machine("atlas-800-910a"), memory_bytes=64 << 30)),
        ("one die", seen(machine("atlas-800t-a2"), {3})),
        ("fewer bonds", changed(machine("dgx-a100"), model="NVIDIA H100 80GB HBM3")),
    ],
)
def test_is_not_taken_for_another(what: str, topology: Topology) -> None:
    assert match(topology) is None, what


def test_a_missing_link_is_another_machine() -> None:
    topology = machine("atlas-800t-a2")
    links = {ends: link for ends, link in topology.links.items() if ends != ("host0/npu0", "host0/npu1")}
    assert match(replace(topology, links=links)) is None


def test_unlike_hosts_are_no_one_machine() -> None:
    a2, a3 = machine("atlas-800t-a2"), machine("atlas-800t-a3")
    moved = replace(
        a2,
        devices=tuple(
            replace(device, id=f"other{device.id}", parent=device.parent and f"other{device.parent}")
            for device in a2.devices
        ),
        links={
            (f"other{src}", f"other{dst}"): replace(link, src=f"other{src}", dst=f"other{dst}")
            for (src, dst), link in a2.links.items()
        },
    )
    both = replace(a3, devices=(*a3.devices, *moved.devices), links={**a3.links, **moved.links})
    assert match(both) is None


@pytest.mark.parametrize("name", ACCELERATED)
def test_filling_brings_the_figures_back(name: str) -> None:
    whole = machine(name)
    bare = probed(whole)
    filled = fill(bare, name)
    assert filled == whole
    assert fingerprint(filled) == fingerprint(bare)
    assert fill(filled, name) == filled


def test_filling_leaves_what_was_measured() -> None:
    bare = probed(machine("atlas-800t-a2"))
    ends = ("host0/npu0", "host0/npu1")
    measured = replace(bare.links[ends], latency_us=9.0)
    filled = fill(bare.with_links([measured]), "atlas-800t-a2")
    assert filled.links[ends] == measured
    assert filled.links[ends[::-1]].bandwidth_gb_per_s == 18.3


def test_filling_a_part_limits_what_is_there() -> None:
    part = fill(probed(seen(machine("atlas-800-910a"), {2, 3, 4})), "atlas-800-910a")
    assert [(resource.senders, resource.receivers) for resource in part.shared] == [
        (("host0/npu2", "host0/npu3"), ("host0/npu4",)),
        (("host0/npu4",), ("host0/npu2", "host0/npu3")),
    ]


def test_filling_does_not_invent_figures_for_other_links() -> None:
    topology = machine("atlas-800t-a2")
    odd = Link(
        src="host0/npu0",
        dst="host0/net-roce1",
        kind=LinkKind.PCIE,
        latency_us=None,
        bandwidth_gb_per_s=None,
        source=Provenance.PROBE,
    )
    assert fill(topology.with_links([odd]), "atlas-800t-a2").links[odd.src, odd.dst] == odd


def test_cards_carry_consecutive_dies() -> None:
    topology = machine("atlas-800t-a3")
    cards = topology.of(Card)
    assert [[die.number for die in topology.within(card.id, Npu)] for card in cards][:2] == [[0, 1], [2, 3]]
    assert isinstance(topology.device("host0"), Host)


TEXT = """
title: Four chips
sources: {paper: "a paper"}
seats: {kind: npu, model: X1, numa_nodes: [0, 0, 1, 1]}
links:
  - {within: 2, kind: hccs, gb_per_s: 10, latency_us: 0.5, source: paper}
"""


def test_a_small_description_is_read() -> None:
    spec = spec_of(TEXT, "four.yaml")
    assert spec.seats.numa_nodes == (0, 0, 1, 1)
    assert spec.links[0].gb_per_s == 10.0


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("title: Four chips", "", r"four.yaml: \$ is \"an object without 'title'\""),
        ("title: Four chips", "title: 7", r"\$\.title is 7; allowed is a text"),
        ("kind: npu", "kind: tpu", r"\$\.seats\.kind is 'tpu'; allowed is one of npu, gpu, cpu"),
        ("kind: hccs", "kind: string", r"\$\.links\[0\]\.kind is 'string'; allowed is one of shm"),
        ("gb_per_s: 10", "gb_per_s: fast", r"\$\.links\[0\]\.gb_per_s is 'fast'; allowed is a number"),
        ("gb_per_s: 10", "colour: red, gb_per_s: 10", r"\$\.links\[0\]\.colour is 'red'"),
        ("latency_us: 0.5, ", "", r"\$\.links\[0\] is \"an object without 'latency_us'\""),
        ("source: paper", "source: rumour", r"source is 'rumour'; allowed is one of paper"),
        ('a paper"}', 'a paper", x: y}', r"sources\.x is 'y'; allowed is a citation that some rule names"),
        ("[0, 0, 1, 1]", "[]", r"numa_nodes is \[\]"),
        ("[0, 0, 1, 1]", "[0, -1]", r"numa_nodes is \[0, -1\]"),
        ("model: X1", "per_card: 3", "per_card is 3; allowed is a divisor of the 4 devices"),
        ("model: X1", "sockets: [0]", r"sockets is \[0\]; allowed is one for each of the 2 NUMA nodes"),
        ("title: Four chips", "title: a\ntitle: b", "line 3, column 1: 'title' stands here twice"),
        ("links:", "links: [", "line 6, column"),
        ("title: Four chips", "title: !!python/name:os.system x", "line 2, column"),
        ("title: Four chips", "- a list", "line 3, column 1|allowed is an object"),
        (
            "links:",
            "network: {kind: rdma, gb_per_s: 1, latency_us: 1, hosts_per_leaf: 2, spine_latency_us: 1, "
            "oversubscription: 1, source: paper, tree_source: paper}\nlinks:",
            "network is 'without nics'",
        ),
    ],
)
def test_a_fault_is_told_with_its_place(old: str, new: str, fault: str) -> None:
    assert old in TEXT
    with pytest.raises(ProbeError, match=fault):
        spec_of(TEXT.replace(old, new, 1), "four.yaml")


@pytest.mark.parametrize("text", ["", "[]", "7", "\0", "a: &a [*a]", "[" * 50_000])
def test_what_is_no_description_is_an_error(text: str) -> None:
    with pytest.raises(ProbeError, match=r"four\.yaml"):
        spec_of(text, "four.yaml")
