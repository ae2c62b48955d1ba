"""The portable executor: the same schedules over torch.distributed, for tensors on any device.

In:  tensors of one rank, a process group of any backend (gloo, HCCL, NCCL), a selector that names a config for every
call. Out: results in the caller's tensors.
May not touch: device-specific code, tables, settings. Nothing else in this package imports this file or torch.

Only ``batch_isend_irecv`` is used, one batch for each step of each slice: single sends would make a communicator for
every pair on NPUs and GPUs. All ranks post the batches of all slices in one order, the newest slice first, and a rank
waits for a batch before it posts the next one of the same slice. So every wait is for something that comes earlier in
that order, which cannot dead-lock; and messages of one pair are matched by order alone, without tags. Empty messages
are left out: both sides know the length.

Slices keep several batches under way, so that a device combines one slice while another one travels. They pay from
messages of about 512 KiB on: with gloo, 4 MiB in 16 pieces are 1.6 times as fast as in one, and 8 tiny messages are 28
times as slow as one (2 ranks on one host). A config without segment_bytes does not cut.

Bits. Several sources of a block are combined in the order of ranks with the own value in its place; float16 and
bfloat16 are added up in float32 and rounded once. All ranks get the same bytes, and without a codec the native
executor's bytes for the same cut (on CPUs; NaN apart). Lossy codecs run on the tensors' own device
(portable_codecs.py), under the same rules and bounds as natively (schedules/wire.py).

Results are ready when the call returns on CPUs; on other devices they are ready for work on the current stream.
"""

from __future__ import annotations

from collections import deque

import torch
import torch.distributed as dist

from ..errors import BackendUnavailable, CommunicatorError, UsageError
from ..types import Collective, Config, DType, Layout, Memory, ReduceOp
from .buffers import named, op_of
from .codecs import Codec
from .communicator import Selector
from .knobs import Shape
from .portable_check import agree
from .portable_codecs import tensor_codec
from .portable_compiler import plan_of
from .portable_feedback import TensorFeedback
from .portable_plan import Plan, cut
from .portable_slices import Transport
from .portable_tensors import flat
from .portable_waves import Prepared, carry_out, slices_in_flight

_CALLS_KEPT = 4096
_LAST_CALLS = 8


