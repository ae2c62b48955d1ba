"""A slice of a portable call on its way through a plan's steps, each step one batch of messages.

In:  a plan, a cut, the vectors of input and output, a group. Out: results in the output.
May not touch: arguments (checked in portable.py), configs, device-specific code, the other slices of the call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ..errors import CommunicatorError
from ..types import ReduceOp
from .portable_plan import Area, Combine, Cut, Encode, Message, Plan, Run

Combination = Callable[..., torch.Tensor]

_COMBINATIONS: dict[ReduceOp, Combination] = {
    ReduceOp.SUM: torch.add,
    ReduceOp.AVG: torch.add,
    ReduceOp.PROD: torch.mul,
    ReduceOp.MAX: torch.maximum,
    ReduceOp.MIN: torch.minimum,
}
_HALVES = (torch.float16, torch.bfloat16)


class Transport:
    """Batches of messages over the group.

    torch keeps the group until it is destroyed; were it kept here, destroying it would not end its threads, and one of
    them that drops a tensor while the interpreter ends takes the process with it.
    """

    def __init__(self, group: dist.ProcessGroup, peers: Sequence[int]) -> None:
        self._group = weakref.ref(group)
        self._peers = peers

    @property
    def group(self) -> dist.ProcessGroup:
        """The group.

        Raises:
            CommunicatorError: it was destroyed.
        """
        group = self._group()
        if group is None:
            raise CommunicatorError("the process group was destroyed", remedy="make a new group")
        return group

    def post(
        self, sends: Sequence[tuple[int, torch.Tensor]], receives: Sequence[tuple[int, torch.Tensor]]
    ) -> list[Any]:
        """Start a batch; what to wait for. Tensors are kept by the works until then."""
        # Receives first: what arrives for a posted buffer needs no second look.
        group = self.group
        batch = [dist.P2POp(dist.irecv, tensor, self._peers[peer], group) for peer, tensor in receives]
        batch += [dist.P2POp(dist.isend, tensor, self._peers[peer], group) for peer, tensor in sends]
        return list(dist.batch_isend_irecv(batch)) if batch else []


class Slice:
    """One slice on its way through the steps."""

    def __init__(
        self,
        plan: Plan,
        way: Cut,
        number: int,
        op: ReduceOp,
        source: torch.Tensor | None,
        target: torch.Tensor | None,
        memory: torch.Tensor,
        transport: Transport,
    ) -> None:
        self._plan = plan
        self._op = op
        self._transport = transport
        self._length, self._pitch = way.length(number), way.pitch(number)
        self._start, self._stride = number * way.slice_elements, way.count
        scratch = plan.scratch_blocks * self._pitch
        self._memory = {
            Area.INPUT: source,
            Area.OUTPUT: target,
            Area.SCRATCH: memory[:scratch],
            Area.ARRIVED: memory[scratch:],
        }
        self._works: list[Any] = []  # Any: torch's works have no public type

    def advance(self, step: int) -> None:
        """Wait for the step before, combine what it brought, and post this step's messages."""
        for work in self._works:
            work.wait()
        self._arrived()
        before = self._plan.steps.get(step - 1)
        for combine in before.combines if before else ():
            self._combine(combine)
        now = self._plan.steps.get(step)
        self._works = []
        if now is not None:
            self._works = self._post(now.sends, now.receives, now.encodes)
        if step == 0:
            for run, place in self._plan.kept:
                self._copy(self._view(run), self._view(place))

    def _arrived(self) -> None:
        """Make of what has arrived what the step's combinations take: it is there already."""

    def _post(self, sends: Sequence[Message], receives: Sequence[Message], encodes: Sequence[Encode]) -> list[Any]:
        """Start a step's batch; what to wait for."""
        assert not encodes, "the plan is for encoded messages"
        return self._transport.post(self._messages(sends), self._messages(receives))

    def _messages(self, messages: Sequence[Message]) -> list[tuple[int, torch.Tensor]]:
        """The tensors that travel, without empty ones."""
        found = []
        for message in messages:
            if message.runs[0].area is Area.ARRIVED:  # in one stretch: only the last blocks can be short
                size = sum(map(self._elements, message.runs))
                start = message.runs[0].index * self._pitch
                payload = self._tensor(Area.ARRIVED)[start : start + size]
            else:
                views = [view for run in message.runs if (view := self._view(run)).numel()]
                payload = views[0] if len(views) == 1 else torch.cat(views) if views else None
            if payload is not None and payload.numel():
                found.append((message.peer, payload))
        return found

    def _elements(self, run: Run) -> int:
        if self._plan.vertical:
            return run.width * self._length
        first, last = run.block * self._pitch, (run.block + run.width) * self._pitch
        return min(self._length, last) - min(self._length, first)

    def _view(self, run: Run) -> torch.Tensor:
        start, length = self._place(run)
        return self._tensor(run.area)[start : start + length]

    def _place(self, run: Run) -> tuple[int, int]:
        """Where the slice's part of a run starts in its area, and its length."""
        if run.area in (Area.SCRATCH, Area.ARRIVED):
            start = run.index * self._pitch
        elif self._plan.vertical:
            start = run.index * self._stride + self._start
        else:
            start = self._start + min(self._length, run.index * self._pitch)
        return start, self._elements(run)

    def _tensor(self, area: Area) -> torch.Tensor:
        tensor = self._memory[area]
        assert tensor is not None, f"no {area.value} on this rank"
        return tensor

    @staticmethod
    def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
        if source.data_ptr() != target.data_ptr():
            target.copy_(source)

    def _combine(self, combine: Combine) -> None:
        target = self._view(combine.target)
        if not target.numel():
            return
        sources = [self._view(run) for run in combine.sources]
        if len(sources) == 1:
            return self._copy(sources[0], target)
        divisor = self._plan.n_ranks if combine.completes and self._op is ReduceOp.AVG else 1
        function = _COMBINATIONS[self._op]
        if target.dtype in _HALVES and (len(sources) > 2 or divisor > 1):
            total = sources[0].to(torch.float32)
            for source in sources[1:]:
                function(total, source, out=total)
            target.copy_(total.div_(divisor) if divisor > 1 else total)
            return None
        # The target may be the own value: it is written last. Of the first two sources, one at least has arrived, and
        # nobody reads that again.
        total = sources[0]
        if len(sources) > 2:
            spare = sources[0] if combine.sources[0].area is Area.ARRIVED else sources[1]
            total = function(sources[0], sources[1], out=spare)
            for source in sources[2:-1]:
                function(total, source, out=total)
        function(total, sources[-1], out=target)
        if divisor > 1 and target.is_floating_point():
            target.div_(divisor)
        elif divisor > 1:
            target.copy_(torch.div(target.to(torch.int64), divisor, rounding_mode="trunc"))
        return None
