"""Writes the programs of every algorithm for the C++ tests: ``python write_programs.py OUT``, with autotune installed.

One line for each rank of each (collective, algorithm, number of ranks, root):
collective number, algorithm, ranks, rank, root, and the words of Program.flatten().
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from autotune.kernels.compiler import compile_program
from autotune.kernels.schedules.registry import build, names
from autotune.types import Collective

MOST_RANKS = 5


def lines() -> Iterator[str]:
    """The file, line by line."""
    for n in range(1, MOST_RANKS + 1):
        for number, collective in enumerate(Collective):
            for algorithm in names(collective, n):
                for root in range(n if collective.has_root else 1):
                    order = tuple((position + root) % n for position in range(n))
                    for rank in range(n):
                        program = compile_program(collective, build(collective, algorithm, n), rank, order)
                        words = " ".join(map(str, program.flatten()))
                        yield f"{number} {algorithm} {n} {rank} {root} {words}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(lines()) + "\n", encoding="ascii")