class PortableCommunicator:
    """One rank's end of a process group. Not thread-safe; every rank makes the same calls in the same order.

    Methods are those of `Communicator`, on contiguous tensors of one device. A root is a rank of the group.

    Args:
        group: as torch.distributed takes it; None for the whole job. It is not kept alive.
        selector: names the config of calls that bring none.
        layout: which rank plays which position, and the groups of hierarchical schedules; None for ranks in order.
        check: compare every call's arguments between all ranks before it starts; a difference is an error on all ranks.

    Raises:
        BackendUnavailable: torch.distributed is not initialised.
        UsageError: this process is not in the group, or the layout is of another number of ranks.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        *,
        selector: Selector,
        layout: Layout | None = None,
        check: bool = False,
    ) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise BackendUnavailable(
                "torch.distributed is not initialised", remedy="call torch.distributed.init_process_group() first"
            )
        group = dist.group.WORLD if group is None else group
        self.rank: int = dist.get_rank(group)
        if self.rank < 0:
            raise UsageError("this process is not in the group", remedy="make the communicator on its members only")
        self.n_ranks: int = dist.get_world_size(group)
        if layout is not None and len(layout.order) != self.n_ranks:
            raise UsageError(
                f"a layout of {len(layout.order)} ranks for a group of {self.n_ranks}", remedy="give the group's layout"
            )
        peers = [dist.get_global_rank(group, rank) for rank in range(self.n_ranks)]
        self._transport = Transport(group, peers)
        self._selector = selector
        self._layout = layout
        self._check = check
        self._prepared: dict[tuple[Shape, Config], Prepared] = {}
        self._calls = 0
        self._last: deque[tuple[int, Shape, Config]] = deque(maxlen=_LAST_CALLS)
        self._broken: str | None = None

    @property
    def group(self) -> dist.ProcessGroup:
        """The group, as long as torch has it."""
        return self._transport.group

    def all_reduce(
        self,
        tensor: torch.Tensor,
        op: ReduceOp | str = "sum",
        *,
        out: torch.Tensor | None = None,
        config: Config | None = None,
        feedback: TensorFeedback | None = None,
        name: str | None = None,
    ) -> torch.Tensor:
        """Combine all ranks' tensors; every rank gets the result, byte for byte the same, in `out` or in place.

        Args:
            feedback: adds what lossy codecs dropped in earlier calls of that `name`, and keeps what this one drops. For
                ``sum`` and ``avg``.
            name: the buffer's, for `feedback`.
        """
        target = tensor if out is None else out
        shape = self._shape(Collective.ALL_REDUCE, tensor, op)
        if feedback is None and name is None:
            self.run(shape, config, tensor, target)
        else:
            self._run_corrected(shape, config, tensor, target, feedback, name)
        return target

    def _run_corrected(
        self,
        shape: Shape,
        config: Config | None,
        source: torch.Tensor,
        target: torch.Tensor,
        feedback: TensorFeedback | None,
        name: str | None,
    ) -> None:
        if feedback is None or name is None:
            raise UsageError("of feedback and name only one is given", remedy="give both, or neither")
        if shape.op not in (ReduceOp.SUM, ReduceOp.AVG):
            raise UsageError(f"error feedback for {shape.op.value}", remedy="use it for sum or avg")
        config = self._chosen(shape) if config is None else config
        self.prepare(shape, config)
        flat(shape, self.n_ranks, self.rank, source, target)
        # From here on the residual is in the contribution, and may not get lost.
        contribution = feedback.corrected(name, source)
        self.run(shape, config, contribution, target, feedback.residual(name, source))

    def all_gather(
        self, tensor: torch.Tensor, out: torch.Tensor | None = None, *, config: Config | None = None
    ) -> torch.Tensor:
        """Every rank gets all ranks' tensors, in the order of ranks; a new tensor (n_ranks, *shape) if `out` is None.

        In place: `tensor` is the rank-th part of `out`.
        """
        target = tensor.new_empty((self.n_ranks, *tensor.shape)) if out is None else out
        self.run(self._shape(Collective.ALL_GATHER, tensor), config, tensor, target)
        return target

    def reduce_scatter(
        self, tensor: torch.Tensor, out: torch.Tensor, op: ReduceOp | str = "sum", *, config: Config | None = None
    ) -> torch.Tensor:
        """Combine all ranks' tensors; rank r gets the r-th part. In place: `out` is the rank-th part of `tensor`."""
        self.run(self._shape(Collective.REDUCE_SCATTER, out, op), config, tensor, out)
        return out

    def broadcast(self, tensor: torch.Tensor, root: int = 0, *, config: Config | None = None) -> torch.Tensor:
        """Every rank gets the root's tensor, in place."""
        self.run(self._shape(Collective.BROADCAST, tensor, root=root), config, tensor, tensor)
        return tensor

    def reduce(
        self,
        tensor: torch.Tensor,
        op: ReduceOp | str = "sum",
        *,
        root: int = 0,
        out: torch.Tensor | None = None,
        config: Config | None = None,
    ) -> torch.Tensor:
        """Combine all ranks' tensors; the root gets the result, in `tensor` unless it gives `out`."""
        target = tensor if out is None else out
        self.run(self._shape(Collective.REDUCE, tensor, op, root), config, tensor, target)
        return target if self.rank == root else tensor

    def scatter(
        self, tensor: torch.Tensor | None, out: torch.Tensor, root: int = 0, *, config: Config | None = None
    ) -> torch.Tensor:
        """Rank r gets the r-th part of the root's tensor; `tensor` is None on the other ranks."""
        self.run(self._shape(Collective.SCATTER, out, root=root), config, tensor, out)
        return out

    def gather(
        self, tensor: torch.Tensor, out: torch.Tensor | None = None, root: int = 0, *, config: Config | None = None
    ) -> torch.Tensor | None:
        """The root gets all ranks' tensors, in the order of ranks, in `out` (None on the other ranks)."""
        self.run(self._shape(Collective.GATHER, tensor, root=root), config, tensor, out)
        return out if self.rank == root else None

    def all_to_all(self, tensor: torch.Tensor, out: torch.Tensor, *, config: Config | None = None) -> torch.Tensor:
        """Rank s's r-th part becomes rank r's s-th part. `out` has the size of `tensor` and does not overlap it."""
        shape = self._shape(Collective.ALL_TO_ALL, tensor)
        if shape.count % self.n_ranks:
            raise UsageError(
                f"all_to_all: {shape.count} elements are not a multiple of {self.n_ranks} ranks",
                remedy="pad the tensor to a multiple",
            )
        self.run(Shape(shape.collective, shape.dtype, shape.op, 0, shape.count // self.n_ranks), config, tensor, out)
        return out

    def _shape(
        self, collective: Collective, sized: torch.Tensor, op: ReduceOp | str = ReduceOp.SUM, root: int = 0
    ) -> Shape:
        kind = named(DType, str(sized.dtype).removeprefix("torch."))
        return Shape(collective, kind, op_of(op), root, sized.numel())

    def _chosen(self, shape: Shape) -> Config:
        size = shape.message_bytes(self.n_ranks)
        return self._selector(shape.collective, size, shape.dtype, shape.op, Memory.PRIVATE)

    def run(
        self,
        shape: Shape,
        config: Config | None,
        source: torch.Tensor | None,
        target: torch.Tensor | None,
        residual: torch.Tensor | None = None,
    ) -> None:
        """Carry out a call.

        Args:
            shape: equal on all ranks.
            config: None asks the selector.
            source: the input; not looked at where this rank has none.
            target: the output, likewise. It may be `source`, or the part of it that this rank has (and the other way).
            residual: a vector of the input's length that takes what this rank's encodings drop (portable_feedback.py).

        Raises:
            UsageError: arguments that cannot be meant; nothing was sent.
            CommunicatorError: ranks called different things (with `check`), or a rank is gone or did not answer. The
                communicator is unusable afterwards.
        """
        if self._broken is not None:
            raise CommunicatorError(self._broken, remedy="make a new process group and communicator")
        if config is None:
            config = self._chosen(shape)
        self._calls += 1
        self._last.append((self._calls, shape, config))
        try:
            if self._check:
                own = target if source is None else source
                on = torch.device("cpu") if own is None else own.device
                agree(self.group, self._calls, shape, config, on, self.n_ranks)
            prepared = self.prepare(shape, config)
            vectors = flat(shape, self.n_ranks, self.rank, source, target)
            with torch.no_grad():
                carry_out(prepared, shape.op, *vectors, self._transport, residual)
        except CommunicatorError as err:
            self._broken = err.message
            raise
        except RuntimeError as err:  # what torch's backends raise for dead peers and time-outs
            last = [f"{n}: {s.collective.value} {s.dtype.value} {s.op.value} x {s.count} {c}" for n, s, c in self._last]
            self._broken = (
                f"rank {self.rank}: call {last[-1]} did not end: {str(err).splitlines()[0]}; "
                f"the last calls here: {'; '.join(last)}"
            )
            raise CommunicatorError(
                self._broken, remedy="compare with the other ranks' last calls, or run with AUTOTUNE_CHECK=1"
            ) from err

    def prepare(self, shape: Shape, config: Config) -> Prepared:
        """What a call does, worked out once.

        Raises:
            UsageError: a root that is no rank, or a config that this executor cannot carry out.
        """
        known = self._prepared.get((shape, config))
        if known is not None:
            return known
        in_flight, codec = slices_in_flight(config), Codec.parse(config.codec)
        if objection := codec.objection(shape.collective, shape.dtype, shape.op):
            raise UsageError(f"config {config}: {objection}", remedy="use the codec none")
        if not 0 <= shape.root < self.n_ranks:
            raise UsageError(
                f"root {shape.root} is not a rank of a group of {self.n_ranks}", remedy="give a rank as root"
            )
        plan = self._plan(shape, config, sliced=False)
        way = cut(plan, shape.count, shape.dtype.itemsize, config.segment_bytes)
        if way.slices > 1 and plan.vertical:
            plan = self._plan(shape, config, sliced=True)
        if len(self._prepared) >= _CALLS_KEPT:
            self._prepared.clear()
        self._prepared[shape, config] = made = Prepared(plan, way, in_flight, tensor_codec(codec))
        return made

    def _plan(self, shape: Shape, config: Config, *, sliced: bool) -> Plan:
        lossy, own = Codec.parse(config.codec).lossy, (self.n_ranks, self.rank, shape.root)
        return plan_of(shape.collective, config.algorithm, *own, self._layout, sliced=sliced, lossy=lossy)
