"""The vendor's fused operators: found by their signatures, in stand-ins and in a library that torch knows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from autotune.errors import UsageError  # noqa: E402 - needs torch
from autotune.runtime.torch.vendor import found_in, operators  # noqa: E402 - needs torch
from autotune.table.tiles import Fusion  # noqa: E402 - needs torch

# As Ascend/op-plugin declares them (op_plugin_functions.yaml), in part.
REDUCE_SCATTER = (
    "npu_mm_reduce_scatter_base(Tensor self, Tensor x2, str hcom, int world_size, *, str reduce_op='sum', "
    "Tensor? bias=None, int comm_turn=0, ScalarType? output_dtype=None, str? comm_mode=None) -> Tensor"
)


def test_an_operator_that_torch_knows_is_found_by_its_schema() -> None:
    library = torch.library.Library("npu", "FRAGMENT")
    try:
        library.define(REDUCE_SCATTER)
        module = SimpleNamespace(npu_mm_reduce_scatter_base=torch.ops.npu.npu_mm_reduce_scatter_base)
        (operator,) = found_in(module).values()
    finally:
        library._destroy()
    assert operator.fusion is Fusion.MATMUL_REDUCE_SCATTER
    assert operator.candidates == ((), (("comm_mode", "ai_cpu"),), (("comm_mode", "aiv"),))
    assert "comm_turn" in operator.parameters


def test_older_ones_have_fewer_knobs_and_what_lacks_an_argument_is_no_operator() -> None:
    def older(x1: object, x2: object, hcom: str, *, reduce_op: str = "sum", comm_turn: int = 0) -> object: ...
    def other(a: object, b: object) -> object: ...

    found = found_in(SimpleNamespace(npu_mm_all_reduce_base=older, npu_all_gather_base_mm=other))
    assert list(found) == [Fusion.MATMUL_ALL_REDUCE]
    operator = found[Fusion.MATMUL_ALL_REDUCE]
    assert operator.candidates == ((),)
    with pytest.raises(UsageError, match="npu_mm_all_reduce_base has no argument 'comm_mode' here"):
        operator.run(torch.ones(1, 1), torch.ones(1, 1), None, {"comm_mode": "aiv"})
    assert found_in(SimpleNamespace(npu_mm_all_reduce_base=3)) == {}


def test_other_devices_have_none() -> None:
    assert operators(torch.device("cpu")) == {}
