"""MPICH's selection tree (JSON), which ``MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE`` puts in the place of its own.

In:  a table, MPICH's own tree. Out: the merged tree, and that of its shared memory where that one has a say.
May not touch: what shared memory carries out itself (mpich_device.py).

The file replaces the whole tree, so ours is merged into the one that MPICH would use otherwise, the request's base:
outside the table's rank counts and sizes, and for operations that an algorithm is not for, the base decides as before.

Source: pmodels/mpich v5.0, src/mpi/coll/src/csel.c. A node's children are tried in order; within a child there is no
way back, so each chain of ours ends in ``=any``. Sizes are read by atoi, so there are none above 2 GiB - 1. The file is
read through mmap up to its end, without a NUL: one whose length is a multiple of the page size would be read beyond it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import AutotuneError
from ..table import TuningTable
from ..table.reader import read_json
from .decisions import Line, lines_of, merged
from .exporter import PLAIN, Exported, Request, nothing_left
from .mpich_device import Tree, device_tree
from .words import library

MAX_SIZE = (1 << 31) - 1
_PAGE_BYTES = 4096  # larger pages are multiples of it
_VARIABLE = "MPIR_CVAR_{}COLL_SELECTION_TUNING_JSON_FILE"
_GUARDS = {"is_op_built_in": ("no", "yes"), "is_commutative": ("no", "yes"), "is_sendbuf_inplace": ("yes", "no")}
"""Which answer leaves the call to the base, and which one takes our rules."""


@dataclass(frozen=True, slots=True)
class MpichExporter:
    """The merged tree."""

    name: str = "mpich"
    suffix: str = ".json"
    summary: str = "MPICH 4.2 and newer: selection of algorithms, merged into MPICH's own tree (`--base`)"
    library: str = "mpich"
    loses: tuple[str, ...] = (
        "element types and operations: one tree for each collective and rank count",
        "where ranks sit: rules hold for every communicator of that many ranks",
        "sizes from 2 GiB, and segments",
        "scatter and gather, whose elements MPICH counts instead of bytes",
    )
    checked: str = (
        "loaded by MPICH 5 on a CPU, whose sums then came out in the chosen order (tests/exchange/test_real_mpi.py)"
    )

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        if request.base is None:
            raise AutotuneError(
                "the file replaces MPICH's whole selection tree, so that tree is needed to merge with",
                remedy="--base libmpi.so of your MPICH, or maint/tuning/coll/mpir/generic.json of its source",
            )
        base = base_tree(request.base)
        words = library(self.library)
        lines, notes = lines_of(table, request, words, sees=lambda key: None, check=_objection)
        if not lines:
            raise nothing_left(self.name, notes, table, request)
        if any(line.high > MAX_SIZE for line in lines):
            notes = (*notes, f"sizes above {MAX_SIZE} bytes are left to MPICH, which reads no larger number")
        by_call: dict[str, dict[int, list[Line]]] = {}
        for line in lines:
            by_call.setdefault(line.call.name, {}).setdefault(line.key.n_ranks, []).append(line)
        merged_tree = dict(base)
        for name, by_ranks in by_call.items():
            root = f"collective={name}"
            inner = base.get(root, {}).get("comm_type=intra")
            if not inner:
                raise AutotuneError(
                    f"the base tree has no {root} with comm_type=intra to merge into",
                    remedy="give --base the tree of the MPICH that will read the file",
                )
            merged_tree[root] = {**base[root], "comm_type=intra": _by_ranks(by_ranks, inner, _leaf)}
        device = device_tree(by_call, _by_ranks)
        return Exported(
            text=_written(merged_tree),
            beside=None if device is None else _written(device),
            notes=notes,
            usage=(f"export {_VARIABLE.format('')}={{path}}",)
            if device is None
            else (f"export {_VARIABLE.format('')}={{path}}", f"export {_VARIABLE.format('CH4_POSIX_')}={{beside}}"),
        )


def _written(tree: Tree) -> str:
    text = json.dumps(tree, indent=1) + "\n"
    return text if len(text) % _PAGE_BYTES else text + "\n"


def base_text(raw: bytes, source: str) -> str:
    """The JSON of MPICH's tree: a file of it, or the one that stands in a libmpi.so.

    Raises:
        AutotuneError: the file holds none.
    """
    if not raw.startswith(b"\x7fELF"):
        return raw.decode("utf-8", "replace")
    # Three trees stand there; those of the devices speak of compositions, the one that is wanted does not.
    for match in re.finditer(rb"\{\"collective=[^\0]*\0", raw):
        text = match[0][:-1].decode("ascii", "replace")
        if "algorithm=MPIR_Allreduce" in text and "composition=" not in text:
            return text
    raise AutotuneError(
        f"{source}: holds no selection tree of MPICH", remedy="give the libmpi.so of MPICH 4.2 or newer"
    )


def base_tree(text: str) -> Tree:
    """MPICH's tree from its JSON.

    Raises:
        AutotuneError: not such a tree.
    """
    root = read_json(text, "--base")
    found = root.entries()
    if "collective=allreduce" not in found:
        raise AutotuneError(
            "--base holds JSON, but no 'collective=allreduce': it is no selection tree of MPICH",
            remedy="--base maint/tuning/coll/mpir/generic.json, or the libmpi.so that holds it",
        )
    tree: Tree = json.loads(text)
    return tree


def _objection(line: Line) -> str | None:
    n = line.key.n_ranks
    if line.facts.get("pow2_ranks") and n & (n - 1):
        return f"{line.word} is for powers of two, not for {n} ranks"
    if line.low > MAX_SIZE:
        return "MPICH reads no size from 2 GiB"
    return None


def _by_ranks(by_ranks: Mapping[int, Sequence[Line]], base: Tree, leaf: Callable[[Line, Tree], Tree]) -> Tree:
    tree: Tree = {}
    for n_ranks, lines in sorted(by_ranks.items()):
        if f"comm_size<={n_ranks - 1}" not in tree:
            tree[f"comm_size<={n_ranks - 1}"] = base
        tree[f"comm_size<={n_ranks}"] = _by_size(lines, base, leaf)
    return {**tree, "comm_size=any": base}


def _by_size(lines: Sequence[Line], base: Tree, leaf: Callable[[Line, Tree], Tree]) -> Tree:
    test = lines[0].call.facts["test"]
    tree: Tree = {}
    at = 0
    for line in merged(lines):
        if line.low > at:
            tree[f"{test}<={line.low - 1}"] = base
        tree[f"{test}<={min(line.high, MAX_SIZE)}"] = _guarded(line, base, leaf)
        at = line.high + 1
    return {**tree, f"{test}=any": base}


def _guarded(line: Line, base: Tree, leaf: Callable[[Line, Tree], Tree]) -> Tree:
    """Inside a size, since each test costs a short call some of its time."""
    tree = leaf(line, base)
    if line.facts.get("at_least_pow2_elements"):
        tree = {"count<pow2": base, "count=any": tree}
    if guard := line.call.facts.get("guard"):
        away, ours = _GUARDS[guard]
        tree = {f"{guard}={away}": base, f"{guard}={ours}": tree}
    return tree


def _leaf(line: Line, base: Tree) -> Tree:
    return {f"algorithm={line.word}": {child: {} for child in line.facts.get("children", ())}}
