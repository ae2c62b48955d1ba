"""The picture: everything is in it, nothing overlaps, and the same topology gives the same file."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from autotune.errors import BackendUnavailable
from autotune.report.picture_layout import Box, Layout, layout
from autotune.report.picture_links import drawn_links, legend
from autotune.report.topology_picture import topology_svg
from autotune.topology.accelerators import Switch
from autotune.topology.devices import Core, Host, Nic, RdmaPort
from autotune.topology.graph import Topology
from autotune.topology.links import PciePath
from autotune.topology.machines import machine, machine_names
from autotune.topology.probes.linux import parse

MACHINES = Path(__file__).parents[1] / "golden" / "machines"
CPU_HOSTS = ("hybrid-cores", "kunpeng-4-numa", "two-sockets-smt-roce", "container-cpuset-quota", "board-without-numa")


def cpu_host(name: str) -> Topology:
    return parse(json.loads((MACHINES / name / "recording.json").read_text("utf-8")))


def every() -> list[tuple[str, Topology]]:
    known = [(name, machine(name)) for name in machine_names()]
    clusters = [("two", machine("dgx-h100", n_hosts=2)), ("forty", machine("atlas-800t-a2", n_hosts=40))]
    return [*known, *clusters, *((name, cpu_host(name)) for name in CPU_HOSTS)]


def overlap(a: Box, b: Box) -> bool:
    return (
        a.left < b.left + b.width - 1e-9
        and b.left < a.left + a.width - 1e-9
        and a.bottom < b.bottom + b.height - 1e-9
        and b.bottom < a.bottom + a.height - 1e-9
    )


def inside(a: Box, b: Box) -> bool:
    return (
        a.left >= b.left - 1e-9
        and a.left + a.width <= b.left + b.width + 1e-9
        and a.bottom >= b.bottom - 1e-9
        and a.bottom + a.height <= b.bottom + b.height + 1e-9
    )


@pytest.mark.parametrize(("name", "topology"), every(), ids=lambda value: value if isinstance(value, str) else "")
def test_boxes_stand_in_each_other_or_apart(name: str, topology: Topology) -> None:
    places = layout(topology)
    page = Box(left=0, bottom=0, width=places.width, height=places.height, device=None)
    assert all(inside(box, page) for box in places.boxes)
    for a, b in combinations(places.boxes, 2):
        assert not overlap(a, b) or inside(a, b) or inside(b, a), (name, a, b)


@pytest.mark.parametrize(("name", "topology"), every(), ids=lambda value: value if isinstance(value, str) else "")
def test_what_a_host_has_is_in_its_box(name: str, topology: Topology) -> None:
    places = layout(topology)
    hosts = {box.device.id: box for box in places.boxes if isinstance(box.device, Host)}
    assert len(hosts) == (len(topology.hosts) if len(topology.hosts) <= 4 else 3)
    for host_id, box in hosts.items():
        for seat in topology.accelerators(host_id):
            x, y = places.dies[seat.id]
            die = Box(left=x - 0.18, bottom=y - 0.18, width=0.36, height=0.36, device=None)
            assert inside(die, box), (name, seat.id)
        for other in places.boxes:
            if isinstance(other.device, Core | Nic | RdmaPort) and topology.host_of(other.device.id).id == host_id:
                assert inside(other, box), (name, other)


def dies_apart(places: Layout) -> bool:
    return all(max(abs(a[0] - b[0]), abs(a[1] - b[1])) >= 0.36 for a, b in combinations(places.dies.values(), 2))


@pytest.mark.parametrize("name", ["atlas-800t-a2", "atlas-800t-a3", "dgx-a100"])
def test_dies_do_not_cover_each_other(name: str) -> None:
    assert dies_apart(layout(machine(name)))


def test_many_hosts_are_counted() -> None:
    places = layout(machine("atlas-800t-a2", n_hosts=40))
    assert [box.text for box in places.boxes if box.device is None] == ["and 37 more hosts"]
    assert [box.device.id for box in places.boxes if isinstance(box.device, Switch)] == ["leaf0", "spine"]


@pytest.fixture(scope="module")
def svg() -> str:
    pytest.importorskip("matplotlib", reason="needs matplotlib, the extra `plot`")
    return topology_svg(machine("atlas-800t-a3", n_hosts=2))


def test_words_are_in_the_file(svg: str) -> None:
    texts = [
        "".join(text.itertext()).strip()
        for text in xml.etree.ElementTree.fromstring(svg).iter()
        if text.tag.endswith("}text")
    ]
    assert {"host0   16 x Ascend910, 64 GiB each", "host1   16 x Ascend910, 64 GiB each", "switch leaf0"} <= set(texts)
    assert {"SIO   204 GB/s, 0.2 us, datasheet", "HCCS_SW   196 GB/s, 0.5 us, datasheet"} <= set(texts)
    assert "RDMA   20 GB/s, 0.75 us, datasheet" in texts
    assert texts.count("15") == 4  # a die and its interface on each host


def test_every_link_is_a_line(svg: str) -> None:
    assert svg.count('id="sio"') == 2 * 8
    assert svg.count('id="hccs_sw"') == 2 * 16 * 14 // 2
    assert svg.count('id="rdma"') == 2 * 16


def test_the_same_topology_gives_the_same_bytes(svg: str) -> None:
    assert topology_svg(machine("atlas-800t-a3", n_hosts=2)) == svg
    assert "Matplotlib" not in svg
    assert "dc:date" not in svg


def test_cpus_and_measured_pairs_are_drawn() -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib, the extra `plot`")
    text = topology_svg(machine("two-socket-host"))
    assert "same NUMA node   18 GB/s, 0.1 us, datasheet" in text
    assert text.count('id="other socket"') == 2


def test_of_an_accelerators_interfaces_the_nearest_is_drawn() -> None:
    topology = machine("dgx-a100")
    near = topology.links["host0/gpu0", "host0/rdma-mlx5_0-1"]
    far = replace(near, dst="host0/rdma-mlx5_7-1", path=PciePath.SYS)
    beside = replace(near, src="host0/rdma-mlx5_0-1", dst="host0/rdma-mlx5_1-1", path=PciePath.PIX)
    with_more = topology.with_links([far, beside])
    drawn = drawn_links(with_more, layout(with_more))
    assert {words: len(links) for words, links in drawn.items()} == {"nvlink x12": 28, "pcie pxb": 8}
    assert [words for _, words in legend(with_more, drawn)] == [
        "NVLINK x12   300 GB/s, 0.6 us, datasheet",
        "PCIE PXB   27.2 GB/s, 1 us, datasheet",
    ]


def test_without_matplotlib_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BackendUnavailable, match="needs matplotlib") as caught:
        topology_svg(machine("atlas-800t-a2"))
    assert caught.value.remedy == "pip install 'mc2-autotune[plot]'"
