"""AMD GPUs by ``rocm-smi``: which there are, their NUMA nodes, and how they are joined.

``collect`` asks; ``parse`` is pure. The matrix comes as three tables (weight, hops, kind of link) and has no CPU
affinity; the NUMA node of each GPU is a line of its own. XGMI counts one hop however many GPUs it passes, but a weight
of 15 for each link on the way, so that a larger weight tells a pair that has no link of its own. PCIe counts two hops
through one CPU socket and three through two (ROCm, "System optimization", MI200, hardware verification).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..accelerators import Gpu
from ..devices import DeviceId
from ..links import Link, LinkKind, PciePath, Provenance
from .findings import CommandRunner, Findings
from .matrix_grid import Grid, read_grid
from .pasted import Line, Word, listed, numbered, printed, shortened, unreadable, whole
from .recording import Recording

TOPO = "rocm-smi --showtopo"
NAMES = "rocm-smi --showproductname"
MEMORY = "rocm-smi --showmeminfo vram"
BUS = "rocm-smi --showbus"

_SECTION = re.compile(r"\s*=+ ([^=]+) =+")
_FACT = re.compile(r"\s*GPU ?\[?([0-9]{1,5})\]?\s*:\s*(?:\(Topology\) )?([^:]+):\s*(.*)")
_WEIGHT, _HOPS, _KIND = (f"{what} between two GPUs" for what in ("Weight", "Hops", "Link Type"))
_KINDS = {"XGMI": LinkKind.XGMI, "PCIE": LinkKind.PCIE}
_PATHS = {2: PciePath.NODE, 3: PciePath.SYS}  # which host bridges of a socket are passed is not told
_UNKNOWN = ("N/A", "UNKNOWN")
_XGMI_WEIGHT = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What the lines ``GPU[0] : key: value`` say of one GPU."""

    model: str | None = None
    memory_bytes: int | None = None
    bus_id: str | None = None
    node: int | None = None


def collect(run: CommandRunner) -> dict[str, str]:
    """Ask for the tables and the facts; only for the first where there is no ``rocm-smi``, or it may not be run."""
    recording: dict[str, str] = {}
    for command in (TOPO, NAMES, MEMORY, BUS):
        recording[command] = run(command.split())
        if recording[command] in ("!absent", "!denied"):
            break
    return recording


def parse(
    recording: Recording,
    host: DeviceId,
    nodes: Mapping[int, DeviceId],
    cpus_of_node: Mapping[int, frozenset[int]],
) -> Findings:
    """GPUs by number and the links between them; ``cpus_of_node`` is not asked, since the tool names nodes.

    Raises:
        ProbeError: a text that cannot be read without guessing.
    """
    if not any(command.startswith("rocm-smi ") for command in recording):
        return Findings()
    unseen: list[str] = []
    facts: dict[int, _Facts] = {}
    for command in (TOPO, NAMES, MEMORY, BUS):
        lines, why = printed(recording, command)
        if why and command in recording:
            unseen.append(f"AMD GPUs: {why}")
        for number, told in _facts(command, lines):
            facts[number] = _joined(facts.get(number, _Facts()), told)
    grids = _grids(printed(recording, TOPO)[0])
    if printed(recording, TOPO)[0] and not grids:
        first = printed(recording, TOPO)[0][0].text
        unseen.append(f"links between AMD GPUs: no table in {TOPO}, which says {shortened(first)!r}")
    in_grids = {int(name.removeprefix("GPU")) for grid in grids.values() for name in grid.columns}
    ids = {f"GPU{number}": _id(host, number) for number in sorted(in_grids | set(facts))}
    contradictions: list[str] = []
    if in_grids and facts and in_grids != set(facts):
        contradictions.append(
            f"rocm-smi has {numbered('GPU', in_grids)} in its tables and {numbered('GPU', facts)} beside them"
        )
    links: list[Link] = []
    if _KIND in grids:
        links = _links(grids, ids, unseen, contradictions)
    elif len(ids) > 1:
        unseen.append(f"links between AMD GPUs: no table '{_KIND}' in {TOPO}")
    return Findings(
        devices=tuple(_gpu(int(name[3:]), facts, host, nodes) for name in ids),
        links=tuple(links),
        unseen=tuple(unseen),
        contradictions=tuple(contradictions),
    )


def _grids(lines: Sequence[Line]) -> dict[str, Grid]:
    """The tables by their titles; a table that stands under no known title is an error."""
    sections: dict[str, list[Line]] = {"": []}
    title = ""
    for line in lines:
        match = _SECTION.fullmatch(line.text)
        if match is not None:
            title = match[1].strip()
            if title in sections and title in (_WEIGHT, _HOPS, _KIND):
                raise unreadable(TOPO, line.words[0], f"one table '{title}', and this is a second one")
            sections.setdefault(title, [])
        elif _FACT.fullmatch(line.text) is None:
            sections[title].append(line)
    grids: dict[str, Grid] = {}
    for name, inside in sections.items():
        grid = read_grid(TOPO, inside)
        if grid is None:
            continue
        if name in (_WEIGHT, _HOPS, _KIND):
            grids[name] = grid
        elif "between two GPUs" not in name:
            raise unreadable(TOPO, inside[0].words[0], f"a title such as '{_KIND}' above the table")
    return grids


