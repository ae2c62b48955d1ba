"""Which output a loose file is, by what stands in it: so that pasted texts can stand in a recording.

In: a text and the name of its file. Out: entries of a recording, a whole topology, a rank table or a topology file. A
file may be one output, or a terminal's copy in which each output follows a prompt and its command. An output that does
not say which device it is about (``hccn_tool``, ``spod-info``) needs that command, in the text or as the file's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..errors import ProbeError
from .document import from_json as topology_from_json
from .graph import Topology
from .host import HWLOC
from .probes.hwloc_xml import is_hwloc_xml
from .rank_table import RankTable, TopologyFile, is_rank_table, is_topology_file, read_rank_table, read_topology_file
from .recording_file import from_json as recording_from_json
from .recording_file import is_recording

KINDS = (
    "a recording or a topology of autotune (JSON), a rank table, a topology file, hwloc XML, /etc/hccn.conf, output of "
    "npu-smi info (also -l, -m, -t topo, -t usages, -t spod-info, -t hccs), hccn_tool, nvidia-smi (topo -m, topo "
    "-mp, -L, --query-gpu) or rocm-smi, or a terminal's copy with prompts and commands"
)
_CONF = "/etc/hccn.conf"
_COMMAND = r"(?:npu-smi|hccn_tool|nvidia-smi|rocm-smi|lstopo|cat /)[^\n]*"
_PROMPT = re.compile(rf"(?:[^\n$#>|]{{0,80}}[$#>] ?)({_COMMAND})")
_HCCN_QUERY = re.compile(r"(?:ip|link|net_health|lldp|gateway|stat|tls)")
_FILE_OF_HCCN = re.compile(rf"hccn_tool[ _-]+(?:-?i[ _]*)?([0-9]{{1,5}})[ _-]+({_HCCN_QUERY.pattern})(?:[ _]-?g)?")
_FILE_OF_CHIP = re.compile(
    r"npu.smi[ _-]+info[ _]-?t[ _](spod.info|hccs)[ _-]+i[ _]?([0-9]{1,5})[ _-]+c[ _]?([0-9]{1,5})"
)
_NEEDS_COMMAND = (
    (
        re.compile(r"^(ipaddr|link status|net health status|packet statistics|default gateway|Chassis ID TLV)\b", re.M),
        (
            "an answer of hccn_tool, which does not say of which NPU",
            "name the file after its command: 'hccn_tool -i 0 -ip -g.txt' (or hccn_tool_0_ip.txt)",
        ),
    ),
    (
        re.compile(r"^\s*(SDID|Super Pod ID|hccs health status)\b", re.M),
        (
            "an answer of npu-smi about one chip, which does not say of which",
            "name the file after its command: 'npu-smi info -t spod-info -i 0 -c 0.txt'",
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """What a file holds; all but one part is empty."""

    entries: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False  # the entries are all of one host
    topology: Topology | None = None
    rank_table: RankTable | None = None
    topology_file: TopologyFile | None = None


def recognise(text: str, file: str) -> Recognised:
    """What a file holds.

    Args:
        file: its path, for errors; its last part may name the command.

    Raises:
        ProbeError: it is nothing that is known, or its kind is plain and the text is damaged.
    """
    if is_topology_file(text):
        return Recognised(topology_file=read_topology_file(text, file))
    if is_rank_table(text):
        return Recognised(rank_table=read_rank_table(text, file))
    if is_hwloc_xml(text):
        return Recognised(entries={HWLOC: text}, whole=True)
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return _json(text, file)
    copied = _copied(text)
    if copied:
        return Recognised(entries=copied)
    command = _command_of_name(file) or _command_of_text(text)
    if command is not None:
        return Recognised(entries={command: text})
    raise _unknown(text, file)


def _json(text: str, file: str) -> Recognised:
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        raise _unknown(text, file) from None
    if is_recording(value):
        return Recognised(entries=recording_from_json(text, file), whole=True)
    inner = value.get("topology", value) if isinstance(value, dict) else value
    if isinstance(inner, dict) and "devices" in inner and "schema_version" in inner:
        try:
            return Recognised(topology=topology_from_json(json.dumps(inner)))
        except ProbeError as err:
            raise ProbeError(f"{file}: {err.message}", remedy=err.remedy) from err
    raise _unknown(text, file)


def _copied(text: str) -> dict[str, str]:
    """The outputs of a terminal's copy, by command; empty where no line has a prompt and a command.

    A command that stands twice counts by its last output, as in a terminal.
    """
    found: dict[str, list[str]] = {}
    here: list[str] | None = None
    for line in text.removeprefix("\ufeff").split("\n"):
        match = _PROMPT.fullmatch(line.rstrip())
        if match is not None:
            words = " ".join(match[1].split())
            here = found[words.removeprefix("cat ")] = []
        elif re.fullmatch(r"[^\n|]{0,80}[$#] ?\S[^\n]*", line) and here is not None and "@" in line:
            here = None  # another command, which nobody here reads
        elif here is not None:
            here.append(line)
    return {command: "\n".join(lines) for command, lines in found.items()}


def _command_of_name(file: str) -> str | None:
    name = re.sub(r"\.(txt|log|out)$", "", file.replace("\\", "/").rpartition("/")[2])
    hccn = _FILE_OF_HCCN.fullmatch(name)
    if hccn is not None:
        return f"hccn_tool -i {hccn[1]} -{hccn[2]} -g"
    chip = _FILE_OF_CHIP.fullmatch(name)
    return None if chip is None else f"npu-smi info -t {chip[1].replace('_', '-')} -i {chip[2]} -c {chip[3]}"


def _has(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text: compiled.search(text) is not None


# In this order: the first that fits. Escape sequences of colours may stand before a word.
_TEXTS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (_has(r"^\|[^\n]*Bus-Id"), "npu-smi info"),
    (_has(r"^\s*Total Count\s*:"), "npu-smi info -l"),
    (_has(r"^\s*NPU ID\s+(?:Slot ID\s+)?Chip ID\b"), "npu-smi info -m"),
    (_has(r"(?:Link Type|Weight|Hops) between two GPUs"), "rocm-smi --showtopo"),
    (_has(r"^(?:\x1b\[[0-9;]*m|[\s])*(?:NPU|Phy-ID)[0-9]+\b"), "npu-smi info -t topo"),
    (_has(r"^(?:\x1b\[[0-9;]*m|[\s])*(?:GPU)[0-9]+(?:\x1b\[[0-9;]*m)?[ \t]+\S"), "nvidia-smi topo -m"),
    (_has(r"^\s*GPU [0-9]+: [^\n]+"), "nvidia-smi -L"),
    (
        _has(r"^\s*[0-9]+\s*,[^\n]*,\s*[0-9]+ MiB\s*,\s*[0-9A-Fa-f:.]+\s*$"),
        "nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id --format=csv,noheader",
    ),
    (_has(r"^\s*(?:address|netmask|gateway)_[0-9]+\s*="), _CONF),
)
_USAGES = re.compile(r"^\s*NPU ID\s*:\s*([0-9]{1,5})\s*$(?=.*?(?:HBM|DDR) Capacity)", re.MULTILINE | re.DOTALL)


def _command_of_text(text: str) -> str | None:
    start = text[: 64 << 10]
    found = next((command for fits, command in _TEXTS if fits(start)), None)
    if found is None and (match := _USAGES.search(start)) is not None:
        return f"npu-smi info -t usages -i {match[1]}"
    return found


def _unknown(text: str, file: str) -> ProbeError:
    first = next((line.strip() for line in text.split("\n", 50) if line.strip()), "")
    shown = first if len(first) <= 80 else f"{first[:77]}..."
    for pattern, (what, remedy) in _NEEDS_COMMAND:
        if pattern.search(text[: 64 << 10]):
            return ProbeError(f"{file} begins {shown!r}: {what}", remedy=remedy)
    return ProbeError(
        f"{file} begins {shown!r}, which is none of the kinds known: {KINDS}",
        remedy="give one of these; docs/topology.md says how each is written",
    )
