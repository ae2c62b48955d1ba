"""What the described machines do not show: unlike hosts, NUMA distances, CPUs beside accelerators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autotune.topology.accelerators import Gpu
from autotune.topology.devices import Core, Cpu, Host, Nic, NumaNode
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, PciePath, Provenance
from autotune.topology.machines import machine
from autotune.topology.matrix_view import matrix
from autotune.topology.probes.linux import parse

Recorded = Callable[[str], dict[str, str]]

DISTANCES = """\
distance  node0  node1  node2  node3
node0     10     12     20     22
node1     12     10     22     24
node2     20     22     10     12
node3     22     24     12     10
"""

PCIE = """\
      GPU0  GPU1  GPU10  mlx5_0  CPUs
GPU0  X     PIX   NODE   PHB     0-1
GPU1  PIX   X     NV     -       0-1
GPU10 -     NV    X      -       -

X     itself
-     no link known
NV#   so many bonded NVLinks
PIX   one PCIe switch
PHB   PCIe and the host bridge of a CPU
NODE  PCIe and the host bridges of one NUMA node
"""

UNLIKE = """\
host host0
      NPU0  NPU1  NUMA node
NPU0  X     -     6
NPU1  HCCS  X     6

host hostb
      NPU0  NPU1  NUMA node
NPU0  X     HCCS  6
NPU1  HCCS  X     6

X     itself
-     no link known
HCCS  links of Ascend, direct
"""


def test_distances_between_numa_nodes(recorded: Recorded) -> None:
    assert matrix(parse(recorded("kunpeng-4-numa"))) == DISTANCES


def test_nothing_for_one_node(recorded: Recorded) -> None:
    assert matrix(parse(recorded("virtual-machine"))) == ""


def link(src: str, dst: str, kind: LinkKind, path: PciePath | None = None) -> Link:
    return Link(
        src=src,
        dst=dst,
        kind=kind,
        latency_us=None,
        bandwidth_gb_per_s=None,
        source=Provenance.PROBE,
        path=path,
    )


def test_cpus_near_and_interfaces_that_are_linked() -> None:
    devices = (
        Host(id="h", parent=None),
        NumaNode(id="n", parent="h", number=0),
        *(Core(id=f"c{number}", parent="n") for number in range(2)),
        *(Cpu(id=f"p{number}", parent=f"c{number}", number=number, allowed=True) for number in range(2)),
        Gpu(id="g1", parent="n", number=1),
        Gpu(id="g0", parent="n", number=0),
        Gpu(id="g10", parent="h", number=10),
        Nic(id="mlx5_0", parent="n", name="mlx5_0"),
        Nic(id="eth0", parent="n", name="eth0"),
    )
    links = [
        link("g0", "g1", LinkKind.PCIE, PciePath.PIX),
        link("g1", "g0", LinkKind.PCIE, PciePath.PIX),
        link("g0", "g10", LinkKind.PCIE, PciePath.NODE),
        link("g1", "g10", LinkKind.NVLINK),
        link("g10", "g1", LinkKind.NVLINK),
        link("g0", "mlx5_0", LinkKind.PCIE, PciePath.PHB),
    ]
    topology = Topology(devices=devices, links={(each.src, each.dst): each for each in links})
    assert [line.split() for line in matrix(topology).splitlines()] == [line.split() for line in PCIE.splitlines()]


def test_hosts_that_differ_in_one_link_are_shown_apart() -> None:
    two = machine("atlas-800t-a2", n_hosts=2)
    kept = tuple(
        replace(device, name="hostb") if isinstance(device, Host) and device.id == "host1" else device
        for device in two.devices
        if getattr(device, "number", 0) in (0, 1, 6) and not isinstance(device, Nic) and "npu6" not in device.id
    )
    ids = {device.id for device in kept}
    links = {
        ends: each for ends, each in two.links.items() if set(ends) <= ids and ends != ("host0/npu0", "host0/npu1")
    }
    assert matrix(Topology(devices=kept, links=links)) == UNLIKE
