"""One rank of a gloo group that carries out calls of the portable executor (``-m gloo_rank``), started by RankPool.

In:  requests with plain cases. Out: what is wrong with each result on this rank, and a digest of its bytes. Inputs,
right answers and the native executor's bytes are made here: every rank can make them from the case's seed.
"""

from __future__ import annotations

import hashlib
import sys
from datetime import timedelta
from typing import Any

import numpy as np
import spec
import torch
import torch.distributed as dist
from ranks.cases import Call
from spec import STORAGE, Array

from autotune.backends import torch_worker
from autotune.errors import AutotuneError
from autotune.kernels import Communicator, Shape
from autotune.kernels.codecs import Codec
from autotune.kernels.portable import PortableCommunicator
from autotune.kernels.portable_feedback import TensorFeedback
from autotune.kernels.portable_tensors import lengths
from autotune.kernels.schedules import build
from autotune.kernels.schedules.wire import follow
from autotune.types import Collective, Config, DType, Layout, ReduceOp

GATHERS = (Collective.ALL_GATHER, Collective.GATHER)
SCATTERS = (Collective.REDUCE_SCATTER, Collective.SCATTER)
_POISON = 0xA5


class PortableRank(torch_worker.TorchWorker):
    """Cases instead of trials."""

    def __init__(self, native: Communicator, timeout_s: float) -> None:
        super().__init__(native, timeout_s)
        self.native = native

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "cases":
                found = [self.case(**case) for case in request["cases"]]
                return {"wrong": [w for w, _ in found if w], "digests": [d for _, d in found]}
            case "tell":
                return {"said": self.tell(request["calls"][self.native.rank], check=request["check"])}
            case "feedback":
                return {"value": self.feedback(**request["arguments"])}
            case "alone":
                return {"said": self.alone()}
            case "subgroup":
                return {"value": self.subgroup(request["members"])}
        return super().answer(request)

    def case(
        self, call: dict[str, Any], segment_bytes: int | None, layout: list[Any] | None = None, same: bool = False
    ) -> tuple[str, str]:
        """Run one call; (what is wrong with it, digest of its output).

        Args:
            same: compare the bytes with the native executor's.
        """
        asked = Call.from_json(call)
        shape = Shape(asked.collective, asked.dtype, asked.op, asked.root, asked.count)
        n, rank = self.native.n_ranks, self.native.rank
        config = Config(algorithm=asked.algorithm, segment_bytes=segment_bytes, codec=asked.codec)
        place = None if layout is None else Layout(order=tuple(layout[0]), groups=tuple(map(tuple, layout[1])))
        inputs = asked.inputs(n)
        source, target = _arrays(asked, inputs[rank], n, rank)
        comm = PortableCommunicator(selector=lambda *_: config, layout=place)
        comm.run(shape, None, _tensor(source, asked.dtype), _tensor(target, asked.dtype))
        wrong = self._wrong(asked, inputs, source, target, place)
        if not wrong and same:
            wrong = self._other_bytes(shape, config, inputs[rank], target)
        writes = rank == asked.root or asked.collective not in (Collective.REDUCE, Collective.GATHER)
        digest = hashlib.sha256(target.tobytes()).hexdigest() if writes else ""
        return (f"{asked} {segment_bytes} {layout}: {wrong}" if wrong else ""), digest

    def _wrong(self, asked: Call, inputs: list[Array], source: Array, target: Array, place: Layout | None) -> str:
        rank = self.native.rank
        right = spec.expected(asked.collective, inputs, op=asked.op, dtype=asked.dtype, root=asked.root)[rank]
        if not asked.in_place and source.tobytes() != inputs[rank].tobytes():
            return "the input was written to"
        if right is None:
            return ""
        if asked.codec != "none":
            return self._too_far(asked, inputs, target, right, place)
        if asked.values == "exact" and target.tobytes() != right.tobytes():
            return f"got {target[:8]}, expected {right[:8]}"
        if asked.values == "random":
            assert asked.collective is Collective.ALL_REDUCE
            off = np.abs(spec.widened(target, asked.dtype) - spec.exact(inputs, asked.op, asked.dtype))
            if (off > spec.tolerance(inputs, asked.op, asked.dtype)).any():
                return f"off by {off.max()}"
        return ""

    def _too_far(self, asked: Call, inputs: list[Array], target: Array, right: Array, place: Layout | None) -> str:
        """By the bound that the native executor is held to; it holds for every part by itself."""
        n, rank = self.native.n_ranks, self.native.rank
        wire = follow(asked.collective, build(asked.collective, asked.algorithm, n, place))
        bound = wire.relative_error(Codec.parse(asked.codec).relative_error(asked.dtype))
        numbers = spec.widened(target, asked.dtype).astype(np.float64)
        total, rounding = float(np.linalg.norm(spec.widened(right, asked.dtype).astype(np.float64))), 0.0
        exact = spec.widened(right, asked.dtype)
        if asked.collective.computes:
            parts = asked.collective is Collective.REDUCE_SCATTER
            own = slice(rank * asked.count, (rank + 1) * asked.count) if parts else slice(None)
            exact = spec.exact(inputs, asked.op, asked.dtype)[own]
            rounding = float(np.linalg.norm(spec.tolerance(inputs, ReduceOp.SUM, asked.dtype)[own]))
            total = sum(float(np.linalg.norm(spec.widened(v, asked.dtype)[own].astype(np.float64))) for v in inputs)
            total /= n if asked.op is ReduceOp.AVG else 1
        off, allowed = float(np.linalg.norm(numbers - exact)), bound * total + (1 + bound) * rounding
        return "" if off <= allowed else f"off by {off}, allowed is {allowed}"

    def feedback(self, algorithm: str, codec: str, op: str, dtype: str, count: int, calls: int) -> list[float]:
        """One buffer reduced again and again: (how far sums of results and residuals are off, how far results alone).

        Relative to what the sum should be. Each encoding is charged to one rank, so nothing is lost or counted twice.
        """
        config = Config(algorithm=algorithm, codec=codec, segment_bytes=4096)
        comm, kept = PortableCommunicator(selector=lambda *_: config), TensorFeedback()
        generator = torch.Generator().manual_seed(self.native.rank)
        total = torch.zeros(count, dtype=torch.float64)
        wanted = torch.zeros(count, dtype=torch.float64)
        for _ in range(calls):
            mine = torch.randn(count, generator=generator).to(getattr(torch, dtype))
            exact = mine.double()
            self.native.all_reduce(exact.numpy(), config=Config(algorithm="ring", segment_bytes=65536))
            wanted += exact
            total += comm.all_reduce(mine, op, feedback=kept, name="one").double()
            assert kept.norm("one") > 0
        if op == "avg":
            total *= self.native.n_ranks
        left = kept.residual("one", mine).double()
        self.native.all_reduce(left.numpy(), config=Config(algorithm="ring", segment_bytes=65536))
        norm = torch.linalg.vector_norm
        return [float(norm(total + left - wanted) / norm(wanted)), float(norm(total - wanted) / norm(wanted))]

    def _other_bytes(self, shape: Shape, config: Config, mine: Array, target: Array) -> str:
        natively = Config(algorithm=config.algorithm, segment_bytes=config.segment_bytes or 1 << 20)
        writes = self.native.rank == shape.root or shape.collective is not Collective.REDUCE
        out = np.zeros_like(target)
        self.native.group.run(self.native.prepare(shape, natively), mine, out if writes else None)
        return "other bytes than the native executor" if writes and out.tobytes() != target.tobytes() else ""

    def tell(self, calls: list[dict[str, Any]], *, check: bool) -> list[str]:
        """Make calls by method; what each of them said, and "" where it went through."""
        comm = PortableCommunicator(selector=lambda *_: Config(algorithm="direct"), check=check)
        said = []
        for call in calls:
            arguments = {key: _made(value) for key, value in call.items() if key != "method"}
            try:
                getattr(comm, call["method"])(**arguments)
            except AutotuneError as err:
                said.append(f"{type(err).__name__}: {err.message} | {err.remedy}")
            else:
                said.append("")
        return said

    def alone(self) -> list[str]:
        """Rank 0 calls, and the others do not, until the group's time is out; then it calls again."""
        group = dist.new_group(timeout=timedelta(seconds=1))
        said: list[str] = []
        if self.native.rank == 0:
            comm = PortableCommunicator(group, selector=lambda *_: Config(algorithm="direct"))
            for count in (3, 4):
                try:
                    comm.all_reduce(torch.zeros(count))
                except AutotuneError as err:
                    said.append(f"{type(err).__name__}: {err.message}")
        self.native.barrier()
        return said

    def subgroup(self, members: list[int]) -> list[float] | str:
        """An all_gather in a group of some ranks: every member's rank in the job."""
        group = dist.new_group(members)
        try:
            comm = PortableCommunicator(group, selector=lambda *_: Config(algorithm="ring"))
        except AutotuneError as err:
            return err.message
        values: list[float] = comm.all_gather(torch.tensor([float(self.native.rank)])).flatten().tolist()
        return values


