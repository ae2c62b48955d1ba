"""``rocm-smi``: three tables and facts of one line each."""

from __future__ import annotations

from collections.abc import Callable

import accelerator_texts as texts
import hypothesis.strategies as st
import pytest
from hypothesis import given

from autotune.errors import ProbeError
from autotune.topology.accelerators import Gpu
from autotune.topology.links import LinkKind, PciePath
from autotune.topology.probes import rocm_smi
from autotune.topology.probes.findings import Findings
from autotune.topology.probes.rocm_smi import MEMORY, NAMES, TOPO

Recorded = Callable[[str], dict[str, str]]

PAIR = texts.rocm_topo(2, lambda a, b: 40, lambda a, b: 2, lambda a, b: "PCIE", [0, -1])


def parse(recording: dict[str, str]) -> Findings:
    return rocm_smi.parse(recording, "host0", {0: "host0/numa0", 3: "host0/numa3"}, {})


def gpus(findings: Findings) -> list[Gpu]:
    return [device for device in findings.devices if isinstance(device, Gpu)]


def test_eight_dies(recorded: Recorded) -> None:
    findings = parse(recorded("mi250x-8-dies"))
    assert len(gpus(findings)) == 8
    assert gpus(findings)[0] == Gpu(
        id="host0/amdgpu0",
        parent="host0/numa3",
        number=0,
        model="AMD Instinct MI250X",
        memory_bytes=68702699520,
        bus_id="0000:C1:00.0",
    )
    assert len(findings.links) == 56
    assert {link.kind for link in findings.links} == {LinkKind.XGMI}
    (passing,) = findings.unseen
    assert passing.startswith("XGMI through another GPU, its way and figures not told: GPU0 to GPU3")
    assert passing.endswith("and 8 more")  # 16 of the 28 pairs
    assert findings.contradictions == ()


def test_hops_name_the_path_of_pcie() -> None:
    (first, _) = parse({TOPO: PAIR}).links
    assert (first.kind, first.path) == (LinkKind.PCIE, PciePath.NODE)
    far = texts.rocm_topo(2, lambda a, b: 72, lambda a, b: 3, lambda a, b: "PCIE", [0, 1])
    assert {link.path for link in parse({TOPO: far}).links} == {PciePath.SYS}
    kind_only = PAIR[PAIR.index("=" * 5 + " Link Type") - 20 :]
    assert {link.path for link in parse({TOPO: kind_only}).links} == {None}


def test_a_node_that_is_not_known_is_the_host() -> None:
    assert [gpu.parent for gpu in gpus(parse({TOPO: PAIR}))] == ["host0/numa0", "host0"]


def test_one_gpu_needs_no_links() -> None:
    alone = texts.rocm_topo(1, lambda a, b: 0, lambda a, b: 0, lambda a, b: "", [0])
    assert parse({TOPO: alone}).unseen == ()
    assert len(gpus(parse({TOPO: alone}))) == 1


def test_what_is_missing_or_does_not_fit_is_said() -> None:
    assert parse({TOPO: "!absent"}) == Findings(unseen=("AMD GPUs: rocm-smi is not installed",))
    assert parse({"/proc/cpuinfo": ""}) == Findings()
    assert "which says 'ERROR: no amdgpu'" in parse({TOPO: "ERROR: no amdgpu"}).unseen[0]
    two = "GPU[0]\t\t: Card Series: \t\tA\nGPU[1]\t\t: Card Series: \t\tA\n"
    assert "no table 'Link Type between two GPUs'" in parse({NAMES: two}).unseen[0]
    three = {TOPO: PAIR, NAMES: two + "GPU[2]\t\t: Card Series: \t\tA\n"}
    assert parse(three).contradictions == ("rocm-smi has GPUs 0-1 in its tables and GPUs 0-2 beside them",)
    odd = PAIR.replace("GPU1   PCIE", "GPU1   XGMI")
    assert parse({TOPO: odd}).contradictions == (f"{TOPO} is not symmetric: GPU0 to GPU1 is PCIE and back is XGMI",)
    unknown = PAIR.replace("PCIE", "N/A ")
    assert "does not know how these are joined: GPU0 to GPU1" in parse({TOPO: unknown}).unseen[0]


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        ({TOPO: PAIR.replace("PCIE", "PCIEXGMI")}, "got 'PCIEXGMI', expected one of XGMI, PCIE"),
        ({TOPO: PAIR.replace("GPU1   40", "GPU1   far")}, "got 'far', expected a weight or a number of hops"),
        ({TOPO: PAIR + PAIR}, "one table 'Weight between two GPUs', and this is a second one"),
        ({TOPO: PAIR.replace("= Link Type", "= Lunk Type").replace("two GPUs =", "all GPUs =")}, "a title such as"),
        ({TOPO: PAIR.replace("GPU0   0            PCIE", "GPU0   PCIE         PCIE")}, "got 'PCIE', expected 0"),
        ({TOPO: PAIR.replace("Numa Node: 0", "Numa Node: x")}, "got 'x', expected a NUMA node"),
        ({MEMORY: "GPU[0]\t\t: VRAM Total Memory (B): much"}, "got 'much', expected bytes of memory"),
        ({NAMES: "GPU[0] Card Series"}, "expected a line such as 'GPU[0] : key: value'"),
    ],
)
def test_what_cannot_be_read_is_refused(recording: dict[str, str], words: str) -> None:
    with pytest.raises(ProbeError) as caught:
        parse(recording)
    assert words in caught.value.message
    assert caught.value.remedy


def test_collect_asks_for_what_parse_reads(recorded: Recorded) -> None:
    recording = recorded("mi250x-8-dies")
    asked = rocm_smi.collect(lambda words: recording[" ".join(words)])
    assert asked == {key: text for key, text in recording.items() if key.startswith("rocm-smi ")}
    assert rocm_smi.collect(lambda words: "!denied") == {TOPO: "!denied"}


@given(data=st.data())
def test_round_trip(data: st.DataObject) -> None:
    n_gpus = data.draw(st.integers(1, 9))
    pairs = [(a, b) for a in range(n_gpus) for b in range(a)]
    kinds = {pair: data.draw(st.sampled_from(["XGMI", "PCIE", "N/A"])) for pair in pairs}
    hops = {pair: data.draw(st.integers(1, 3)) for pair in pairs}

    text = texts.rocm_topo(
        n_gpus,
        lambda a, b: 15,
        lambda a, b: hops[max(a, b), min(a, b)],
        lambda a, b: kinds[max(a, b), min(a, b)],
        [0] * n_gpus,
    )
    findings = parse({TOPO: text})
    assert [gpu.number for gpu in gpus(findings)] == list(range(n_gpus))
    got = {(int(link.src[12:]), int(link.dst[12:])): link for link in findings.links}
    known = {pair for pair, kind in kinds.items() if kind != "N/A"}
    assert set(got) == known | {(b, a) for a, b in known}
    for (a, b), link in got.items():
        assert link.kind.name == kinds[max(a, b), min(a, b)]
        expected = {2: PciePath.NODE, 3: PciePath.SYS}.get(hops[max(a, b), min(a, b)])
        assert link.path is (expected if link.kind is LinkKind.PCIE else None)
