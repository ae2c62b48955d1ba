"""What the ranks of a pool agree on by a collective, never by a clock: times, and whether an answer was right.

In:  a communicator, this rank's times or buffers. Out: the same on every rank. May not touch: what is timed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..kernels import Communicator
from ..types import Config, ReduceOp, TrialState
from .data_inputs import DataInputs
from .inputs import Inputs
from .rank_process import Json

_AGREE = Config(algorithm="flat", segment_bytes=65536)
_GATHER = Config(algorithm="direct", segment_bytes=65536)


def slowest(comm: Communicator, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest of all ranks' values, one by one; they are replaced in place."""
    comm.all_reduce(values, ReduceOp.MAX, config=_AGREE)
    return values


def first_wrong(
    comm: Communicator, inputs: Inputs | DataInputs, outputs: Sequence[memoryview], batch: int
) -> dict[str, Json] | None:
    """The first wrong element of any rank, as an answer says it; None if all are right."""
    mine = inputs.first_wrong(outputs, batch)
    everyone = np.zeros((comm.n_ranks, 4))
    report = np.array([0.0, 0, 0, 0] if mine is None else [1.0, *mine])
    comm.all_gather(report, everyone, config=_GATHER)
    bad = np.flatnonzero(everyone[:, 0])
    if not bad.size:
        return None
    rank = int(bad[0])
    _, index, got, expected = everyone[rank]
    if isinstance(inputs, DataInputs):
        message = f"rank {rank} has other bytes than in the first run, within 4 KiB from element {int(index)} on"
        return {"state": TrialState.WRONG_RESULT.value, "message": message, "wrong": None}
    return {
        "state": TrialState.WRONG_RESULT.value,
        "message": f"rank {rank} has {got:g} at element {int(index)}, expected {expected:g}",
        "wrong": {"rank": rank, "index": int(index), "got": f"{got:g}", "expected": f"{expected:g}"},
    }
