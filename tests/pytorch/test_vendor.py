"""The vendor's fused operators: found by their signatures, in stand-ins and in a library that torch knows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from autotune.errors import UsageError  # noqa: E402 - needs torch
from autotune.runtime.torch import vendor  # noqa: E402 - needs torch
from autotune.runtime.torch.vendor import compressed_in, found_in, operators  # noqa: E402 - needs torch
from autotune.table.tiles import Fusion  # noqa: E402 - needs torch
from autotune.types import Collective  # noqa: E402 - needs torch

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


def test_compressed_collectives_get_codes_and_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    def npu_quant_all_reduce(
        x: torch.Tensor, scales: torch.Tensor, hcom: str, world_size: int, *, reduce_op: str = "sum"
    ) -> torch.Tensor:
        assert (x.dtype, hcom, world_size, reduce_op) == (torch.int8, "group of HCCL", 3, "sum")
        assert scales.shape == (len(x), x.shape[1] // 128)
        return world_size * (x.float() * scales.repeat_interleave(128, 1))

    monkeypatch.setattr(vendor, "hcom_name", lambda group: "group of HCCL")
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group: 3)
    (operator,) = compressed_in(SimpleNamespace(npu_quant_all_reduce=npu_quant_all_reduce)).values()
    assert operator.collective is Collective.ALL_REDUCE
    x = torch.cat([torch.randn(4, 256, generator=torch.Generator().manual_seed(1)), torch.zeros(1, 256)])
    got = operator.run(x, None)
    assert got.dtype is x.dtype
    assert 0 < torch.linalg.vector_norm(got - 3 * x) < 0.01 * torch.linalg.vector_norm(3 * x)
    with pytest.raises(UsageError, match=r"not \(rows, a multiple of 128\)"):
        operator.run(x[:, :100], None)


def test_other_devices_have_none() -> None:
    assert operators(torch.device("cpu")) == {}
