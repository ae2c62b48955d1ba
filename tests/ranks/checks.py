"""Outputs of a call against tests/spec.py.

In:  a call, every rank's output. Out: nothing, or an AssertionError that names call and rank.
"""

from __future__ import annotations

import numpy as np
from ranks.cases import Call
from spec import FLOATS, Array, exact, expected, tolerance, widened

from autotune.types import Collective


def check_exact(n: int, call: Call, outputs: list[Array | None]) -> None:
    """Bit for bit; only the sign of a zero and the bits of a NaN may differ where floats are combined."""
    wanted = expected(call.collective, call.inputs(n), op=call.op, dtype=call.dtype, root=call.root)
    for rank, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        assert (got is None) == (want is None), (call, rank)
        if got is None or want is None:
            continue
        if call.dtype in FLOATS and call.collective.computes:
            numbers = widened(got, call.dtype), widened(want, call.dtype)
            np.testing.assert_array_equal(*numbers, err_msg=f"{call}, rank {rank}")
        else:
            assert got.tobytes() == want.tobytes(), (call, rank)


def check_alike(call: Call, outputs: list[Array | None]) -> None:
    """All ranks of an all_reduce hold the same bytes."""
    if call.collective is Collective.ALL_REDUCE:
        assert len({output.tobytes() for output in outputs if output is not None}) == 1, call


def check_close(n: int, call: Call, outputs: list[Array | None]) -> None:
    """Within rounding of the reduction in float64."""
    inputs = call.inputs(n)
    wanted, limit = exact(inputs, call.op, call.dtype), tolerance(inputs, call.op, call.dtype)
    parts = np.split(wanted, n) if call.collective is Collective.REDUCE_SCATTER else [wanted] * n
    limits = np.split(limit, n) if call.collective is Collective.REDUCE_SCATTER else [limit] * n
    for rank, output in enumerate(outputs):
        if output is not None:
            off = np.abs(widened(output, call.dtype).astype(np.float64) - parts[rank])
            assert (off <= limits[rank]).all(), (call, rank, off.max(), limits[rank].min())
