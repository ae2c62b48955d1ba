"""The vendor's operators that fuse a product with a collective, or compress one, found by their signatures.

In:  a module that may have them (torch_npu). Out: for each fused call its operator, the knobs that this version of it
takes, and how it is called; and the operators that sum quantised values.
May not touch: which way is chosen (tiles.py). Nothing is imported here but torch_npu, and that only for NPU tensors.

Names, arguments and knobs are those of Ascend/op-plugin, op_plugin_functions.yaml. Versions differ: an operator counts
if it has the arguments that its call needs, a knob if the signature has it. ``comm_turn`` is none: only 0 is allowed.
``comm_quant_mode`` and the scales that belong to it quantise what travels; no value is tried, since the scales are the
caller's, and a caller may pass them on (`VendorOperator.run`).

``npu_quant_all_reduce`` and ``npu_quant_reduce_scatter`` take int8 values with a scale for each 128 of a row (Ascend
950). They are called by hand (`CompressedOperator.run`): a table's codecs are ours. Run on hardware: no.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ...errors import UsageError
from ...table.tiles import Fusion
from ...types import Collective

Knobs = tuple[tuple[str, str], ...]

_NAMES = {
    Fusion.MATMUL_ALL_REDUCE: "npu_mm_all_reduce_base",
    Fusion.ALL_GATHER_MATMUL: "npu_all_gather_base_mm",
    Fusion.MATMUL_REDUCE_SCATTER: "npu_mm_reduce_scatter_base",
}
_NEEDED = {
    Fusion.MATMUL_ALL_REDUCE: {"x2", "hcom", "reduce_op"},
    Fusion.ALL_GATHER_MATMUL: {"x2", "hcom", "world_size", "gather_output"},
    Fusion.MATMUL_REDUCE_SCATTER: {"x2", "hcom", "world_size", "reduce_op"},
}
_COMM_MODES = ("ai_cpu", "aiv")
_COMPRESSED = {
    Collective.ALL_REDUCE: "npu_quant_all_reduce",
    Collective.REDUCE_SCATTER: "npu_quant_reduce_scatter",
}
_SCALED = 128  # values that share a scale


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorOperator:
    """An operator that is there.

    Args:
        parameters: the names in its signature.
    """

    fusion: Fusion
    name: str
    parameters: frozenset[str]
    function: Callable[..., Any]

    @property
    def candidates(self) -> tuple[Knobs, ...]:
        """The knobs to try: the operator's own choice first."""
        modes = _COMM_MODES if "comm_mode" in self.parameters else ()
        return ((), *((("comm_mode", mode),) for mode in modes))

    def run(
        self, x: torch.Tensor, w: torch.Tensor, group: dist.ProcessGroup | None, knobs: Mapping[str, object]
    ) -> torch.Tensor:
        """The fused call.

        Args:
            knobs: further arguments of the operator by name, such as ``comm_mode``.

        Raises:
            UsageError: a knob that this version of the operator does not have.
        """
        unknown = sorted(set(knobs) - self.parameters)
        if unknown:
            raise UsageError(f"{self.name} has no argument {unknown[0]!r} here", remedy="leave it out")
        place = (x, w, hcom_name(group))
        match self.fusion:
            case Fusion.MATMUL_ALL_REDUCE:
                found = self.function(*place, reduce_op="sum", **knobs)
            case Fusion.MATMUL_REDUCE_SCATTER:
                found = self.function(*place, dist.get_world_size(group), reduce_op="sum", **knobs)
            case Fusion.ALL_GATHER_MATMUL:
                found, _ = self.function(*place, dist.get_world_size(group), gather_output=True, **knobs)
        assert isinstance(found, torch.Tensor)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedOperator:
    """An operator that sums quantised values: the vendor's counterpart of our ``int8``."""

    collective: Collective
    name: str
    parameters: frozenset[str]
    function: Callable[..., Any]

    def run(self, x: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        """The sum over ranks of x (rows, columns), as float16 or bfloat16 like x; reduce_scatter: this rank's rows.

        Raises:
            UsageError: columns that are no multiple of 128.
        """
        if x.dim() != 2 or x.shape[1] % _SCALED:
            raise UsageError(
                f"{self.name}: x is {tuple(x.shape)}, not (rows, a multiple of {_SCALED})", remedy="pad its columns"
            )
        parts = x.float().view(len(x), -1, _SCALED)
        scales = parts.abs().amax(2) / 127
        codes = torch.where(scales[..., None] > 0, parts / scales[..., None], 0.0).round_().to(torch.int8).view(x.shape)
        found = self.function(codes, scales, hcom_name(group), dist.get_world_size(group), reduce_op="sum")
        assert isinstance(found, torch.Tensor)
        return found.to(x.dtype)


def compressed_in(module: object) -> dict[Collective, CompressedOperator]:
    """The compressed collectives of a module."""
    found = {}
    for collective, name in _COMPRESSED.items():
        function = getattr(module, name, None)
        if callable(function) and (parameters := _parameters(name, function)) >= {"x", "scales", "reduce_op"}:
            found[collective] = CompressedOperator(
                collective=collective, name=name, parameters=parameters, function=function
            )
    return found


def operators(device: torch.device) -> dict[Fusion, VendorOperator]:
    """Those for tensors of a device."""
    if device.type != "npu":
        return {}
    try:
        import torch_npu
    except (ImportError, RuntimeError, OSError):  # without CANN, or for another torch: it cannot be the choice
        return {}
    return found_in(torch_npu)


def found_in(module: object) -> dict[Fusion, VendorOperator]:
    """Those of a module."""
    found = {}
    for fusion, name in _NAMES.items():
        function = getattr(module, name, None)
        if callable(function):
            parameters = _parameters(name, function)
            if parameters >= _NEEDED[fusion]:
                found[fusion] = VendorOperator(fusion=fusion, name=name, parameters=parameters, function=function)
    return found


def _parameters(name: str, function: Callable[..., Any]) -> frozenset[str]:
    """Of the operator as torch knows it, else of the function; none where neither says."""
    schemas = torch._C._jit_get_schemas_for_operator(f"npu::{name}")
    if schemas:
        return frozenset(argument.name for argument in schemas[0].arguments)
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def hcom_name(group: dist.ProcessGroup | None) -> str:
    """HCCL's name of a group, by which an operator finds it."""
    group = dist.group.WORLD if group is None else group
    rank = dist.get_global_rank(group, dist.get_rank(group))
    name: str = group._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    return name
