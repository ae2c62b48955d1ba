"""What torch asks of a process group besides collectives: identity, point to point, and how a call is carried out.

In:  what the ranks agreed on. Out: works, in order of issue; errors with every rank's last calls.
May not touch: what a collective does with its tensors (process_group.py).
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ...errors import CommunicatorError, UsageError
from ...kernels import Shape
from .history import History
from .point_to_point import Channels
from .tensors import bytes_of, check, dense, put_back
from .works import Done, UnderWay

if TYPE_CHECKING:
    from ...kernels import Communicator, _native
    from .joining import Joined

Tensors = Sequence[torch.Tensor]
Options = Any  # a pybind value; torch is not type-checked
CALLS_KEPT = 4096

_open: weakref.WeakSet[Endpoint] = weakref.WeakSet()


class Endpoint(dist.ProcessGroup):  # type: ignore[misc]  # torch is not type-checked
    """One rank's end of a group.

    Args:
        joined: what the ranks agreed on when the group was made.
    """

    supports_coalescing = False

    def __init__(self, joined: Joined) -> None:
        super().__init__(joined.rank, joined.n_ranks)
        self._rank, self._n = joined.rank, joined.n_ranks
        self.communicator: Communicator = joined.communicator
        self.selector = joined.selector
        self.checks = joined.checks
        self._channels = Channels(joined.rank, joined.channel)
        self._history = History(joined.store, joined.rank, joined.n_ranks)
        self._run = self.communicator.run
        self._ready: dict[
            tuple[Any, ...], tuple[_native.Call, Any]
        ] = {}  # calls of the short way, with their buffers' types
        self._calls: dict[Shape, _native.Call] = {}
        self._done = Done()
        self._group_name = self._group_desc = ""
        self._coalesced: list[UnderWay | Done] | None = None
        _open.add(self)

    # What torch asks of a process group.

    def getBackendName(self) -> str:
        return "mc2"

    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupName(self) -> str:
        return self._group_name

    def setGroupDesc(self, desc: str) -> None:
        self._group_desc = desc

    def getGroupDesc(self) -> str:
        return self._group_desc

    def _get_backend(self, device: torch.device) -> Endpoint:
        return self

    def _get_backend_name(self) -> str:
        return "mc2"

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    supports_splitting = False

    def shutdown(self) -> None:
        """Carry out what was issued, and leave."""
        self._leave(finish=True)

    def abort(self) -> None:
        """Leave at once."""
        self._leave(finish=False)

    def _leave(self, *, finish: bool) -> None:
        _open.discard(self)
        self._channels.close()
        self.communicator.close(finish=finish)
        self._ready.clear()
        self._calls.clear()

    # Point to point.

    def send(self, tensors: Tensors, peer: int, tag: int) -> dist.Work:
        (tensor,) = tensors
        check(tensor, "send")
        self._history.add("send", ("to", peer, tensor.dtype, "x", tensor.numel()))
        return UnderWay(self._channels.send(peer, bytes_of(dense(tensor)), tag), tensors)

    def recv(self, tensors: Tensors, peer: int, tag: int) -> dist.Work:
        (tensor,) = tensors
        check(tensor, "recv")
        self._history.add("recv", ("from", peer, tensor.dtype, "x", tensor.numel()))
        if tensor.is_contiguous():
            return UnderWay(self._channels.recv(peer, bytes_of(tensor), tag), tensors, peer)
        work = torch.empty_like(tensor, memory_format=torch.contiguous_format)
        handle = self._channels.recv(peer, bytes_of(work), tag, then=lambda: put_back(work, tensor))
        return UnderWay(handle, tensors, peer)

    def recv_anysource(self, tensors: Tensors, tag: int) -> dist.Work:
        raise UsageError(
            "recv from any rank: the backend mc2 has no such receive", remedy="name the source: recv(tensor, src=...)"
        )

    # Several calls as one: they are in order anyway, so the last one's end is the end of all.

    def start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def end_coalescing(self, device: torch.device) -> dist.Work:
        works, self._coalesced = self._coalesced or [], None
        return works[-1] if works else Done()

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing

    # What they have in common.

    def _call(self, shape: Shape) -> _native.Call:
        call = self._calls.get(shape)
        if call is None:
            if not 0 <= shape.root < self._n:
                raise UsageError(
                    f"root {shape.root} is not a rank of a group of {self._n}", remedy="give a rank of the group"
                )
            if len(self._calls) >= CALLS_KEPT:
                self._calls.clear()
            call = self._calls[shape] = self.communicator.prepare(shape)
        return call

    def _carry_out(
        self,
        name: str,
        sized: Tensors,
        run: Callable[[], None],
        outputs: Tensors,
        opts: Options,
        words: tuple[object, ...] = (),
    ) -> dist.Work:
        """At once, or beside the caller."""
        self._history.add(name, (*words, *(f"{t.dtype} x {t.numel()}" for t in sized)))

        def explained() -> None:
            try:
                with torch.no_grad():
                    run()
            except CommunicatorError as err:
                raise self._history.explained(err) from err

        work: UnderWay | Done
        if getattr(opts, "asyncOp", True) or self._coalesced is not None:
            work = UnderWay(self.communicator.submit(explained), outputs)
            if self._coalesced is not None:
                self._coalesced.append(work)
        else:
            self.communicator.in_turn(explained)
            work = Done(outputs)
        return work

    def _alike(self, what: str, part: torch.Tensor, whole: torch.Tensor, n: int) -> None:
        check(part, what)
        check(whole, what)
        if part.dtype != whole.dtype or part.numel() * n != whole.numel():
            raise UsageError(
                f"{what}: {part.numel()} elements of {part.dtype} against {whole.numel()} of {whole.dtype}, "
                f"for {self._n} ranks",
                remedy=f"give tensors of one type, one {n} times the size of the other"
                if n > 1
                else "give tensors alike",
            )

    def _one_each(self, what: str, places: Tensors, part: torch.Tensor) -> None:
        check(part, what)
        for place in places:
            self._alike(what, place, part, 1)
        if len(places) != self._n:
            raise UsageError(
                f"{what}: {len(places)} tensors for {self._n} ranks", remedy="give one tensor for each rank"
            )


@atexit.register
def _leave_all() -> None:
    """Where a job ends without destroying its groups: a thread inside a call must not meet a dying interpreter."""
    for group in list(_open):
        group.abort()
