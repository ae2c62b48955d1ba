"""What the recordings do not show: a table of measured links, a super pod with all that is known of it."""

from __future__ import annotations

from collections.abc import Callable

from autotune.topology.accelerators import Card, Npu, SuperPod, Switch
from autotune.topology.devices import Host, Nic, NumaNode
from autotune.topology.fingerprint import fingerprint
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, PciePath, Provenance, SharedResource
from autotune.topology.probes.linux import parse
from autotune.topology.render import tree

Recorded = Callable[[str], dict[str, str]]

TABLE = """
link                            from      to     latency us     GB/s  source
same core                       cpu0      cpu16        0.04     40.0  probe
other socket, NUMA distance 20  cpu0      cpu1         0.32     11.2  probe
other socket, NUMA distance 20  cpu14     cpu15     unknown  unknown  user
pcie                            net-eno1  numa0     unknown     31.5  datasheet

not seen"""


def test_links_near_to_far_with_their_source(recorded: Recorded) -> None:
    figures = [
        ("host0/net-eno1", "host0/numa0", LinkKind.PCIE, None, 31.52, Provenance.DATASHEET),
        ("host0/cpu14", "host0/cpu15", LinkKind.SHM, None, None, Provenance.USER),
        ("host0/cpu0", "host0/cpu1", LinkKind.SHM, 0.318, 11.24, Provenance.PROBE),
        ("host0/cpu0", "host0/cpu16", LinkKind.SHM, 0.04, 40.0, Provenance.PROBE),
    ]
    links = [
        Link(src=src, dst=dst, kind=kind, latency_us=latency, bandwidth_gb_per_s=bandwidth, source=source)
        for src, dst, kind, latency, bandwidth, source in figures
    ]
    text = tree(parse(recorded("two-sockets-smt-roce")).with_links(links))
    assert TABLE in text


CLUSTER = """\
super pod 4
├─ host hosta: Kunpeng-920, 2 NPUs
│  └─ NUMA node 0
│     └─ card 3: Ascend 910C
│        ├─ NPU 6: Ascend910, memory 64GiB, bus 0000:9D:00.0, super device 37748736, 192.0.2.7, health OK, roce6, \
at switch port 0011-2233-4455/400GE1/1/20
│        └─ NPU 7: physical id 15, health Warning
└─ switch plane: joins 1 NPU
switch leaf0: joins 1 network interface

link      from       to     latency us     GB/s  source
hccs_sw   npu6       plane     unknown    196.0  datasheet
pcie pix  npu6       npu7      unknown  unknown  probe
rdma      net-roce6  leaf0        1.50     20.0  user

shared limit  senders  receivers  GB/s  source
root of card        2          1   5.0  user

contradictions
  /etc/hccn.conf has 192.0.2.8 for NPU 6, and hccn_tool 192.0.2.7

not seen or not counted
  GPUs: nvidia-smi is absent

fingerprint """


def test_everything_that_is_known_of_a_cluster() -> None:
    devices = (
        SuperPod(id="pod", parent=None, name="4"),
        Switch(id="pod/plane", parent="pod", name="plane"),
        Host(id="host0", parent="pod", name="hosta", cpu_model="Kunpeng-920"),
        NumaNode(id="host0/numa0", parent="host0", number=0),
        Card(id="host0/card3", parent="host0/numa0", number=3, product="Ascend 910C"),
        Npu(
            id="host0/npu6",
            parent="host0/card3",
            number=6,
            chip_name="Ascend910",
            memory_bytes=64 << 30,
            bus_id="0000:9D:00.0",
            physical_id=6,
            address="192.0.2.7",
            super_device_id="37748736",
            health="OK",
        ),
        Nic(
            id="host0/net-roce6",
            parent="host0/npu6",
            name="roce6",
            address="192.0.2.7",
            switch_port="0011-2233-4455/400GE1/1/20",
        ),
        Npu(id="host0/npu7", parent="host0/card3", number=7, physical_id=15, health="Warning"),
        Switch(id="leaf0", parent=None),
    )
    figures = [
        ("host0/npu6", "pod/plane", LinkKind.HCCS_SW, None, 196.0, Provenance.DATASHEET, None),
        ("host0/npu6", "host0/npu7", LinkKind.PCIE, None, None, Provenance.PROBE, PciePath.PIX),
        ("host0/net-roce6", "leaf0", LinkKind.RDMA, 1.5, 20.0, Provenance.USER, None),
    ]
    links = [
        Link(src=src, dst=dst, kind=kind, latency_us=latency, bandwidth_gb_per_s=speed, source=source, path=path)
        for src, dst, kind, latency, speed, source, path in figures
    ]
    root = SharedResource(
        name="root of card",
        senders=("host0/npu6", "host0/npu7"),
        receivers=("pod/plane",),
        bandwidth_gb_per_s=5.0,
        source=Provenance.USER,
    )
    topology = Topology(
        devices=devices,
        links={(link.src, link.dst): link for link in links},
        shared=(root,),
        unseen=("GPUs: nvidia-smi is absent",),
        contradictions=("/etc/hccn.conf has 192.0.2.8 for NPU 6, and hccn_tool 192.0.2.7",),
    )
    text = tree(topology)
    assert text.startswith(CLUSTER)
    assert text.removeprefix(CLUSTER).strip() == fingerprint(topology)