def _links(
    grids: Mapping[str, Grid], ids: Mapping[str, DeviceId], unseen: list[str], contradictions: list[str]
) -> list[Link]:
    weights, hops = _figures(grids.get(_WEIGHT)), _figures(grids.get(_HOPS))
    links: list[Link] = []
    passing: list[str] = []
    unknown: list[str] = []
    kinds = {
        (row, column): word
        for row, words in grids[_KIND].rows.items()
        for column, word in zip(grids[_KIND].columns, words, strict=True)
    }
    for (row, column), word in kinds.items():
        if row == column:
            if word.text in _KINDS:
                raise unreadable(TOPO, word, f"0, since {row} stands here against itself")
            continue
        if word.text in _UNKNOWN:
            unknown.append(f"{row} to {column}")
            continue
        if word.text not in _KINDS:
            raise unreadable(TOPO, word, f"one of {', '.join((*_KINDS, *_UNKNOWN))}")
        if row < column and (column, row) in kinds and kinds[column, row].text != word.text:
            back = kinds[column, row].text
            contradictions.append(f"{TOPO} is not symmetric: {row} to {column} is {word.text} and back is {back}")
        kind = _KINDS[word.text]
        if kind is LinkKind.XGMI and row < column and weights.get((row, column), 0) > _XGMI_WEIGHT:
            passing.append(f"{row} to {column}")
        ends = [(row, column)] if column in grids[_KIND].rows else [(row, column), (column, row)]
        links += [
            Link(
                src=ids[src],
                dst=ids[dst],
                kind=kind,
                latency_us=None,
                bandwidth_gb_per_s=None,
                source=Provenance.PROBE,
                path=_PATHS.get(hops.get((row, column), 0)) if kind is LinkKind.PCIE else None,
            )
            for src, dst in ends
        ]
    if unknown:
        unseen.append(f"{TOPO}: the tool does not know how these are joined: {listed(unknown)}")
    if passing:
        unseen.append(f"XGMI through another GPU, its way and figures not told: {listed(passing)}")
    missing = [name for name in grids[_KIND].columns if name not in grids[_KIND].rows]
    if missing:
        unseen.append(f"{TOPO}: no rows for {listed(missing)} in '{_KIND}'")
    return links


def _figures(grid: Grid | None) -> dict[tuple[str, str], int]:
    if grid is None:
        return {}
    return {
        (row, column): whole(TOPO, word, "a weight or a number of hops")
        for row, words in grid.rows.items()
        for column, word in zip(grid.columns, words, strict=True)
        if word.text not in _UNKNOWN
    }


def _facts(command: str, lines: Sequence[Line]) -> Iterator[tuple[int, _Facts]]:
    for line in lines:
        match = _FACT.fullmatch(line.text)
        if match is None:
            if command != TOPO and re.search(r"GPU ?\[[0-9]", line.text):
                raise unreadable(command, line.words[0], "a line such as 'GPU[0] : key: value'")
            continue
        key = " ".join(match[2].split()).casefold()
        value = Word(text=match[3].strip(), line=line.number, column=match.start(3) + 1)
        yield int(match[1]), _fact(command, key, value)


def _fact(command: str, key: str, value: Word) -> _Facts:
    if value.text in _UNKNOWN or not value.text:
        return _Facts()
    match key:
        case "card series":
            return _Facts(model=value.text)
        case "vram total memory (b)":
            return _Facts(memory_bytes=whole(command, value, "bytes of memory") or None)
        case "pci bus":
            return _Facts(bus_id=value.text.upper())
        case "numa node":
            return _Facts() if value.text == "-1" else _Facts(node=whole(command, value, "a NUMA node"))
        case _:
            return _Facts()


def _joined(before: _Facts, after: _Facts) -> _Facts:
    return replace(
        before,
        model=after.model or before.model,
        memory_bytes=after.memory_bytes or before.memory_bytes,
        bus_id=after.bus_id or before.bus_id,
        node=before.node if after.node is None else after.node,
    )


def _id(host: DeviceId, number: int) -> DeviceId:
    """Not ``gpu0``: an NVIDIA GPU of that number may stand beside an AMD one."""
    return f"{host}/amdgpu{number}"


def _gpu(number: int, facts: Mapping[int, _Facts], host: DeviceId, nodes: Mapping[int, DeviceId]) -> Gpu:
    told = facts.get(number, _Facts())
    return Gpu(
        id=_id(host, number),
        parent=host if told.node is None else nodes.get(told.node, host),
        number=number,
        model=told.model,
        memory_bytes=told.memory_bytes,
        bus_id=told.bus_id,
    )
