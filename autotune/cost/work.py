"""What each rank does in each superstep of the native executor, counted in its programs.

In:  a collective, an algorithm, a number of ranks and of cores. Out: ``Work``: for every level and rank, blocks by what
is read and what is written. May not touch: sizes, times. Enumerates, so it is for the ranks of one host.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ..kernels.compiler import compile_program
from ..kernels.program import TO_OUTBOX, TO_OUTPUT, TO_SCRATCH, VERTICAL, Instruction, Space
from ..kernels.schedules.registry import build
from ..types import Collective
from .cut import Shape
from .fabric import FloatArray

INPUT, OWN, NEAR, FAR, OUTPUT, OUTBOX, AGAIN, MESSAGES = range(8)
"""Columns: blocks read from the input, from own output or scratch, from the outbox of a rank of the same core and of
another core; blocks written to output or scratch, and to the outbox; blocks read once more, for a second destination;
messages waited for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """What is done.

    Args:
        counts: shape (levels, ranks, columns).
        synchronising: every rank's end depends on every rank's start, so that calls do not run into each other.
    """

    counts: FloatArray
    shape: Shape
    synchronising: bool


@functools.lru_cache(maxsize=512)
def work_of(collective: Collective, algorithm: str, n_ranks: int, n_cores: int) -> Work:
    """The work of a group whose rank r runs on core r mod n_cores; the root is rank 0.

    Raises:
        UsageError: the algorithm is not legal here.
    """
    schedule = build(collective, algorithm, n_ranks)
    order = tuple(range(n_ranks))
    programs = [compile_program(collective, schedule, rank, order) for rank in range(n_ranks)]
    counts = np.zeros((len(programs[0].levels), n_ranks, MESSAGES + 1))
    for program in programs:
        for level, instructions in enumerate(program.levels):
            for op in instructions:
                _count(counts[level, program.rank], op, program.rank, n_cores)
    shape = Shape(
        levels=len(programs[0].levels),
        blocks=schedule.blocks,
        piece_blocks=programs[0].piece_blocks,
        vertical=collective in VERTICAL,
        n_ranks=n_ranks,
        exchanges=programs[0].exchanges,
    )
    return Work(counts=counts, shape=shape, synchronising=programs[0].synchronising)


def _count(row: FloatArray, op: Instruction, rank: int, n_cores: int) -> None:
    for source in op.sources:
        match source.space:
            case Space.INPUT:
                row[INPUT] += op.width
            case Space.PEER:
                row[NEAR if source.rank % n_cores == rank % n_cores else FAR] += op.width
                row[MESSAGES] += 1
            case _:
                row[OWN] += op.width
    to_memory, to_outbox = bool(op.destinations & (TO_OUTPUT | TO_SCRATCH)), bool(op.destinations & TO_OUTBOX)
    row[OUTPUT] += op.width * to_memory
    row[OUTBOX] += op.width * to_outbox
    row[AGAIN] += op.width * (to_memory and to_outbox)
