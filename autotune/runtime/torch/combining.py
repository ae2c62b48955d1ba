"""The process group's collectives that combine: all_reduce, reduce, reduce_scatter, by torch's names.

In:  torch's calls (both the names of torch 2.13 and later and the older ones). Out: results in the caller's tensors, as
gloo leaves them; a `Work` for each call.
May not touch: what runs (the table and `Communicator` decide), other devices' tensors.

An all_reduce of one small tensor takes a short way (benchmarks/pytorch/call_cost.py). Everything else goes through
`_carry_out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ...errors import CommunicatorError
from ...kernels import Shape
from ...types import Collective
from .endpoint import CALLS_KEPT, Endpoint, Options, Tensors
from .tensors import Operation, buffer, check, combined, dense, put_back, together

if TYPE_CHECKING:
    from ...kernels import _native

_SUM = dist.ReduceOp.SUM


class Combining(Endpoint):
    """The collectives of `Endpoint` whose elements are combined."""

    def allreduce(self, tensors: Tensors, opts: Options = None) -> dist.Work:
        if type(tensors) is not list:  # torch's own calls bring a list
            tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        op = _op(opts)
        if len(tensors) == 1 and not getattr(opts, "asyncOp", True):
            tensor = tensors[0]
            key = (tensor.dtype, tensor.nbytes, op)
            ready = self._ready.get(key)
            if ready is not None and tensor.is_cpu and tensor.is_contiguous():
                call, kind = ready
                memory = kind.from_address(tensor.data_ptr())
                self._history.add("all_reduce", key)
                try:
                    self._run(call, memory, memory)
                except CommunicatorError as err:
                    raise self._history.explained(err) from err
                return self._done
        return self._all_reduce(tensors, op, opts, self._ready)

    def _all_reduce(
        self,
        tensors: Tensors,
        op: Options,
        opts: Options,
        ready: dict[tuple[Any, ...], tuple[_native.Call, Any]],
    ) -> dist.Work:
        calls = []
        for tensor in tensors:
            check(tensor, "all_reduce")
            kind, word = combined(tensor.dtype, op, "all_reduce")
            call = self._call(Shape(Collective.ALL_REDUCE, kind, word, 0, tensor.numel()))
            calls.append(call)
            if len(ready) >= CALLS_KEPT:
                ready.clear()
            ready[tensor.dtype, tensor.nbytes, op] = (call, type(buffer(tensor)))

        def run() -> None:
            for tensor, call in zip(tensors, calls, strict=True):
                work = dense(tensor)
                memory = buffer(work)
                self._run(call, memory, memory)
                put_back(work, tensor)

        return self._carry_out("all_reduce", tensors, run, tensors, opts, (op,))

    def allreduce_coalesced(self, tensors: Tensors, opts: Options = None) -> dist.Work:
        return self._all_reduce(list(tensors), _op(opts), opts, self._ready)

    def reduce(self, tensors: Tensors, opts: Options = None) -> dist.Work:
        (tensor,) = tensors
        check(tensor, "reduce")
        op, root = _op(opts), root_of(opts)
        kind, word = combined(tensor.dtype, op, "reduce")
        call = self._call(Shape(Collective.REDUCE, kind, word, root, tensor.numel()))

        def run() -> None:
            work = dense(tensor)
            memory = buffer(work)
            self._run(call, memory, memory if self._rank == root else None)
            if self._rank == root:
                put_back(work, tensor)

        return self._carry_out("reduce", tensors, run, tensors, opts, (op, "root", root))

    def reduce_scatter_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        opts: Options = None,
    ) -> dist.Work:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self,
        outputs: Tensors,
        inputs: Tensors,
        opts: Options = None,
    ) -> dist.Work:
        op = _op(opts)
        calls = []
        for output, source in zip(outputs, inputs, strict=True):
            self._alike("reduce_scatter", output, source, self._n)
            kind, word = combined(output.dtype, op, "reduce_scatter")
            calls.append(self._call(Shape(Collective.REDUCE_SCATTER, kind, word, 0, output.numel())))

        def run() -> None:
            for output, source, call in zip(outputs, inputs, calls, strict=True):
                work, packed = dense(output), dense(source)
                self._run(call, buffer(packed), buffer(work))
                put_back(work, output)

        return self._carry_out("reduce_scatter", outputs, run, outputs, opts, (op,))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Options = None) -> dist.Work:
        (output,), (sources,) = outputs, inputs
        self._one_each("reduce_scatter", sources, output)
        op = _op(opts)
        kind, word = combined(output.dtype, op, "reduce_scatter")
        call = self._call(Shape(Collective.REDUCE_SCATTER, kind, word, 0, output.numel()))

        def run() -> None:
            packed, work = together(sources), dense(output)
            self._run(call, buffer(packed), buffer(work))
            put_back(work, output)

        return self._carry_out("reduce_scatter", outputs, run, outputs, opts, (op,))


def _op(opts: Options) -> Operation:
    """The operation as a value that can be a key. A sum is told by comparing, which is the shorter way to know."""
    if opts is None:
        return _SUM
    try:
        op = opts.reduceOp
    except AttributeError:  # the operation itself, as in allreduce(tensors, op)
        op = opts
    return _SUM if op == _SUM else getattr(op, "op", op)


def root_of(opts: Options) -> int:
    """The root that a call names; 0 where torch gives no options."""
    return 0 if opts is None else int(opts.rootRank)
