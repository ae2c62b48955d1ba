"""hwloc's XML: versions 1, 2 and 3, what it cannot tell, and what may not be read."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProbeError
from autotune.topology.accelerators import Gpu
from autotune.topology.devices import Cache, Core, Cpu, Nic, NumaNode, RdmaPort, Socket
from autotune.topology.links import LinkKind, PciePath
from autotune.topology.probes.hwloc_xml import is_hwloc_xml, parse
from autotune.topology.render import tree

RECORDED = Path(__file__).parents[1] / "golden/machines/hwloc-two-sockets-pci/recording/hosta/lstopo.xml"

VERSION_1 = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
  <object type="Machine" os_index="0" cpuset="0x0000000f" allowed_cpuset="0x0000000f" nodeset="0x3" local_memory="0">
    <distances nbobjs="2" relative_depth="1" latency_base="10.000000">
      <latency value="1.000000"/><latency value="2.100000"/><latency value="2.100000"/><latency value="1.000000"/>
    </distances>
    <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x1" local_memory="1073741824">
      <object type="Socket" os_index="0" cpuset="0x00000003" nodeset="0x1">
        <info name="CPUModel" value="A  CPU"/>
        <object type="Cache" cpuset="0x00000003" cache_size="2097152" depth="2" cache_type="0">
          <object type="Core" os_index="0" cpuset="0x00000003">
            <object type="PU" os_index="0" cpuset="0x00000001"/>
            <object type="PU" os_index="1" cpuset="0x00000002"/>
          </object>
        </object>
      </object>
      <object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">
        <object type="PCIDev" pci_busid="0000:00:03.0" pci_type="0200 [8086:1521] [0000:0000] 01" pci_link_speed="0">
          <object type="OSDev" name="eth0" osdev_type="2"/>
        </object>
        <object type="PCIDev" pci_busid="0000:00:04.0" pci_type="0c06 [15b3:6746] [0000:0000] b0" pci_link_speed="0">
          <object type="OSDev" name="mlx4_0" osdev_type="3"/>
        </object>
      </object>
    </object>
    <object type="NUMANode" os_index="1" cpuset="0x0000000c" nodeset="0x2" local_memory="1073741824">
      <object type="Socket" os_index="1" cpuset="0x0000000c" nodeset="0x2">
        <object type="PU" os_index="2" cpuset="0x00000004"/>
        <object type="PU" os_index="3" cpuset="0x00000008"/>
      </object>
    </object>
  </object>
</topology>
"""


def test_version_1() -> None:
    topology = parse(VERSION_1)
    assert [socket.number for socket in topology.of(Socket)] == [0, 1]
    assert [node.distances for node in topology.of(NumaNode)] == [(("host0/numa1", 21),), (("host0/numa0", 21),)]
    assert [(cache.level, cache.size_bytes) for cache in topology.of(Cache)] == [(2, 2 << 20)]
    assert [core.id for core in topology.of(Core)] == ["host0/core0", "host0/core2", "host0/core3"]
    assert (topology.hosts[0].cpu_model, topology.hosts[0].memory_bytes) == ("A CPU", 2 << 30)
    assert [(nic.name, nic.parent) for nic in topology.of(Nic)] == [("eth0", "host0/numa0")]
    assert [(port.name, port.port, port.state) for port in topology.of(RdmaPort)] == [("mlx4_0", 1, None)]


def test_version_2_with_pci() -> None:
    topology = parse(RECORDED.read_text("utf-8"))
    assert [cpu.number for cpu in topology.of(Cpu) if not cpu.allowed] == [6, 7]
    assert [(gpu.number, gpu.model, gpu.memory_bytes) for gpu in topology.of(Gpu)] == [
        (0, "NVIDIA A100 80GB PCIe", 80 << 30),
        (1, "NVIDIA A100 80GB PCIe", 80 << 30),
    ]
    wired = topology.links["host0/gpu0", "host0/gpu1"]
    assert (wired.kind, wired.bandwidth_gb_per_s) == (LinkKind.NVLINK, 200.0)
    near = topology.links["host0/gpu0", "host0/rdma-mlx5_0-1"]
    assert (near.path, near.bandwidth_gb_per_s) == (PciePath.PIX, 15.754)


def test_version_3_counts_kinds_of_devices_in_bits() -> None:
    text = VERSION_1.replace("<topology>", '<topology version="3.0">')
    text = text.replace('osdev_type="2"', 'osdev_type="16"').replace('osdev_type="3"', 'osdev_type="32"')
    topology = parse(text)
    assert [nic.name for nic in topology.of(Nic)] == ["eth0"]
    assert [port.name for port in topology.of(RdmaPort)] == ["mlx4_0"]


