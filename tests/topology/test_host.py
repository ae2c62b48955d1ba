"""One host from all its probes: what is asked, what is put together, what is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.topology import host
from autotune.topology.accelerators import Gpu, Npu, SuperPod
from autotune.topology.devices import Nic

Recorded = Callable[[str], dict[str, str]]
Plant = Callable[[dict[str, str], Path], None]
MACHINES = Path(__file__).parents[1] / "golden" / "machines"


def absent(_: Sequence[str]) -> str:
    return "!absent"


def test_programs_that_are_not_there_leave_no_trace(recorded: Recorded, plant: Plant, tmp_path: Path) -> None:
    recording = recorded("two-sockets-smt-roce")
    plant(recording, tmp_path)
    got = host.collect(str(tmp_path), absent)
    assert set(got) - {"/dev/shm"} == set(recording) - {"/dev/shm"}


def test_they_are_said_where_the_bus_has_accelerators(recorded: Recorded, plant: Plant, tmp_path: Path) -> None:
    recording = {p: text for p, text in recorded("pcie-npus-beside-roce").items() if p.startswith("/")}
    plant(recording, tmp_path)
    got = host.collect(str(tmp_path), absent)
    assert got["npu-smi info"] == "!absent"
    unseen = host.parse(got).unseen
    assert any("4 of vendor 19e5, device d802" in words for words in unseen)
    assert any("npu-smi" in words for words in unseen)


def test_a_vendor_s_answers_are_recorded_and_its_files_read(plant: Plant, tmp_path: Path, recorded: Recorded) -> None:
    recording = recorded("atlas-a2-stale-hccn-conf")
    plant({"/etc/hccn.conf": recording["/etc/hccn.conf"]}, tmp_path)
    got = host.collect(str(tmp_path), lambda words: recording.get(" ".join(words), "!exit 1: not asked for"))
    assert {place: got[place] for place in recording} == recording
    topology = host.parse({place: got[place] for place in recording})
    assert [nic.address for nic in topology.of(Nic)] == ["192.0.2.40", "192.0.2.141", "192.0.2.142", "192.0.2.43"]
    assert len(topology.contradictions) == 2


def test_the_driver_s_super_pod_is_around_the_host() -> None:
    from autotune.topology.recordings import load

    (found,) = load([MACHINES / "cluster-a3-super-pod" / "recording" / "hosta"]).hosts
    topology = host.parse(found.recording, name="hosta")
    assert (topology.hosts[0].name, topology.hosts[0].parent) == ("hosta", "pod0")
    assert [pod.name for pod in topology.of(SuperPod)] == ["0"]


def test_a_vendor_completes_what_hwloc_found() -> None:
    xml = (MACHINES / "hwloc-two-sockets-pci/recording/hosta/lstopo.xml").read_text("utf-8")
    query = "nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id --format=csv,noheader"
    lines = (
        "0, NVIDIA A100 80GB PCIe, 81920 MiB, 00000000:19:00.0\n1, NVIDIA A100 80GB PCIe, 81920 MiB, 00000000:1A:00.0"
    )
    bare = xml.replace('<info name="GPUModel" value="NVIDIA A100 80GB PCIe"/>', "")
    assert [gpu.model for gpu in host.parse({host.HWLOC: bare}).of(Gpu)] == [None, None]
    topology = host.parse({host.HWLOC: bare, query: lines})
    assert [(gpu.model, gpu.parent) for gpu in topology.of(Gpu)] == [("NVIDIA A100 80GB PCIe", "host0/numa0")] * 2


def test_outputs_alone_make_a_host() -> None:
    topology = host.parse({"npu-smi info -t topo": "\tNPU0\tNPU1\nNPU0\tX\tHCCS\nNPU1\tHCCS\tX\n"}, "host3")
    assert [npu.id for npu in topology.of(Npu)] == ["host3/npu0", "host3/npu1"]
    assert topology.unseen[0] == "processors, memory and interfaces of the host: not in the recording"


def test_an_empty_recording_is_a_host_of_which_nothing_is_known() -> None:
    topology = host.parse({})
    assert [device.id for device in topology.devices] == ["host0"]
    assert topology.unseen
