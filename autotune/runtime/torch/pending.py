"""Calls under way, whoever carries them out: what a caller may ask of them.

In:  results, or torch's works. Out: ``done``, ``wait`` and ``when_done``, as `Handle` of the kernels has them.
May not touch: what the calls do.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

Work = Any  # torch's works have no public type


class Pending(Protocol):
    """A call under way."""

    def done(self) -> bool:
        """Whether it is over."""
        ...

    def wait(self, timeout: float | None = None) -> torch.Tensor:
        """The result; TimeoutError where it is not over within `timeout` seconds."""
        ...

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call this once it is over."""
        ...

    def error(self) -> BaseException | None:
        """What `wait` raises; None where it is not over, or went well."""
        ...


class Ready:
    """A call that is over."""

    def __init__(self, result: torch.Tensor) -> None:
        self._result = result

    def done(self) -> bool:
        return True

    def wait(self, timeout: float | None = None) -> torch.Tensor:
        return self._result

    def when_done(self, callback: Callable[[], None]) -> None:
        callback()

    def error(self) -> BaseException | None:
        return None


_AT_EXIT_S = 5.0
_under_way: set[LibraryCall] = set()


class LibraryCall:
    """A call of the library's own under way."""

    def __init__(self, work: Work, result: torch.Tensor) -> None:
        self._work, self._result = work, result
        for call in list(_under_way):
            if call.done():
                _under_way.discard(call)
        _under_way.add(self)

    def done(self) -> bool:
        return bool(self._work.is_completed())

    def wait(self, timeout: float | None = None) -> torch.Tensor:
        self._work.wait() if timeout is None else self._work.wait(timedelta(seconds=timeout))
        _under_way.discard(self)
        return self._result

    def when_done(self, callback: Callable[[], None]) -> None:
        self._work.get_future().then(lambda _: callback())

    def error(self) -> BaseException | None:
        if not self.done():
            return None
        try:
            self._work.wait()
        except RuntimeError as err:
            return err
        return None


class AllOf:
    """Several calls under way; over when all are, in whatever order a library ends them."""

    def __init__(self, parts: Sequence[Pending]) -> None:
        self._parts = tuple(parts)

    def done(self) -> bool:
        return all(part.done() for part in self._parts)

    def wait(self, timeout: float | None = None) -> torch.Tensor:
        end_s = None if timeout is None else time.monotonic() + timeout
        for part in self._parts:
            result = part.wait(None if end_s is None else max(0.0, end_s - time.monotonic()))
        return result

    def when_done(self, callback: Callable[[], None]) -> None:
        open_parts = iter(self._parts)

        def next_one() -> None:
            part = next(open_parts, None)
            callback() if part is None else part.when_done(next_one)

        next_one()

    def error(self) -> BaseException | None:
        return next((error for part in self._parts if (error := part.error()) is not None), None)


@atexit.register
def _wait_for_all() -> None:
    """Where a job ends without waiting: a library's thread that needs Python then takes the process with it.

    Not for long, since the others may have ended in another way. A call that is over is dropped by its thread only
    afterwards; destroying the groups waits for the threads.
    """
    end_s = time.monotonic() + _AT_EXIT_S
    left = list(_under_way)
    try:
        for call in left:
            call.wait(max(0.001, end_s - time.monotonic()))
    except RuntimeError:
        return  # a dead peer, or the time is over: nobody asks any more
    if left and dist.is_initialized():
        dist.destroy_process_group()
