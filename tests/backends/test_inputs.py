"""The inputs of trials: exact for every type and operation, and a wrong element is found wherever it is."""

from __future__ import annotations

import numpy as np
import pytest
from spec import STORAGE, Array, expected

from autotune.backends.inputs import Inputs
from autotune.kernels import Shape
from autotune.types import Collective, DType, ReduceOp

N = 5
COUNT = 200
ROOT = 2
OPS = (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.PROD)  # the ones that are timed, one of each class


def shapes() -> list[Shape]:
    return [
        Shape(collective, dtype, op, ROOT if collective.has_root else 0, COUNT)
        for collective in Collective
        for dtype in DType
        for op in (OPS if collective.computes else OPS[:1])
    ]


def inputs_of_all(shape: Shape, batch: int) -> list[Array]:
    parts = N if shape.collective in (Collective.REDUCE_SCATTER, Collective.SCATTER, Collective.ALL_TO_ALL) else 1
    listed = []
    for rank in range(N):
        source, target = bytearray(COUNT * parts * shape.dtype.itemsize), bytearray(8)
        Inputs(shape, rank, N).rewrite([memoryview(source)], [memoryview(target)], batch)
        assert target != bytearray(8), "the output was not poisoned"
        listed.append(np.frombuffer(source, STORAGE[shape.dtype]))
    return listed


@pytest.mark.parametrize("shape", shapes(), ids=lambda s: f"{s.collective.value}-{s.dtype.value}-{s.op.value}")
def test_right_outputs_pass_and_every_wrong_element_is_found(shape: Shape) -> None:
    """With the inputs of two batches: those of one are wrong for the other."""
    batch = 3
    outputs = expected(shape.collective, inputs_of_all(shape, batch), op=shape.op, dtype=shape.dtype, root=shape.root)
    for rank, output in enumerate(outputs):
        inputs = Inputs(shape, rank, N)
        if output is None:
            continue
        right = np.array(output)
        assert inputs.first_wrong([right.data.cast("B")], batch) is None
        assert inputs.first_wrong([right.data.cast("B")], batch + 1) is not None
        for index in (0, 61, right.size // 2, right.size - 1):
            wrong = right.copy()
            wrong.view(np.uint8)[index * shape.dtype.itemsize] ^= 1
            found = inputs.first_wrong([wrong.data.cast("B")], batch)
            assert found is not None
            assert found[0] == index
            assert found[1] != found[2]


def test_inputs_differ_between_ranks_batches_and_blocks() -> None:
    """What is left in place, taken from another rank, or from the call before, is not right by chance."""
    shape = Shape(Collective.ALL_GATHER, DType.FLOAT32, ReduceOp.SUM, 0, 1024)
    first, again = inputs_of_all(shape, 0), inputs_of_all(shape, 1)
    rows = [row.tobytes() for row in (*first, *again)]
    assert len(set(rows)) == len(rows)
    for length in (16, 64, 256):
        blocks = {first[0][start : start + length].tobytes() for start in range(0, COUNT - length, length)}
        assert len(blocks) == len(range(0, COUNT - length, length))
