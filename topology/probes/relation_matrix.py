"""The matrices that say how accelerators are joined: ``npu-smi info -t topo``, ``nvidia-smi topo -m`` and ``-mp``.

In: the lines that such a command printed, or that somebody pasted. Out: a ``RelationMatrix``: a relation for each pair,
the CPUs and NUMA nodes that each device is near to, and what does not fit together. Pure. It knows words, not machines:
which device a name means is the caller's business.

Words are counted, columns of a terminal are not: a header may have lost its indent, rows may have gained one. Rows of a
tab-separated matrix have real empty cells. A row with too few or too many cells, a word that is in no legend (two glued
together by a terminal that wraps), or a piece of a row on a line of its own is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..cpulist import parse_cpu_list
from ..devices import DeviceId
from ..links import Link, LinkKind, PciePath, Provenance
from .matrix_grid import Grid, is_accelerator, read_grid
from .pasted import Line, Word, listed, unreadable

_ALLOWED = "one of X, SIO, HCCS, HCCS_SW, UB, NV1 (any number), PIX, PSB, PXB, PHB, NODE, SYS, SOC, NA"
_CPU_AFFINITY, _NUMA_AFFINITY, _GPU_NUMA = "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
_NEAR = (_CPU_AFFINITY, _NUMA_AFFINITY, _GPU_NUMA)
_NOTHING = ("", "NA", "N/A", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """How two devices are joined, in the words of links."""

    kind: LinkKind
    path: PciePath | None = None
    n_bonded: int | None = None


# PSB is a PCIe switch on the board of two GPUs, SOC what SYS was called before 2016.
_RELATIONS = {
    **{path.name: Relation(kind=LinkKind.PCIE, path=path) for path in PciePath},
    "PSB": Relation(kind=LinkKind.PCIE, path=PciePath.PIX),
    "SOC": Relation(kind=LinkKind.PCIE, path=PciePath.SYS),
    **{kind.name: Relation(kind=kind) for kind in (LinkKind.SIO, LinkKind.HCCS, LinkKind.HCCS_SW, LinkKind.UB)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationMatrix:
    """What one matrix says.

    Args:
        names: of all devices in it, in its order: ``NPU0``, ``Phy-ID12``, ``GPU3``, ``NIC0``, ``mlx5_0``.
        relations: by (row, column), as printed; where a row is missing, its column speaks for it. A pair of which the
            tool says that it does not know (NA) is not in it.
        cpus: near to a device, where the matrix says so.
        numa: numbers of the NUMA nodes near to a device, where the matrix says so.
        nic_names: what the legend calls ``NIC0``.
        unseen: in words for people.
        contradictions: in words for people.
    """

    names: tuple[str, ...]
    relations: Mapping[tuple[str, str], Relation]
    cpus: Mapping[str, frozenset[int]]
    numa: Mapping[str, frozenset[int]]
    nic_names: Mapping[str, str]
    unseen: tuple[str, ...]
    contradictions: tuple[str, ...]


def read_matrix(command: str, lines: Sequence[Line]) -> RelationMatrix | None:
    """The matrix among these lines; None where none of them belongs to one.

    Raises:
        ProbeError: a cell, a row or a header that cannot be read without guessing.
    """
    grid = read_grid(command, lines, _NEAR)
    if grid is None:
        return None
    words = {
        (row, column): _checked(command, word, row, column)
        for row, cells in grid.rows.items()
        for column, word in zip(grid.columns, cells, strict=True)
    }
    relations = {pair: relation for pair, word in words.items() if (relation := _relation(word.text)) is not None}
    for row, column in list(relations):
        if column not in grid.rows:
            relations[column, row] = relations[row, column]
    return RelationMatrix(
        names=grid.columns,
        relations=relations,
        cpus=_numbers(command, grid, _CPU_AFFINITY),
        numa=_numbers(command, grid, _NUMA_AFFINITY),
        nic_names=_nic_names(lines),
        unseen=tuple(_unseen(command, grid, words)),
        contradictions=tuple(_contradictions(command, words)),
    )


def links_of(matrix: RelationMatrix, ids: Mapping[str, DeviceId]) -> Iterator[Link]:
    """A link for each relation between devices that have an id; figures are not in a matrix.

    Args:
        ids: of the names of the matrix that are devices here.
    """
    for (row, column), relation in matrix.relations.items():
        if row in ids and column in ids:
            yield Link(
                src=ids[row],
                dst=ids[column],
                kind=relation.kind,
                latency_us=None,
                bandwidth_gb_per_s=None,
                source=Provenance.PROBE,
                path=relation.path,
                n_bonded=relation.n_bonded,
            )


def near_node(
    cpus: frozenset[int], nodes: Mapping[int, DeviceId], cpus_of_node: Mapping[int, frozenset[int]]
) -> DeviceId | None:
    """The NUMA node that these CPUs are in; None where they are in several, or in none that is known."""
    near = [number for number in nodes if cpus & cpus_of_node.get(number, frozenset())]
    return nodes[near[0]] if len(near) == 1 else None


def _checked(command: str, word: Word, row: str, column: str) -> Word:
    if row == column:
        if word.text != "X":
            raise unreadable(command, word, f"X, since {row} stands here against itself")
    elif word.text == "X":
        raise unreadable(command, word, f"how {row} and {column} are joined, since X stands for a device and itself")
    elif word.text not in _NOTHING[1:] and _relation(word.text) is None:
        raise unreadable(command, word, _ALLOWED)
    return word


def _relation(text: str) -> Relation | None:
    if match := re.fullmatch(r"NV([1-9][0-9]{0,2})", text):
        return Relation(kind=LinkKind.NVLINK, n_bonded=int(match[1]))
    return _RELATIONS.get(text)


def _numbers(command: str, grid: Grid, column: str) -> dict[str, frozenset[int]]:
    """The lists of numbers in a column beside the matrix, of those rows that have one."""
    found: dict[str, frozenset[int]] = {}
    for row, beside in grid.beside.items():
        word = beside.get(column)
        if word is not None and word.text not in _NOTHING:
            try:
                found[row] = parse_cpu_list(word.text)
            except ValueError as err:
                raise unreadable(command, word, f"{column} such as 0-3,8 ({err})") from err
    return found


def _nic_names(lines: Sequence[Line]) -> dict[str, str]:
    """The lines ``NIC0: mlx5_0``."""
    found: dict[str, str] = {}
    for line in lines:
        match = re.fullmatch(r"\s*(NIC[0-9]{1,5}):\s+(\S+)", line.text)
        if match is not None:
            found[match[1]] = match[2]
    return found


def _unseen(command: str, grid: Grid, words: Mapping[tuple[str, str], Word]) -> Iterator[str]:
    missing = [name for name in grid.columns if name not in grid.rows]
    if missing:
        yield f"{command}: no rows for {listed(missing)}; how they are joined to each other is not known"
    unknown = [f"{row} to {column}" for (row, column), word in words.items() if word.text in _NOTHING]
    if unknown:
        yield f"{command}: the tool does not know how these are joined: {listed(unknown)}"
    if _CPU_AFFINITY in grid.beside_columns:
        without = [name for name in grid.rows if is_accelerator(name) and not grid.beside[name]]
        if without:
            yield f"{command}: no CPU affinity beside {listed(without)}"


def _contradictions(command: str, words: Mapping[tuple[str, str], Word]) -> Iterator[str]:
    odd = [
        f"{row} to {column} is {word.text} and back is {words[column, row].text}"
        for (row, column), word in words.items()
        if row < column and (column, row) in words and _relation(word.text) != _relation(words[column, row].text)
    ]
    if odd:
        yield f"{command} is not symmetric: {listed(odd)}"
