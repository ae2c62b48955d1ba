"""What the process group gives back for a call: torch's Work, for calls that are over and for calls under way.

In:  results, or a handle. Out: ``wait``, ``get_future`` and the rest of torch's interface.
May not touch: what the call does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ...kernels.asynchronous import Handle


class Done(dist.Work):  # type: ignore[misc]  # torch is not type-checked
    """A call that was over when it returned.

    Args:
        outputs: what ``get_future`` and ``result`` give.
    """

    def __init__(self, outputs: Sequence[torch.Tensor] = ()) -> None:
        super().__init__()
        self._outputs = outputs

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> BaseException | None:
        return None

    def synchronize(self) -> None:
        return

    def result(self) -> list[torch.Tensor]:
        return list(self._outputs)

    def get_future(self) -> torch.futures.Future[Any]:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(list(self._outputs))
        return future


class UnderWay(dist.Work):  # type: ignore[misc]  # torch is not type-checked
    """A call that is carried out beside the caller.

    Args:
        handle: of the call.
        outputs: what ``get_future`` and ``result`` give.
        source: the peer of a receive; -1 for other calls, as torch says it.
    """

    def __init__(self, handle: Handle[Any], outputs: Sequence[torch.Tensor] = (), source: int = -1) -> None:
        super().__init__()
        self._handle = handle
        self._outputs = outputs
        self._source = source
        self._future: torch.futures.Future[Any] | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the call; torch's own "no time-out" is 0.

        Raises:
            CommunicatorError: as the synchronous call.
            TimeoutError: it is not over yet.
        """
        seconds = timeout.total_seconds() if timeout else 0.0
        self._handle.wait(seconds if seconds > 0 else None)
        return True

    def is_completed(self) -> bool:
        return self._handle.done()

    def is_success(self) -> bool:
        return self._handle.done() and self._handle.error() is None

    def exception(self) -> BaseException | None:
        return self._handle.error()

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return list(self._outputs)

    def get_future(self) -> torch.futures.Future[Any]:
        if self._future is None:
            self._future = future = torch.futures.Future()
            handle, outputs = self._handle, self._outputs

            def tell() -> None:
                error = handle.error()
                if error is None:
                    future.set_result(list(outputs))
                elif isinstance(error, Exception):
                    future.set_exception(error)
                else:  # Ctrl-C in whoever carried the call out
                    future.set_exception(RuntimeError(f"the call was interrupted: {error!r}"))

            handle.when_done(tell)
        return self._future
