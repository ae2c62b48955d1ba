"""``nvidia-smi``: the query, the list and the matrix, on machines of all kinds."""

from __future__ import annotations

from collections.abc import Callable

import accelerator_texts as texts
import hypothesis.strategies as st
import pytest
from hypothesis import given

from autotune.errors import ProbeError
from autotune.topology.accelerators import Gpu
from autotune.topology.devices import Nic
from autotune.topology.links import LinkKind, PciePath
from autotune.topology.probes import nvidia_smi
from autotune.topology.probes.findings import Findings
from autotune.topology.probes.nvidia_smi import LIST, QUERY, TOPO, TOPO_PCIE

Recorded = Callable[[str], dict[str, str]]

NODES = {0: "host0/numa0", 1: "host0/numa1"}
CPUS = {0: frozenset(range(8)), 1: frozenset(range(8, 16))}
TWO = "0, NVIDIA L40S, 46068 MiB, 00000000:16:00.0\n1, NVIDIA L40S, 46068 MiB, 00000000:27:00.0\n"


def parse(recording: dict[str, str]) -> Findings:
    return nvidia_smi.parse(recording, "host0", NODES, CPUS)


def gpus(findings: Findings) -> list[Gpu]:
    return [device for device in findings.devices if isinstance(device, Gpu)]


def joined(cpus: tuple[str, str], numa: tuple[str, str], word: str = "SYS") -> str:
    names = ["GPU0", "GPU1"]
    near, nodes = (dict(zip(names, column, strict=True)) for column in (cpus, numa))
    return texts.nvidia_topo(names, lambda a, b: word, near, nodes)


@pytest.mark.parametrize(
    ("machine", "n_gpus", "n_links", "bonds"),
    [
        ("dgx1-v100", 8, 132, {1: 16, 2: 16}),
        ("a100-8x-nvswitch", 8, 240, {12: 56}),
        ("h100-8x-twelve-interfaces", 8, 380, {18: 56}),
        ("v100-virtual-phb", 8, 56, {1: 16, 2: 16}),
        ("one-gpu-no-matrix", 1, 0, {}),
    ],
)
def test_machines(recorded: Recorded, machine: str, n_gpus: int, n_links: int, bonds: dict[int, int]) -> None:
    findings = parse(recorded(machine))
    assert [gpu.number for gpu in gpus(findings)] == list(range(n_gpus))
    assert all(gpu.model for gpu in gpus(findings))
    assert len(findings.links) == n_links
    bonded = [link.n_bonded for link in findings.links if link.kind is LinkKind.NVLINK]
    assert {n: bonded.count(n) for n in bonded} == bonds
    assert findings.contradictions == findings.unseen == ()


def test_interfaces_that_linux_lists_are_not_made_again(recorded: Recorded) -> None:
    findings = parse(recorded("a100-8x-nvswitch"))
    assert not any(isinstance(device, Nic) for device in findings.devices)
    paths = {(link.src, link.dst): link.path for link in findings.links}
    assert paths["host0/gpu0", "host0/rdma-mlx5_0-1"] is PciePath.PXB
    findings = parse({TOPO: recorded("a100-8x-nvswitch")[TOPO]})
    assert [device.name for device in findings.devices if isinstance(device, Nic)] == [f"mlx5_{n}" for n in range(8)]


def test_affinity_places_a_gpu_only_in_one_node() -> None:
    def parents(cpus: tuple[str, str], numa: tuple[str, str]) -> list[str | None]:
        return [gpu.parent for gpu in gpus(parse({TOPO: joined(cpus, numa)}))]

    assert parents(("0-7", "8-15"), ("0", "1")) == ["host0/numa0", "host0/numa1"]
    assert parents(("0-15", "8-15"), ("0-1", "1")) == ["host0", "host0/numa1"]
    assert parents(("", ""), ("0", "N/A")) == ["host0/numa0", "host0"]
    assert nvidia_smi.parse({TOPO: joined(("0-7", "8-15"), ("0", "1"))}, "host0", {}, {}).devices[0].parent == "host0"


def test_what_sources_disagree_on_is_reported() -> None:
    swapped = joined(("8-15", "8-15"), ("0", "1"))
    assert parse({TOPO: swapped}).contradictions == (
        "GPU0: its NUMA affinity is host0/numa0, and its CPU affinity is in host0/numa1, which is taken",
    )
    near = joined(("", ""), ("0", "1"))
    findings = parse({QUERY: "0, NVIDIA L40S, 46068 MiB, 00000000:16:00.0", TOPO: near})
    assert findings.contradictions == ("nvidia-smi lists GPU 0, and its matrix has GPUs 0-1",)
    assert [gpu.model for gpu in gpus(findings)] == ["NVIDIA L40S", None]
    findings = parse({TOPO: near, TOPO_PCIE: joined(("", ""), ("0", "1"), "PHB")})
    assert findings.contradictions == (f"{TOPO} and {TOPO_PCIE} give different PCIe paths: GPU0 to GPU1, GPU1 to GPU0",)


