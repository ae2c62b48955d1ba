"""PCI placement: classes of paths, the narrowest connection, shared bridges, and what sysfs does not tell."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.errors import ProbeError
from autotune.topology import host
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, PciePath, Provenance
from autotune.topology.probes.pci import (
    PciBridge,
    PciPlace,
    bandwidth_between,
    bus_id,
    lane_bandwidth_gb_per_s,
    path_between,
    pci_links,
    shared_bridges,
)

Recorded = Callable[[str], dict[str, str]]
BUS = "/sys/bus/pci/devices"


def place(*names: str, root: str = "pci0000:17", numa: int | None = 0, gb_per_s: float | None = 31.5) -> PciPlace:
    bridges = [
        PciBridge(name=name, has_link=index % 2 == 0, bandwidth_gb_per_s=None if index % 2 else gb_per_s)
        for index, name in enumerate(names)
    ]
    return PciPlace(root=root, bridges=tuple(bridges), numa=numa)


@pytest.mark.parametrize(
    ("a", "b", "path"),
    [
        (place("rp", "up", "d1"), place("rp", "up", "d2"), PciePath.PIX),
        (place("rp"), place("rp"), PciePath.PIX),
        (place("rp", "up", "d1"), place("rp", "up", "d2", "up2", "d3"), PciePath.PXB),
        (place("rp1"), place("rp2"), PciePath.PHB),
        (place(), place("rp2"), PciePath.PHB),
        (place("rp1"), place("rp2", root="pci0000:30"), PciePath.NODE),
        (place("rp1"), place("rp2", root="pci0000:30", numa=1), PciePath.SYS),
        (place("rp1"), place("rp2", root="pci0000:30", numa=None), None),
    ],
)
def test_classes(a: PciPlace, b: PciPlace, path: PciePath | None) -> None:
    assert path_between(a, b) is path
    assert path_between(b, a) is path


def test_the_narrowest_connection_counts_and_an_unknown_one_makes_it_unknown() -> None:
    wide, narrow = place("rp", "up", "d1"), place("rp", "up", "d2", gb_per_s=15.8)
    assert bandwidth_between(wide, narrow) == 15.8
    assert bandwidth_between(wide, place("rp9", root="other", gb_per_s=None)) is None


@pytest.mark.parametrize(
    ("gt_per_s", "gb_per_s"), [(2.5, 0.25), (8.0, 0.985), (16.0, 1.969), (32.0, 3.938), (64, 7.562)]
)
def test_lanes(gt_per_s: float, gb_per_s: float) -> None:
    assert lane_bandwidth_gb_per_s(gt_per_s) == pytest.approx(gb_per_s, abs=5e-4)


@pytest.mark.parametrize(
    ("text", "wanted"), [("00000000:3B:00.0", "0000:3b:00.0"), ("0000:C1:00.0", "0000:c1:00.0"), ("C1:00.0", None)]
)
def test_addresses_compare(text: str, wanted: str | None) -> None:
    assert bus_id(text) == wanted


def test_a_link_of_another_kind_stays_and_a_pcie_link_without_figures_gets_them() -> None:
    places = {"a": place("rp", "up", "d1"), "b": place("rp", "up", "d2")}
    known = Link(
        src="a", dst="b", kind=LinkKind.PCIE, latency_us=None, bandwidth_gb_per_s=None, source=Provenance.PROBE
    )
    wired = Link(
        src="b", dst="a", kind=LinkKind.NVLINK, latency_us=None, bandwidth_gb_per_s=None, source=Provenance.PROBE
    )
    (link,) = pci_links(places, [("a", "b")], {("a", "b"): known, ("b", "a"): wired})
    assert (link.src, link.bandwidth_gb_per_s, link.path, link.source) == (
        "a",
        31.5,
        PciePath.PIX,
        Provenance.DATASHEET,
    )


def test_a_bridge_that_some_share_is_a_limit_both_ways() -> None:
    places = {"a": place("rp", "up", "d1"), "b": place("rp", "up", "d2"), "c": place("rp2")}
    up, down = shared_bridges(places, "host0")
    assert (up.senders, up.receivers, up.bandwidth_gb_per_s) == (("a", "b"), ("c",), 31.5)
    assert (down.senders, down.receivers) == (("c",), ("a", "b"))
    assert shared_bridges({"a": places["a"], "b": places["b"]}, "host0") == []


@pytest.fixture
def beside(recorded: Recorded) -> Callable[..., Topology]:
    def parsed(**changes: str) -> Topology:
        return host.parse(recorded("pcie-npus-beside-roce") | {f"{BUS}/{key}": text for key, text in changes.items()})

    return parsed


def test_sysfs_places_npus_beside_their_interface(beside: Callable[..., Topology]) -> None:
    links = beside().links
    near, far = links["host0/npu0", "host0/rdma-mlx5_0-1"], links["host0/npu0", "host0/rdma-mlx5_1-1"]
    assert (near.path, near.bandwidth_gb_per_s) == (PciePath.PIX, 15.754)
    assert (far.path, far.bandwidth_gb_per_s) == (PciePath.SYS, 15.754)
    own = links["host0/npu0", "host0/npu1"]
    assert (own.path, own.bandwidth_gb_per_s, own.source) == (PciePath.PIX, 31.508, Provenance.DATASHEET)


@pytest.mark.parametrize("text", ["Unknown", "Unknown speed", "!EINVAL"])
def test_what_the_kernel_does_not_know_the_other_end_tells(beside: Callable[..., Topology], text: str) -> None:
    links = beside(**{"0000:1a:00.0/max_link_speed": text}).links
    assert links["host0/npu0", "host0/npu1"].bandwidth_gb_per_s == 31.508


@pytest.mark.parametrize(
    ("fact", "text"), [("max_link_speed", "16 GB/s"), ("max_link_speed", "0 GT/s"), ("max_link_width", "x16")]
)
def test_what_cannot_be_read_is_an_error(beside: Callable[..., Topology], fact: str, text: str) -> None:
    with pytest.raises(ProbeError, match=f"0000:1a:00.0/{fact}"):
        beside(**{f"0000:1a:00.0/{fact}": text})


def test_accelerators_that_no_tool_tells_about_are_said(recorded: Recorded) -> None:
    recording = recorded("pcie-npus-beside-roce")
    bare = {path: text for path, text in recording.items() if not path.startswith("npu-smi")}
    words = "accelerators on the PCI bus that no tool tells about: 4 of vendor 19e5, device d802"
    assert words in host.parse(bare).unseen
    assert words not in host.parse(recording).unseen
