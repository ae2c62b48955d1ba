"""The process group ``mc2``: torch.distributed's collectives on CPU tensors, carried out by the native executor.

    endpoint ──► combining ──► process_group

In:  torch's calls (both the names of torch 2.13 and later and the older ones). Out: results in the caller's tensors, as
gloo leaves them; a `Work` for each call.
May not touch: what runs (the table and `Communicator` decide), other devices' tensors.

A call with ``async_op=False`` is carried out by the caller's thread, an asynchronous one by the communicator's; both
in order of issue.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from ...errors import UsageError
from ...kernels import Shape
from ...types import Collective, ReduceOp
from .combining import Combining, root_of
from .endpoint import Options, Tensors
from .tensors import buffer, check, dense, kind_of, moved, put_back, together, unpack


class ProcessGroup(Combining):
    """All collectives of `Endpoint`, by torch's names: here those that only move elements."""

    def broadcast(self, tensors: Tensors, opts: Options = None) -> dist.Work:
        root = root_of(opts)
        calls = []
        for tensor in tensors:
            check(tensor, "broadcast")
            kind, count = moved(tensor)
            calls.append(self._call(Shape(Collective.BROADCAST, kind, ReduceOp.SUM, root, count)))

        def run() -> None:
            for tensor, call in zip(tensors, calls, strict=True):
                work = dense(tensor)
                memory = buffer(work)
                self._run(call, memory if self._rank == root else None, memory)
                if self._rank != root:
                    put_back(work, tensor)

        return self._carry_out("broadcast", tensors, run, tensors, opts, ("root", root))

    def all_gather_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        opts: Options = None,
    ) -> dist.Work:
        return self.all_gather_single_coalesced([output], [input], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self,
        outputs: Tensors,
        inputs: Tensors,
        opts: Options = None,
    ) -> dist.Work:
        calls = []
        for output, source in zip(outputs, inputs, strict=True):
            self._alike("all_gather", source, output, self._n)
            kind, count = moved(source)
            calls.append(self._call(Shape(Collective.ALL_GATHER, kind, ReduceOp.SUM, 0, count)))

        def run() -> None:
            for output, source, call in zip(outputs, inputs, calls, strict=True):
                work, packed = dense(output), dense(source)
                self._run(call, buffer(packed), buffer(work))
                put_back(work, output)

        return self._carry_out("all_gather", inputs, run, outputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Options = None) -> dist.Work:
        calls = []
        for places, source in zip(outputs, inputs, strict=True):
            self._one_each("all_gather", places, source)
            kind, count = moved(source)
            calls.append(self._call(Shape(Collective.ALL_GATHER, kind, ReduceOp.SUM, 0, count)))

        def run() -> None:
            for places, source, call in zip(outputs, inputs, calls, strict=True):
                packed = dense(source)
                work = source.new_empty((self._n, *source.shape))
                self._run(call, buffer(packed), buffer(work))
                unpack(work, places)

        return self._carry_out("all_gather", inputs, run, [place for places in outputs for place in places], opts)

    allgather_coalesced = allgather

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Options = None) -> dist.Work:
        (source,), root = inputs, root_of(opts)
        check(source, "gather")
        places: Tensors = outputs[0] if self._rank == root else []
        if self._rank == root:
            self._one_each("gather", places, source)
        kind, count = moved(source)
        call = self._call(Shape(Collective.GATHER, kind, ReduceOp.SUM, root, count))

        def run() -> None:
            packed = dense(source)
            work = source.new_empty((self._n, *source.shape)) if self._rank == root else None
            self._run(call, buffer(packed), None if work is None else buffer(work))
            if work is not None:
                unpack(work, places)

        return self._carry_out("gather", inputs, run, places, opts, ("root", root))

    def gather_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        opts: Options = None,
    ) -> dist.Work:
        parts = list(output.chunk(self._n)) if self._rank == root_of(opts) else []
        return self.gather([parts], [input], opts)

    gather_into_tensor = gather_single

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Options = None) -> dist.Work:
        (output,), root = outputs, root_of(opts)
        check(output, "scatter")
        sources: Tensors = inputs[0] if self._rank == root else []
        if self._rank == root:
            self._one_each("scatter", sources, output)
        kind, count = moved(output)
        call = self._call(Shape(Collective.SCATTER, kind, ReduceOp.SUM, root, count))

        def run() -> None:
            packed = together(sources) if self._rank == root else None
            work = dense(output)
            self._run(call, None if packed is None else buffer(packed), buffer(work))
            put_back(work, output)

        return self._carry_out("scatter", outputs, run, outputs, opts, ("root", root))

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Options = None,
    ) -> dist.Work:
        for tensor in (output, input):
            check(tensor, "all_to_all")
        if output_splits or input_splits:
            return self._all_to_all_v(
                output, input, self._counts(output, output_splits), self._counts(input, input_splits), opts
            )
        self._alike("all_to_all", output, input, 1)
        kind, count = moved(input)
        if count % self._n:
            raise UsageError(
                f"all_to_all: {count} elements are not a multiple of {self._n} ranks", remedy="give split sizes"
            )
        call = self._call(Shape(Collective.ALL_TO_ALL, kind, ReduceOp.SUM, 0, count // self._n))

        def run() -> None:
            work, packed = dense(output), dense(input)
            self._run(call, buffer(packed), buffer(work))
            put_back(work, output)

        return self._carry_out("all_to_all", [input], run, [output], opts)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Options = None) -> dist.Work:
        for tensor in (*outputs, *inputs):
            check(tensor, "all_to_all")
        if len(outputs) != self._n or len(inputs) != self._n:
            raise UsageError(
                f"all_to_all: {len(inputs)} inputs and {len(outputs)} outputs for {self._n} ranks",
                remedy="give one of each for each rank",
            )
        kind, item = kind_of(inputs[0])
        sent, taken = [[t.nbytes // item for t in tensors] for tensors in (inputs, outputs)]

        def run() -> None:
            packed = together(inputs)
            work = packed.new_empty(sum(place.numel() for place in outputs))
            self.communicator.all_to_all_v(buffer(packed), buffer(work), sent, taken, dtype=kind)
            start = 0
            for place in outputs:
                place.copy_(work[start : start + place.numel()].view(place.shape))
                start += place.numel()

        return self._carry_out("all_to_all", inputs, run, outputs, opts)

    def _all_to_all_v(
        self,
        output: torch.Tensor,
        source: torch.Tensor,
        taken: list[int],
        sent: list[int],
        opts: Options,
    ) -> dist.Work:
        kind, item = kind_of(source)
        scale = source.element_size() // item

        def run() -> None:
            work, packed = dense(output), dense(source)
            self.communicator.all_to_all_v(
                buffer(packed),
                buffer(work),
                [count * scale for count in sent],
                [count * scale for count in taken],
                dtype=kind,
            )
            put_back(work, output)

        return self._carry_out("all_to_all", [source], run, [output], opts, (*sent, "to", *taken))

    def _counts(self, tensor: torch.Tensor, splits: Sequence[int]) -> list[int]:
        """Elements for each rank, of rows for each rank."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits:
            splits = [rows // self._n] * self._n
        if len(splits) != self._n or sum(splits) != rows or min(splits) < 0:
            raise UsageError(
                f"all_to_all: split sizes {list(splits)} of a tensor of {rows} rows, for {self._n} ranks",
                remedy="give one size for each rank, which add up to the rows",
            )
        row = tensor.numel() // rows if rows else 0
        return [split * row for split in splits]

    def barrier(self, opts: Options = None) -> dist.Work:
        return self._carry_out("barrier", [], self.communicator.barrier, [], opts)