def test_pcie_paths_alone_are_said() -> None:
    findings = parse({TOPO: "!exit 2: invalid argument", TOPO_PCIE: joined(("", ""), ("0", "1"), "NODE")})
    assert findings.unseen == (f"NVLinks: only {TOPO_PCIE} was read, which tells PCIe paths only",)
    assert {link.path for link in findings.links} == {PciePath.NODE}


def test_gpus_without_a_matrix() -> None:
    findings = parse({QUERY: TWO, TOPO: "!exit 2: invalid argument"})
    assert len(gpus(findings)) == 2
    assert findings.unseen == (f"links between GPUs: {TOPO} failed (exit 2: invalid argument)",)
    assert "no matrix" in parse({QUERY: TWO}).unseen[0]


def test_the_list_stands_in_for_the_query_and_parts_of_gpus_are_not_counted() -> None:
    listing = (
        "GPU 0: NVIDIA H100 PCIe (UUID: GPU-0)\n  MIG 1g.10gb     Device  0: (UUID: MIG-0)\nGPU 1: NVIDIA H100 PCIe\n"
    )
    findings = parse({QUERY: "!exit 6: unknown field", LIST: listing})
    assert [(gpu.number, gpu.model) for gpu in gpus(findings)] == [(0, "NVIDIA H100 PCIe"), (1, "NVIDIA H100 PCIe")]
    assert "1 MIG parts of GPUs: not counted, the GPUs are" in findings.unseen


def test_a_driver_that_fails_is_said() -> None:
    assert parse({QUERY: "!absent"}) == Findings(unseen=("GPUs: nvidia-smi is not installed",))
    assert parse({QUERY: "No devices were found"}).unseen == (f"GPUs: {QUERY} says 'No devices were found'",)
    assert parse({"/proc/cpuinfo": ""}) == Findings()


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        ({QUERY: "0, NVIDIA L40S, 46068 MiB"}, "expected index, name, memory and bus id"),
        ({QUERY: "0, NVIDIA L40S"}, "expected index, name, memory and bus id"),
        ({QUERY: TWO.replace("MiB", "GB")}, "line 1, column 17: got '46068 GB', expected memory such as 40960 MiB"),
        ({QUERY: TWO.replace("16:00.0", "16")}, "expected a bus id"),
        ({QUERY: TWO.replace("1, N", "0, N")}, "each GPU once, and 0 stands here again"),
        ({QUERY: TWO.replace("1, N", "one, N")}, "got 'one', expected a GPU's index"),
        ({LIST: "GPU 0: NVIDIA (UUID: GPU-0) GPU 1: NVIDIA"}, "expected a line such as 'GPU 0: NAME"),
    ],
)
def test_what_cannot_be_read_is_refused(recording: dict[str, str], words: str) -> None:
    with pytest.raises(ProbeError) as caught:
        parse(recording)
    assert words in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("machine", ["dgx1-v100", "h100-8x-twelve-interfaces"])
def test_collect_asks_for_what_parse_reads(recorded: Recorded, machine: str) -> None:
    recording = recorded(machine)
    asked = nvidia_smi.collect(lambda words: recording[" ".join(words)])
    assert asked == {key: text for key, text in recording.items() if key.startswith("nvidia-smi ")}
    assert nvidia_smi.collect(lambda words: "!absent") == {QUERY: "!absent"}


def test_collect_falls_back_and_keeps_nothing_that_identifies() -> None:
    answers = {LIST: "GPU 0: NVIDIA A (UUID: GPU-12ab)", TOPO_PCIE: "\tGPU0\nGPU0\t X \n"}
    asked = nvidia_smi.collect(lambda words: answers.get(" ".join(words), "!exit 2: no"))
    assert set(asked) == {QUERY, LIST, TOPO, TOPO_PCIE}
    assert asked[LIST] == "GPU 0: NVIDIA A"
    assert [gpu.model for gpu in gpus(parse(asked))] == ["NVIDIA A"]


@given(
    rows=st.lists(
        st.tuples(
            st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters=" -,"), min_size=1).map(
                "NVIDIA {}".format
            ),
            st.integers(1, 1 << 20),
            st.integers(0, 255),
        ),
        max_size=8,
    )
)
def test_round_trip_of_the_query(rows: list[tuple[str, int, int]]) -> None:
    text = "\n".join(f"{n}, {name}, {mib} MiB, 00000000:{bus:02X}:00.0" for n, (name, mib, bus) in enumerate(rows))
    got = gpus(parse({QUERY: text}))
    assert [(gpu.model, gpu.memory_bytes, gpu.bus_id) for gpu in got] == [
        (name.strip(), mib << 20, f"00000000:{bus:02X}:00.0") for name, mib, bus in rows
    ]
