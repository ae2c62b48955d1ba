"""How a communicator's native calls are carried out: at once, in their turn, or lined up behind a handle.

In:  a prepared native call and its buffers. Out: the result, or a `Handle`.
May not touch: what a call does, and how it was prepared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..types import Collective, Config, DType, ReduceOp
from . import _native
from .asynchronous import STAGED_BYTES, Handle, Progress, guarded
from .buffers import bytes_of
from .knobs import Shape

if TYPE_CHECKING:
    from .buffers import Buffer

R = TypeVar("R")


class Issuing(ABC):
    """One rank's calls in order; what they need of the communicator stands below as abstract."""

    rank: int
    n_ranks: int
    _check: bool
    _progress: Progress | None
    _direct: Callable[[_native.Call, object, object], None] | None
    """The native group's ``run``, as long as nothing was issued asynchronously: the short way of frequent calls."""
    _token: bytearray
    _sink: bytearray

    @property
    @abstractmethod
    def group(self) -> _native.Group: ...

    @abstractmethod
    def prepare(self, shape: Shape, config: Config | None = None, *, unequal: bool = False) -> _native.Call: ...

    @abstractmethod
    def barrier_call(self) -> _native.Call: ...

    @abstractmethod
    def _call(
        self,
        collective: Collective,
        sized: Buffer,
        dtype: DType | str | None,
        op: ReduceOp | str,
        root: int,
        config: Config | None,
        array: Buffer | None,
        out: Buffer | None,
    ) -> _native.Call: ...

    def run(self, call: _native.Call, source: object, target: object) -> None:
        """Carry out a prepared call, after everything that was issued before."""
        progress = self._progress
        if self._direct is not None:
            self._direct(call, source, target)
        elif progress is None:
            self.group.run(call, source, target)  # raises: it is closed
        else:
            with progress:
                self.group.run(call, source, target)

    def submit(self, operation: Callable[[], R], *, staged: bool = False) -> Handle[R]:
        """Line up a function among the asynchronous calls; what it calls on this communicator happens in its turn.

        Args:
            staged: what the handle says.

        Raises:
            UsageError: the communicator is closed.
        """
        progress = self._progress
        if progress is None:
            progress = self._progress = Progress(f"autotune rank {self.group.rank}")
            self._direct = None
        return progress.issue(operation, staged=staged)

    def _do(
        self,
        collective: Collective,
        call: _native.Call,
        source: Buffer | None,
        target: Buffer | None,
        result: R,
        async_op: bool,
    ) -> R | Handle[R]:
        if not async_op:
            self.run(call, source, target)
            return result
        self.group.check(call, source, target)
        return self._issue(collective, call, source, target, result)

    def _issue(
        self, collective: Collective, call: _native.Call, source: Buffer | None, target: Buffer | None, result: R
    ) -> Handle[R]:
        group = self.group
        view = None if source is None else bytes_of(source)
        if view is not None and not view.nbytes:
            view = memoryview(source)  # type: ignore[arg-type]  # of no bytes; in symmetric memory its place counts

        def operation() -> R:
            group.run(call, view, target)
            return result

        if view is None or not view.nbytes:
            return self.submit(operation, staged=True)
        in_place = target is not None and np.may_share_memory(np.asarray(view), np.asarray(target))
        if not in_place and view.nbytes <= STAGED_BYTES and group.place(view) is None:
            view = memoryview(bytes(view))
            return self.submit(operation, staged=True)
        if self._check:
            what = f"{collective.value} of {view.nbytes} bytes"
            return self.submit(
                guarded(operation, view, in_place=in_place, rank=self.rank, what=what, leave=group.leave)
            )
        return self.submit(operation)

    def _do_in_turn(self, run: Callable[[], None], result: R, async_op: bool) -> R | Handle[R]:
        def operation() -> R:
            run()
            return result

        if async_op:
            return self.submit(operation)
        self.in_turn(run)
        return result

    def in_turn(self, run: Callable[[], None]) -> None:
        """A synchronous operation, after everything that was issued before."""
        if self._progress is None:
            run()
        else:
            with self._progress:
                run()