def test_what_identifies_is_not_taken() -> None:
    text = RECORDED.read_text("utf-8")
    assert "00:00:5e:00:53:01" in text
    shown = repr(parse(text))
    assert not any(word in shown for word in ("00:00:5e:00:53", "0000000000000", "hosta", "0000:5eff"))


def test_sets_of_many_words() -> None:
    text = VERSION_1.replace('os_index="3" cpuset="0x00000008"', 'os_index="67" cpuset="0x00000008,,0x00000000"')
    text = text.replace('cpuset="0x0000000c"', 'cpuset="0x8,,0x4"').replace(
        'allowed_cpuset="0x0000000f"', 'allowed_cpuset="0x00000008,,0x00000007"'
    )
    assert [(cpu.number, cpu.allowed) for cpu in parse(text).of(Cpu)] == [(n, True) for n in (0, 1, 2, 67)]


def test_a_set_without_end_is_refused() -> None:
    with pytest.raises(ProbeError, match=r"got '0xf\.\.\.f', expected a set such as 0x000000ff,0xffffffff"):
        parse(VERSION_1.replace('allowed_cpuset="0x0000000f"', 'allowed_cpuset="0xf...f"'))


def test_a_speed_that_is_no_number_is_refused() -> None:
    text = RECORDED.read_text("utf-8").replace('pci_link_speed="15.753846"', 'pci_link_speed="fast"')
    with pytest.raises(ProbeError, match="got 'fast', expected pci_link_speed, GB/s"):
        parse(text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("<topology>", "<topology", "line 4, column 3: not well-formed"),
        ('type="Machine"', 'type="Engine"', "an object of type 'Machine'"),
        ('type="PU"', 'type="Pew"', "expected CPUs"),
        ('cpuset="0x00000003"', 'cpuset="3-4"', "line 8, element 'object': got '3-4', expected a set such as"),
        ('os_index="1" cpuset="0x00000002"', 'os_index="one" cpuset="0x00000002"', "os_index, a whole number"),
        ('depth="2"', 'depth="9"', "a cache's depth from 1 to 5"),
        ('latency_base="10.000000"', 'latency_base="near"', "latency_base, a number"),
        ('<latency value="2.100000"/><latency value="2.100000"/>', "", "2 values for 2 nodes"),
        ('<!DOCTYPE topology SYSTEM "hwloc.dtd">', "\0", "not well-formed"),
    ],
)
def test_refuses(old: str, new: str, words: str) -> None:
    assert old in VERSION_1
    with pytest.raises(ProbeError) as caught:
        parse(VERSION_1.replace(old, new))
    assert words in caught.value.message
    assert caught.value.remedy == "write it again with: lstopo --of xml FILE"


BOMBS = {
    "entities": '<!DOCTYPE t [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><topology>&b;</topology>',
    "entity that is not used": '<!DOCTYPE t [<!ENTITY a "ha">]><topology/>',
    "file": '<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/passwd">]><topology>&a;</topology>',
    "parameter entity": '<!DOCTYPE t [<!ENTITY % a "ha">]><topology/>',
    "default attribute": '<!DOCTYPE t [<!ATTLIST topology version CDATA "x">]><topology/>',
    "element": "<!DOCTYPE t [<!ELEMENT topology ANY>]><topology/>",
    "notation": '<!DOCTYPE t [<!NOTATION n SYSTEM "n">]><topology/>',
}


@pytest.mark.parametrize("name", BOMBS)
def test_declarations_are_refused(name: str) -> None:
    with pytest.raises(ProbeError, match="a declaration"):
        parse(BOMBS[name])


def test_depth_is_bounded() -> None:
    with pytest.raises(ProbeError, match="more than 128 elements inside each other"):
        parse("<topology>" * 200_000)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [(VERSION_1, True), ("\ufeff\n<topology version='2.0'>", True), ("<html><topology-x>", False), ("topology", False)],
)
def test_is_recognised(text: str, is_one: bool) -> None:
    assert is_hwloc_xml(text) == is_one


@settings(max_examples=200)
@given(data=st.data(), version=st.booleans())
def test_a_mutated_file_is_an_error_or_a_topology(data: st.DataObject, version: bool) -> None:
    text = VERSION_1 if version else RECORDED.read_text("utf-8")
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        length = data.draw(st.sampled_from([0, 1, 2, 8, 60]))
        odd = st.sampled_from(["", '"', "<", "/>", "&a;", "0", "9" * 20, "0xf...f", "\0", "é", "-1", "PU"])
        text = text[:start] + data.draw(odd) + text[start + length :]
    with contextlib.suppress(ProbeError):
        assert tree(parse(text)).endswith("\n")
