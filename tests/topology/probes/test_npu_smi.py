"""``npu-smi``: the tables and lists of every generation, alone and together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import accelerator_texts as texts
import hypothesis.strategies as st
import pytest
from hypothesis import given

from autotune.errors import ProbeError
from autotune.topology.accelerators import Card, Npu, SuperPod
from autotune.topology.links import LinkKind
from autotune.topology.probes import npu_smi
from autotune.topology.probes.findings import Findings
from autotune.topology.probes.npu_smi_info import read_info
from autotune.topology.probes.npu_smi_lists import MappedChip, read_list, read_map, read_memory, read_pod
from autotune.topology.probes.pasted import lines_of

Recorded = Callable[[str], dict[str, str]]

GIB = 1 << 30
INFO, LIST, MAP, TOPO = "npu-smi info", "npu-smi info -l", "npu-smi info -m", "npu-smi info -t topo"
ROW = texts.ChipRow(npu=0, chip=0, name="910B3", bus_id="0000:C1:00.0", used_mb=3300, total_mb=65536)


def parse(recording: dict[str, str]) -> Findings:
    return npu_smi.parse(recording, "host0", {0: "host0/numa0"}, {0: frozenset(range(16))})


def npus(findings: Findings) -> list[Npu]:
    return [device for device in findings.devices if isinstance(device, Npu)]


def cards(findings: Findings) -> list[Card]:
    return [device for device in findings.devices if isinstance(device, Card)]


def refused(recording: dict[str, str]) -> str:
    with pytest.raises(ProbeError) as caught:
        parse(recording)
    assert caught.value.remedy
    return caught.value.message


def kinds(findings: Findings) -> dict[LinkKind, int]:
    found = [link.kind for link in findings.links]
    return {kind: found.count(kind) for kind in found}


@pytest.mark.parametrize(
    ("machine", "n_npus", "chip_name", "memory_gib", "expected"),
    [
        ("atlas-910a-two-quads", 8, "910A", 32, {LinkKind.HCCS: 24, LinkKind.PCIE: 32}),
        ("atlas-a2-mesh", 8, "910B2", 64, {LinkKind.HCCS: 56}),
        ("atlas-a2-interleaved-numa", 8, "910B4", 32, {LinkKind.HCCS: 56}),
        ("atlas-a2-container-two-of-eight", 2, "910B3", 64, {LinkKind.HCCS: 2}),
        ("atlas-pcie-sparse-ids", 8, "910B4-1", 64, {LinkKind.PCIE: 56}),
        ("atlas-a3-sixteen-dies", 16, "Ascend910", 64, {LinkKind.SIO: 16, LinkKind.HCCS_SW: 224}),
        ("atlas-a3-container-one-module", 2, "Ascend910", 64, {LinkKind.SIO: 2}),
        ("atlas-300i-duo", 8, "310P3", None, {LinkKind.PCIE: 56}),
        ("atlas-950-ub-pairs", 8, "Ascend950PR", 112, {LinkKind.UB: 8, LinkKind.PCIE: 48}),
    ],
)
def test_every_generation(
    recorded: Recorded, machine: str, n_npus: int, chip_name: str, memory_gib: int | None, expected: dict[LinkKind, int]
) -> None:
    findings = parse(recorded(machine))
    assert len(npus(findings)) == n_npus
    assert {npu.chip_name for npu in npus(findings)} == {chip_name}
    assert all(npu.memory_bytes for npu in npus(findings))
    assert memory_gib is None or {npu.memory_bytes for npu in npus(findings)} == {memory_gib * GIB}
    assert kinds(findings) == expected
    assert findings.contradictions == ()


@pytest.mark.parametrize(
    "machine", ["atlas-910a-two-quads", "atlas-a2-mesh", "atlas-a3-sixteen-dies", "atlas-950-ub-pairs"]
)
def test_collect_asks_for_what_parse_reads(recorded: Recorded, machine: str) -> None:
    recording = recorded(machine)
    # A serial number is there to be left out.
    asked = npu_smi.collect(lambda words: f"{recording[' '.join(words)]}\n\tSerial Number : 000XYZ")
    kept = {command: text for command, text in recording.items() if command.startswith("npu-smi ")}
    assert asked == kept


def test_a_host_without_the_tool_is_asked_once() -> None:
    recording = npu_smi.collect(lambda words: "!absent")
    assert recording == {INFO: "!absent"}
    assert parse(recording) == Findings(unseen=("NPUs: npu-smi is not installed",))
    assert parse({INFO: "!denied"}).unseen == ("NPUs: npu-smi may not be run",)
    assert parse({"/proc/cpuinfo": ""}) == Findings()


def test_a_busy_device_is_said_and_the_rest_is_built(recorded: Recorded) -> None:
    findings = parse(recorded("atlas-a2-held-by-others"))
    assert findings.devices == ()
    assert "-8020: another container or process holds the devices" in findings.unseen[0]
    assert "map of chips: npu-smi did not answer in time" in findings.unseen
    names = [f"NPU{number}" for number in range(4)]
    busy = recorded("atlas-a2-held-by-others") | {TOPO: texts.npu_topo(names, lambda a, b: "HCCS")}
    assert [npu.number for npu in npus(parse(busy))] == [0, 1, 2, 3]


def test_a_container_counts_from_0_and_keeps_the_hosts_numbers(recorded: Recorded) -> None:
    findings = parse(recorded("atlas-a2-container-two-of-eight"))
    assert [(npu.number, npu.physical_id, npu.address) for npu in npus(findings)] == [
        (0, 4, "198.51.100.64"),
        (1, 5, "198.51.100.65"),
    ]
    assert any(f"{LIST} counts 8, and 2 are seen" in words for words in findings.unseen)


def test_numbers_with_gaps_are_joined_by_the_map(recorded: Recorded) -> None:
    findings = parse(recorded("atlas-pcie-sparse-ids"))
    assert [(npu.number, npu.physical_id) for npu in npus(findings)][-1] == (7, 14)
    ends = {(link.src, link.dst): link.path for link in findings.links}
    assert ends["host0/npu0", "host0/npu3"] is not ends["host0/npu0", "host0/npu4"]


def test_dies_stand_in_their_module_and_the_pod_comes_first(recorded: Recorded) -> None:
    findings = parse(recorded("atlas-a3-sixteen-dies"))
    assert isinstance(findings.devices[0], SuperPod)
    assert findings.devices[0].name == "5"
    assert [card.number for card in cards(findings)] == list(range(8))
    assert {card.product for card in cards(findings)} == {"EXAMPLE-A3"}
    dies = npus(findings)
    assert [die.parent for die in dies[:3]] == ["host0/card0", "host0/card0", "host0/card1"]
    assert dies[3].super_device_id == str(83886080 + 131072 + 1)


def test_a_container_with_one_module(recorded: Recorded) -> None:
    findings = parse(recorded("atlas-a3-container-one-module"))
    assert [npu.number for npu in npus(findings)] == [10, 11]
    assert any("this command is not supported in a container" in words for words in findings.unseen)
    assert "HCCS is not healthy: NPU 11 (Fault)" in findings.unseen


def test_the_controller_of_a_card_is_no_chip(recorded: Recorded) -> None:
    findings = parse({MAP: recorded("atlas-300i-duo")[MAP]})
    assert [npu.number for npu in npus(findings)] == list(range(8))
    assert [card.number for card in cards(findings)] == [1, 2, 4, 5]


def test_an_a2_is_not_taken_for_an_a3(recorded: Recorded) -> None:
    """910B3 is the third speed grade of the A2; only the table tells how many dies a card has."""
    recording = {INFO: texts.npu_info([ROW])}
    (npu,) = npus(parse(recording))
    assert (npu.chip_name, npu.parent, cards(parse(recording))) == ("910B3", "host0", [])


def test_affinity_places_a_chip_only_in_one_node() -> None:
    near = texts.npu_topo(["NPU0", "NPU1"], lambda a, b: "HCCS", {"NPU0": "0-15", "NPU1": "16-31"})
    assert [npu.parent for npu in npus(parse({TOPO: near}))] == ["host0/numa0", "host0"]


def test_what_sources_disagree_on_is_reported(recorded: Recorded) -> None:
    first = dataclasses.replace(ROW, npu=3, name="Ascend910", second=6)
    rows = [first, dataclasses.replace(first, chip=1, second=7)]
    told = texts.npu_map([(3, 0, "0", "Ascend910"), (3, 1, "1", "Ascend910")], phy=True)
    findings = parse({INFO: texts.npu_info(rows, second="Phy-ID"), MAP: told})
    assert findings.contradictions[0] == (f"NPU 3 chip 0: {INFO} says Phy-ID 6 and {MAP} says 0; the first is taken")
    pods = recorded("atlas-a3-sixteen-dies") | {f"{INFO} -t spod-info -i 2 -c 1": texts.spod_info("6", "1")}
    findings = parse(pods)
    assert findings.contradictions[0].startswith("one host in several super pods: 5 (")
    assert not any(isinstance(device, SuperPod) for device in findings.devices)


def test_chips_that_only_another_list_has_are_said() -> None:
    told = texts.npu_map([(0, 0, "0", "Ascend 910B3"), (1, 0, "1", "Ascend 910B3")])
    strange = texts.npu_topo(["NPU0", "NPU6"], lambda a, b: "HCCS")
    findings = parse({INFO: texts.npu_info([ROW]), MAP: told, LIST: texts.npu_list({0: 1, 1: 1}), TOPO: strange})
    assert [npu.number for npu in npus(findings)] == [0]
    assert [words.split(":")[0] for words in findings.unseen] == ["NPU 1", "NPU 1 chip 0", "NPU6"]


def test_a_list_of_cards_with_several_chips_names_no_chip() -> None:
    findings = parse({LIST: texts.npu_list({0: 2, 1: 2})})
    assert findings.devices == ()
    assert findings.unseen == (f"NPUs 0-1: several chips each by {LIST}, of which nothing tells more",)


def test_a_list_that_was_cut_is_said() -> None:
    findings = parse({LIST: texts.npu_list({0: 1, 1: 1}, total=8)})
    assert [npu.number for npu in npus(findings)] == [0, 1]
    assert findings.unseen[0].startswith(f"NPUs: {LIST} counts 8, and 2 are seen")


def test_memory_of_a_chip_can_come_from_its_usages() -> None:
    usages = "\tNPU ID : 0\n\tChip Count : 1\n\tHBM Capacity(MB) : 65536\n\tChip ID : 0\n"
    table = texts.npu_info([ROW]).replace("/ 65536", "/ 0    ")
    findings = parse({INFO: table, f"{INFO} -t usages -i 0": usages})
    assert [npu.memory_bytes for npu in npus(findings)] == [64 * GIB]
    assert read_memory("", lines_of("\tDDR Capacity(MB) : 100\n\tChip ID : 1\n\tChip ID : 2\n")) == {1: 100 << 20}
    assert f"{INFO} -t usages -i 0" in npu_smi.collect(lambda words: table if len(words) == 2 else "!absent")


@pytest.mark.parametrize(
    ("pod", "expected"), [("3", "3"), ("0x10", "16"), ("-2", None), ("4294967295", None), ("NA", None)]
)
def test_the_ways_to_say_no_super_pod(pod: str, expected: str | None) -> None:
    place = read_pod("", lines_of(f"+---+\n| Super Pod ID : {pod}   | SDID : 7 |\n+---+"))
    assert place is not None
    assert (place.pod, place.super_device_id) == (expected, "7")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("0000:C1:00.0", "0000:C1"), "got '0000:C1', expected a bus id"),
        (lambda text: text.replace("65536", "65x36"), "expected used and total for each of"),
        (lambda text: text.replace("| Chip ", "| Chop "), "expected the titles 'NPU Name' and 'Chip'"),
        (lambda text: text.replace("Bus-Id", "Bus"), "and 'Bus-Id'"),
        (lambda text: text.replace("910B3   ", "        "), "expected the number and the name of an NPU"),
        (lambda text: text[: text.index("0000:C1") + 6], "a table line that starts and ends with |"),
        (
            lambda text: "".join(line for line in text.splitlines(True) if "0000:C1" not in line),
            "two lines for each chip",
        ),
        (lambda text: text + text, "NPU 0 chip 0 once, and it stands here again"),
        (lambda text: text.replace("| OK ", "|    "), "a health, such as 'OK'"),
    ],
)
def test_a_damaged_table_is_refused_with_its_place(change: Callable[[str], str], words: str) -> None:
    message = refused({INFO: change(texts.npu_info([ROW]))})
    assert words in message
    assert message.startswith(f"{INFO}, line ")


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        (LIST, "\tNPU ID : 3\n\tNPU ID : 3\n", "each NPU once"),
        (LIST, "\tNPU ID : three\n", "got 'three', expected an NPU's number"),
        (MAP, "0 0 0 Ascend 910B3\n", "the titles 'NPU ID'"),
        (MAP, "NPU ID  Chip ID  Chip Logic ID  Chip Name\n0  0  0\n", "3 numbers and a name"),
        (MAP, "NPU ID  Chip ID  Chip Logic ID  Chip Name\n0 0 0 Ascend 910B3\n0 0 1 Ascend 910B3\n", "once, not again"),
        (
            MAP,
            "NPU ID  Chip ID  Chip Logic ID  Chip Name\n0 0 0 Ascend910\n1 0 0 Ascend910\n",
            "both have the number 0",
        ),
        (MAP, "NPU ID  Chip ID  Chip Logic ID  Chip Name\n0 0 - Ascend910\n0 1 - Ascend910\n", "number cannot be told"),
        (MAP, "NPU ID  Chip ID  Chip Logic ID  Chip Name\nAscend 910B3\n", "an NPU's number at the start of a row"),
        (f"{INFO} -t spod-info -i 0 -c 0", "SDID : seven\n", "an id in a super pod"),
        (f"{INFO} -t spod-info -i 0 -c 0", "SDID : 7\nSDID : 8\n", "one value of 'SDID', and '7' stood before it"),
        (MAP, "NPU ID  Chip ID  Chip Logic ID  Chip Name\n0 0 0 Ascend 910B3 1 0 1 Ascend 910B3\n", "and a name"),
    ],
)
def test_a_damaged_list_is_refused(command: str, text: str, words: str) -> None:
    assert words in refused({INFO: texts.npu_info([ROW])} | {command: text} if "-t" in command else {command: text})


def test_the_columns_of_the_map_are_found_by_their_titles() -> None:
    lines = lines_of("  NPU ID  Slot ID  Chip ID  Chip Phy-ID  Chip Name\n  3  9  0  5  Ascend950DT\n")
    assert read_map(lines) == [MappedChip(npu_id=3, chip_id=0, logic_id=None, phy_id=5, name="Ascend950DT")]


chip_names = st.sampled_from(["910A", "910B3", "910B4-1", "Ascend910", "310P3", "Ascend950PR"])


@given(data=st.data())
def test_round_trip_of_table_list_and_map(data: st.DataObject) -> None:
    second = data.draw(st.sampled_from(["", "Phy-ID", "Device"]))
    ids = data.draw(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 3)), min_size=1, max_size=8, unique=True))
    ids.sort()
    rows = [
        texts.ChipRow(
            npu=npu,
            chip=chip,
            name=data.draw(chip_names),
            bus_id=data.draw(st.sampled_from(["0000:C1:00.0", "0000:01:00.0"])),
            used_mb=data.draw(st.integers(0, 65536)),
            total_mb=data.draw(st.integers(1, 131072)),
            second=index if second else None,
            health=data.draw(st.sampled_from(["OK", "Warning", "Alarm", "Critical"])),
            power=data.draw(st.sampled_from(["93.1", "-", "NA"])),
        )
        for index, (npu, chip) in enumerate(ids)
    ]
    text = texts.npu_info(rows, second=second, hbm=data.draw(st.booleans()), width=data.draw(st.integers(52, 90)))
    got = read_info(lines_of(text))
    assert [(row.npu_id, row.chip_id, row.name, row.health, row.bus_id, row.memory_bytes) for row in got] == [
        (row.npu, row.chip, row.name, row.health, row.bus_id, row.total_mb << 20) for row in rows
    ]
    seconds = [row.phy_id if second == "Phy-ID" else row.logic_id for row in got]
    assert seconds == [row.second for row in rows]
    phy = data.draw(st.booleans())
    mapped = read_map(lines_of(texts.npu_map([(r.npu, r.chip, str(i), r.name) for i, r in enumerate(rows)], phy=phy)))
    assert [(chip.npu_id, chip.chip_id, chip.logic_id, chip.name) for chip in mapped] == [
        (row.npu, row.chip, index, row.name) for index, row in enumerate(rows)
    ]
    counts = {npu: sum(row.npu == npu for row in rows) for npu, _ in ids}
    total, listing = read_list(lines_of(texts.npu_list(counts, product="A card")))
    assert total == len(counts)
    assert {npu.npu_id: npu.n_chips for npu in listing} == counts
