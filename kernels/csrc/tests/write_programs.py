"""Writes the programs of every algorithm for the C++ tests: ``python write_programs.py OUT``, with autotune installed.

One line for each rank of each (collective, algorithm, number of ranks, root, exchange):
collective number, algorithm, ranks, rank, root, exchange, and the words of Program.flatten(). Exchanges are staged,
encoded, zero_copy, in_place, which is zero copy too, and single_copy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.kernels.compiler import compile_program
from autotune.kernels.program import Program
from autotune.kernels.schedules.ir import Schedule
from autotune.kernels.schedules.registry import build, names
from autotune.kernels.schedules.wire import codec_legality
from autotune.kernels.zero_copy import NotZeroCopy, compile_single_copy, compile_zero_copy
from autotune.types import Collective

MOST_RANKS = 5


def lines() -> Iterator[str]:
    """The file, line by line."""
    for n in range(1, MOST_RANKS + 1):
        for number, collective in enumerate(Collective):
            for algorithm in names(collective, n):
                for root in range(n if collective.has_root else 1):
                    order = tuple((position + root) % n for position in range(n))
                    for exchange, programs in exchanges(collective, build(collective, algorithm, n), order):
                        for rank, program in enumerate(programs):
                            words = " ".join(map(str, program.flatten()))
                            yield f"{number} {algorithm} {n} {rank} {root} {exchange} {words}"


def exchanges(
    collective: Collective, schedule: Schedule, order: tuple[int, ...]
) -> Iterator[tuple[str, Sequence[Program]]]:
    """All ranks' programs for every exchange that the schedule can do."""
    yield "staged", [compile_program(collective, schedule, rank, order) for rank in range(schedule.n)]
    if codec_legality(collective, schedule) is None:
        programs = [compile_program(collective, schedule, rank, order, lossy=True) for rank in range(schedule.n)]
        yield "encoded", programs
    for exchange in ("zero_copy", "in_place"):
        try:
            yield exchange, compile_zero_copy(collective, schedule, order, in_place=exchange == "in_place")
        except NotZeroCopy:
            continue
    try:
        yield "single_copy", compile_single_copy(collective, schedule, order)
    except NotZeroCopy:
        return


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(lines()) + "\n", encoding="ascii")
