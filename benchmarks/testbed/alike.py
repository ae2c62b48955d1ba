"""All samples of a cell are taken in one way, races and rounds: as the opponent's time says.

In:  a cell's record, the contenders. Out: the record's plan. May not touch: samples.

A call timed alone and one of a batch do not compare: in a batch the next call begins while others still finish this
one. At 8 B on four hosts ours took 38 us alone and 20 in a batch, so it was timed in batches, and Open MPI, with 45 us,
alone. A tuner takes all samples of a problem as its default's time says. The opponent here is Open MPI, which is the
better peer wherever a call is short enough for a batch; the fastest one's time, ours, is too near to 20 us to say.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from peers.cells import Cell
from peers.rounds import CellRecord, Contender

from autotune.backends.mpi_sampling import Plan, plan_of
from autotune.measure.timing import SINGLE_CALL_US
from autotune.types import Sample

OPPONENT = "openmpi"


def agree(record: CellRecord, field: Sequence[Contender]) -> None:
    """Have everybody's samples of a cell taken alike, and like those of its earlier rounds."""
    opponent = next(contender for contender in field if contender.name == OPPONENT)
    earlier = record.samples.get(OPPONENT)
    record.like = plan_like(record.cell, earlier) if earlier else opponent.plan(record.cell)


def plan_like(cell: Cell, earlier: Sequence[Sample]) -> Plan:
    """How samples are taken that go on with these."""
    calls, time_us = earlier[0].batch_calls, statistics.median(sample.time_us for sample in earlier)
    if calls == 1:
        return plan_of(max(time_us, SINGLE_CALL_US), cell)
    return replace(plan_of(min(time_us, SINGLE_CALL_US / 2), cell), calls=calls)