def _arrays(asked: Call, mine: Array, n: int, rank: int) -> tuple[Array, Array]:
    """Input and output, the output poisoned; in place they share memory as the collective allows it."""
    _, out_count = lengths(Shape(asked.collective, asked.dtype, asked.op, asked.root, asked.count), n)
    target = np.full(out_count * asked.dtype.itemsize, _POISON, np.uint8).view(STORAGE[asked.dtype])
    source = mine.copy()
    part = slice(rank * asked.count, (rank + 1) * asked.count)
    if asked.in_place and asked.collective in SCATTERS:
        target = source[part]
    elif asked.in_place and asked.collective is not Collective.ALL_TO_ALL:
        source, kept = (target[part] if asked.collective in GATHERS else target), source
        source[:] = kept
    return source, target


def _tensor(array: Array, dtype: DType) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype is DType.BFLOAT16 else tensor


def _made(value: object) -> object:
    """[size, type, "strided"?] becomes a tensor, {"algorithm": ...} a config."""
    if isinstance(value, list):
        tensor = torch.zeros(value[0], dtype=getattr(torch, value[1]))
        return tensor[::2] if value[2:] else tensor
    if isinstance(value, dict):
        return Config(**{**value, "knobs": tuple(map(tuple, value.get("knobs", ())))})
    return value


if __name__ == "__main__":
    torch_worker.main(sys.argv[1:], PortableRank)
