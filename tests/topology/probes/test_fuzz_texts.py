"""Damaged texts: every parser gives a right answer or a ProbeError, never another exception, a hang or a silent loss.

Texts of recorded machines are cut, glued, doubled, shuffled, and strewn with NULs, colours and blanks, several times
over. What no damage may do is to take a device away that the text still names, without an error or a word in what was
not seen; each kind of text has its own way to count what it names, which is not the parser's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from autotune.errors import ProbeError
from autotune.topology.accelerators import Gpu, Npu
from autotune.topology.devices import DeviceId, Nic
from autotune.topology.probes import hccn, npu_smi, nvidia_smi, rocm_smi
from autotune.topology.probes.findings import Findings

MACHINES = Path(__file__).parents[2] / "golden" / "machines"
Parse = Callable[
    [Mapping[str, str], DeviceId, Mapping[int, DeviceId], Mapping[int, frozenset[int]]],
    Findings,
]
PARSERS: dict[str, Parse] = {
    "npu-smi": npu_smi.parse,
    "hccn_tool": hccn.parse,
    "/etc/hccn.conf": hccn.parse,
    "nvidia-smi": nvidia_smi.parse,
    "rocm-smi": rocm_smi.parse,
}


def load_texts() -> list[tuple[str, str]]:
    """(command, text) of all recordings, one of each text."""
    found: dict[tuple[str, str], None] = {}
    for path in sorted(MACHINES.glob("*/recording.json")):
        for command, text in json.loads(path.read_text("utf-8")).items():
            if command.split()[0] in PARSERS:
                found[re.sub(r"-i [0-9]+", "-i 0", command), text] = None
    return list(found)


TEXTS = load_texts()
COMMANDS = sorted({command for command, _ in TEXTS})


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    for _ in range(draw(st.integers(1, 3))):
        lines = text.split("\n")
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        place = draw(st.integers(0, len(text)))
        match draw(
            st.sampled_from(("cut", "head", "glue", "double", "all", "drop", "swap", "nul", "blanks", "wrap", "lose"))
        ):
            case "cut":
                text = text[:place]
            case "head":
                text = text[place:]
            case "glue":
                text = "\n".join([*lines[:at], "".join(lines[at : at + 2]), *lines[at + 2 :]])
            case "double":
                text = "\n".join([*lines[:at], *lines[at : at + 1] * 2, *lines[at + 1 :]])
            case "all":
                text = f"{text}\n{text}"
            case "drop":
                text = "\n".join([*lines[:at], *lines[at + 1 :]])
            case "swap":
                text = "\n".join([*lines[at:], *lines[:at]])
            case "nul":
                text = f"{text[:place]}\0{text[place:]}"
            case "blanks":
                text = f"{text[:place]}{' ' * draw(st.sampled_from((1, 7, 100_000)))}{text[place:]}"
            case "wrap":
                text = f"{text[:place]}\n{text[place:]}"
            case _:
                text = text[:place] + text[place + draw(st.integers(1, 9)) :]
    return text


def named_devices(command: str, text: str) -> int:
    """How many devices a text names, counted without its parser."""
    match command.removeprefix("npu-smi info").strip():
        case "":
            return len(re.findall(r"\| 0000:[0-9A-F]{2}:[0-9A-F]{2}\.0 +\|", text))
        case "-m":
            return len(re.findall(r"^\t? *[0-9]+ .*Ascend ?[0-9]", text, re.MULTILINE))
        case "-l":
            return len(set(re.findall(r"^\tNPU ID +: ([0-9]+)$", text, re.MULTILINE)))
        case "-t topo" | "nvidia-smi topo -m" | "nvidia-smi topo -mp" | "rocm-smi --showtopo":
            return len(set(re.findall(r"(?<!\S)(?:NPU|Phy-ID|GPU)[0-9]+(?!\S)", text)))
        case nvidia_smi.QUERY:
            return len(re.findall(r"^[0-9]+, .*,.*,.*", text, re.MULTILINE))
        case "rocm-smi --showproductname" | "rocm-smi --showmeminfo vram" | "rocm-smi --showbus":
            return len(set(re.findall(r"^GPU\[([0-9]+)\]", text, re.MULTILINE)))
        case "/etc/hccn.conf":
            return len(set(re.findall(r"^address_([0-9]+)=", text, re.MULTILINE)))
        case "hccn_tool -i 0 -ip -g":
            return len(set(re.findall(r"^ipaddr:.*", text, re.MULTILINE)))
        case _:
            return 0


def found_devices(findings: Findings) -> int:
    return len([device for device in findings.devices if isinstance(device, Npu | Gpu)])


def parse(command: str, text: str) -> Findings | None:
    """What the parser makes of it; None for the error that it may raise."""
    parser = PARSERS[command.split()[0]]
    try:
        return parser({command: text}, "host0", {0: "host0/numa0"}, {0: frozenset(range(16))})
    except ProbeError as err:
        if command in err.message and err.remedy:
            return None
        raise


def test_all_kinds_of_texts_are_here() -> None:
    assert {command.split()[0] for command in COMMANDS} == set(PARSERS)
    assert len(COMMANDS) >= 20


@pytest.mark.parametrize("command", COMMANDS)
def test_undamaged_texts_lose_nothing(command: str) -> None:
    """The counting above is right where nothing is damaged, so that it can judge where something is."""
    for of, text in TEXTS:
        if of == command and not text.startswith("!"):
            findings = parse(command, text)
            assert findings is not None
            assert found_devices(findings) >= named_devices(command, text) or findings.unseen


@pytest.mark.parametrize("command", COMMANDS)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_texts(command: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([text for of, text in TEXTS if of == command]).flatmap(damaged))
    findings = parse(command, text)
    if findings is None:
        return
    may_only_say_so = command == "npu-smi info -l" or text.startswith("!")
    assert found_devices(findings) >= named_devices(command, text) or (may_only_say_so and findings.unseen)
    assert all(link.src != link.dst for link in findings.links)


@pytest.mark.parametrize("command", COMMANDS)
@given(text=st.text(max_size=200))
def test_any_text(command: str, text: str) -> None:
    parse(command, text)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_megabyte_of_blanks(command: str) -> None:
    text = next(text for of, text in TEXTS if of == command)
    blanks = " " * 1_000_000
    for padded in (blanks, f"{blanks}\n{text}", f"{text}{blanks}", text.replace(":", f":{blanks}", 1)):
        parse(command, padded)
    parse(command, f"{text}\n" * 50)


@settings(max_examples=60)
@given(data=st.data())
def test_damage_in_one_text_of_many(data: st.DataObject) -> None:
    """Whole recordings, in which one text is damaged or gone: an error, or findings whose parts hang together."""
    name = data.draw(st.sampled_from(["atlas-a3-sixteen-dies", "atlas-a2-container-two-of-eight", "a100-8x-nvswitch"]))
    recording: dict[str, str] = json.loads((MACHINES / name / "recording.json").read_text("utf-8"))
    command = data.draw(st.sampled_from(sorted(key for key in recording if key.split()[0] in PARSERS)))
    recording[command] = data.draw(
        damaged(recording[command]) | st.sampled_from(["!absent", "!timeout", "!exit 1: no"])
    )
    try:
        parts = [parser(recording, "host0", {}, {}) for parser in (npu_smi.parse, hccn.parse, nvidia_smi.parse)]
    except ProbeError:
        return
    ids = [device.id for part in parts for device in part.devices]
    assert len(ids) == len(set(ids))
    for part in parts:
        for device in part.devices:
            assert device.parent in (None, "host0", *ids)
            assert isinstance(device, Nic) or device.parent != device.id
