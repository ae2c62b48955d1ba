"""Which NPU chips there are, from all that ``npu-smi`` says of them: the table, the list, the map and the matrix. Pure.

In: a recording. Out: ``Chips``: each chip once, with the number that HCCL counts it by and the number that the host's
tools know it by, and the matrix with the chips that its names mean. What a chip is, the first of these sources that
could be read decides; the others are compared with it, and what they have beyond it is said in ``unseen``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...errors import ProbeError
from .npu_smi_info import INFO, InfoRow, read_info
from .npu_smi_lists import LIST, MAP, ListedNpu, MappedChip, read_list, read_map
from .pasted import Line, listed, numbered, printed, shortened
from .recording import Recording
from .relation_matrix import RelationMatrix, read_matrix

TOPO = "npu-smi info -t topo"

_DRIVER_FAILED = re.compile(r"\bret is (-[0-9]{1,6})")
# What the driver's codes mean, where the same words have come with them: both are seen in containers.
_HELD = "another container or process holds the devices, or they are not mapped into this one"
_DRIVER_CODES = {"-8020": _HELD, "-8005": _HELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """An NPU chip (A2, 310P) or die (A3).

    Args:
        number: as HCCL counts it here: the logic id; the Phy-ID where there is none; the NPU's number where it has
            one chip and no tool tells either.
        host_number: as the host's tools and rank tables count it: the Phy-ID, or the number of an NPU with one chip.
        name: ``"910B3"``, ``"Ascend910"`` (A3): as printed. The driver of 24.1 prints ``"910B"`` for a 910A.
    """

    npu_id: int
    chip_id: int
    number: int
    host_number: int | None
    name: str | None = None
    memory_bytes: int | None = None
    bus_id: str | None = None
    health: str | None = None
    phy_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chips:
    """All chips, by number, and what was said of them together.

    Args:
        several: the numbers of the NPUs that carry, or are said to carry, more than one chip.
        products: of NPUs, by number.
        named: the chips that the names of the matrix mean.
    """

    chips: tuple[Chip, ...]
    several: frozenset[int]
    products: Mapping[int, str]
    matrix: RelationMatrix | None
    named: Mapping[str, Chip]
    unseen: tuple[str, ...]
    contradictions: tuple[str, ...]


def has_npu_smi(recording: Recording) -> bool:
    """Whether somebody asked ``npu-smi`` anything."""
    return any(command.startswith("npu-smi ") for command in recording)


def read_chips(recording: Recording) -> Chips:
    """Every chip that ``npu-smi`` names in this recording.

    Raises:
        ProbeError: a text that cannot be read without guessing, or chips that have no number.
    """
    unseen: list[str] = []
    rows = read_info(_lines(recording, INFO, "NPUs", unseen))
    total, listing = read_list(_lines(recording, LIST, "list of NPUs", unseen))
    mapped = read_map(_lines(recording, MAP, "map of chips", unseen))
    matrix = read_matrix(TOPO, _lines(recording, TOPO, "relations between NPUs", unseen))
    for command, found in ((INFO, rows), (LIST, listing), (MAP, mapped), (TOPO, matrix)):
        lines, _ = printed(recording, command)
        if lines and not found and not _driver_failure(lines):
            unseen.append(f"{command} printed nothing that is known here: {shortened(lines[0].text)!r}")
    several = frozenset(npu.npu_id for npu in listing if (npu.n_chips or 0) > 1) | _repeated(rows) | _repeated(mapped)
    contradictions: list[str] = []
    source: str | None = None
    if rows:
        source = INFO
        chips = [_from_info(row, mapped, several, contradictions) for row in rows]
    elif mapped:
        source = MAP
        chips = [_from_map(chip, several) for chip in mapped]
    elif listing and not several:
        source = LIST
        numbers = [npu.npu_id for npu in listing]
        chips = [Chip(npu_id=number, chip_id=0, number=number, host_number=number) for number in numbers]
    else:
        chips = [] if matrix is None else list(_from_matrix(matrix))
        if several:
            unseen.append(f"{numbered('NPU', several)}: several chips each by {LIST}, of which nothing tells more")
    _check_numbers(chips)
    if source is not None:
        unseen += _beyond(source, chips, total, listing, mapped)
    named = {} if matrix is None else _named(matrix, chips, several, unseen)
    return Chips(
        chips=tuple(sorted(chips, key=lambda chip: chip.number)),
        several=several,
        products={npu.npu_id: npu.product for npu in listing if npu.product is not None},
        matrix=matrix,
        named=named,
        unseen=tuple(dict.fromkeys(unseen)),
        contradictions=tuple(contradictions),
    )


def _lines(recording: Recording, command: str, what: str, unseen: list[str]) -> list[Line]:
    """What a command printed; where there is nothing, or the driver failed, that is said."""
    lines, why = printed(recording, command)
    if why and command in recording:
        unseen.append(f"{what}: {why}")
    failure = _driver_failure(lines)
    if failure is not None:
        unseen.append(f"{what}: {command} says {failure}")
    return lines


def _driver_failure(lines: Sequence[Line]) -> str | None:
    for line in lines:
        match = _DRIVER_FAILED.search(line.text)
        if match is not None:
            meaning = _DRIVER_CODES.get(match[1])
            return f"{shortened(line.text)!r}" + ("" if meaning is None else f" ({match[1]}: {meaning})")
    return None


def _repeated(rows: Sequence[InfoRow] | Sequence[MappedChip]) -> frozenset[int]:
    ids = [row.npu_id for row in rows]
    return frozenset(npu_id for npu_id in ids if ids.count(npu_id) > 1)


def _from_info(row: InfoRow, mapped: Sequence[MappedChip], several: frozenset[int], contradictions: list[str]) -> Chip:
    twin = next((chip for chip in mapped if (chip.npu_id, chip.chip_id) == (row.npu_id, row.chip_id)), None)

    def agreed(what: str, ours: int | None, theirs: int | None) -> int | None:
        if ours is not None and theirs is not None and ours != theirs:
            where = f"NPU {row.npu_id} chip {row.chip_id}"
            contradictions.append(f"{where}: {INFO} says {what} {ours} and {MAP} says {theirs}; the first is taken")
        return theirs if ours is None else ours

    told = MappedChip(
        npu_id=row.npu_id,
        chip_id=row.chip_id,
        logic_id=agreed("logic id", row.logic_id, None if twin is None else twin.logic_id),
        phy_id=agreed("Phy-ID", row.phy_id, None if twin is None else twin.phy_id),
        name=row.name,
    )
    return replace(_from_map(told, several), memory_bytes=row.memory_bytes, bus_id=row.bus_id, health=row.health)


def _from_map(chip: MappedChip, several: frozenset[int]) -> Chip:
    alone = chip.npu_id if chip.npu_id not in several else None
    host_number = alone if chip.phy_id is None else chip.phy_id
    number = host_number if chip.logic_id is None else chip.logic_id
    if number is None:
        raise ProbeError(
            f"NPU {chip.npu_id} chip {chip.chip_id}: neither {INFO} nor {MAP} gives a logic id or a Phy-ID, and it is "
            "not the only chip of its NPU, so that its number cannot be told",
            remedy=f"record the map of chips: {MAP} > FILE",
        )
    return Chip(
        npu_id=chip.npu_id,
        chip_id=chip.chip_id,
        number=number,
        host_number=host_number,
        name=chip.name,
        phy_id=chip.phy_id,
    )


def _from_matrix(matrix: RelationMatrix) -> Iterator[Chip]:
    for name in matrix.names:
        match = re.fullmatch(r"(NPU|Phy-ID)([0-9]+)", name)
        if match is not None:
            number = int(match[2])
            phy_id = number if match[1] == "Phy-ID" else None
            yield Chip(npu_id=number, chip_id=0, number=number, host_number=number, phy_id=phy_id)


def _check_numbers(chips: Sequence[Chip]) -> None:
    by_number: dict[int, Chip] = {}
    for chip in chips:
        other = by_number.setdefault(chip.number, chip)
        if other is not chip:
            raise ProbeError(
                f"NPU {other.npu_id} chip {other.chip_id} and NPU {chip.npu_id} chip {chip.chip_id} both have the "
                f"number {chip.number}, in {INFO} and {MAP}",
                remedy="record both on the same machine at the same time, without other programs starting or ending",
            )


def _beyond(
    source: str, chips: Sequence[Chip], total: int | None, listing: Sequence[ListedNpu], mapped: Sequence[MappedChip]
) -> Iterator[str]:
    """What the other sources have, and the one that the chips are from does not."""
    here = {(chip.npu_id, chip.chip_id) for chip in chips}
    npus = {npu_id for npu_id, _ in here}
    hidden = sorted({npu.npu_id for npu in listing} - npus)
    if hidden:
        yield f"{numbered('NPU', hidden)}: in {LIST} and not in {source}; {_HELD}"
    elif total is not None and total != len(npus):
        yield f"NPUs: {LIST} counts {total}, and {len(npus)} are seen; {_HELD}"
    unmapped = [f"NPU {chip.npu_id} chip {chip.chip_id}" for chip in mapped if (chip.npu_id, chip.chip_id) not in here]
    if unmapped:
        yield f"{listed(unmapped)}: in {MAP} and not in {source}; {_HELD}"
    for npu in listing:
        n_seen = sum(npu_id == npu.npu_id for npu_id, _ in here)
        if npu.n_chips is not None and 0 < n_seen < npu.n_chips:
            yield f"NPU {npu.npu_id}: {LIST} counts {npu.n_chips} chips, and {n_seen} are seen; {_HELD}"


def _named(
    matrix: RelationMatrix, chips: Sequence[Chip], several: frozenset[int], unseen: list[str]
) -> dict[str, Chip]:
    """What the names of the matrix mean: ``Phy-ID12`` a Phy-ID; ``NPU4`` an NPU's number, where NPUs have one chip."""
    names = [name for name in matrix.names if re.fullmatch(r"(?:NPU|Phy-ID)[0-9]+", name)]
    by_phy = {f"Phy-ID{chip.phy_id}": chip for chip in chips if chip.phy_id is not None}
    by_npu = {f"NPU{chip.npu_id}": chip for chip in chips if chip.npu_id not in several}
    by_number = {f"NPU{chip.number}": chip for chip in chips}
    readings = [by_phy, by_npu, by_number] if not several else [by_phy, by_number]
    best = max(readings, key=lambda reading: sum(name in reading for name in names))
    strangers = [name for name in names if name not in best]
    if strangers and chips:
        unseen.append(f"{listed(strangers)}: in {TOPO} and not among the NPUs seen; {_HELD}")
    absent = [f"NPU {chip.number}" for chip in chips if chip not in [best.get(name) for name in names]]
    if absent:
        unseen.append(f"{listed(absent)}: not in {TOPO}, so that nothing tells how they are joined to others")
    return {name: best[name] for name in names if name in best}
