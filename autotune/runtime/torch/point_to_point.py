"""send and recv of a process group: for each pair of ranks and direction a channel of its own, opened at first use.

In:  tensors' bytes, a peer, a tag. Out: the same bytes there, matched by tag, in the order of sends.
May not touch: collectives.

A channel is a communicator of two ranks, so that a message that waits for its receiver holds up neither collectives
nor messages to and from others; that is what ``isend`` and ``irecv`` promise.

Every message has a head of two numbers: its tag and its size. A message whose tag nobody asked for yet is kept until
somebody does, as MPI and gloo do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...errors import CommunicatorError
from ...kernels.asynchronous import Handle

if TYPE_CHECKING:
    from ...kernels import Communicator

Opener = Callable[[int, int, int], "Communicator"]
"""(from, to, end of the channel) -> its end 0 or 1; waits for the other end."""

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


class Channels:
    """One rank's channels."""

    def __init__(self, rank: int, opener: Opener) -> None:
        self._rank, self._opener = rank, opener
        self._channels: dict[tuple[int, int], _Channel] = {}
        self._lock = threading.Lock()

    def send(self, peer: int, message: Bytes, tag: int) -> Handle[None]:
        """Start to send; the message stays as it is until the handle is done."""
        channel = self._channel(self._rank, peer)
        return channel.submit(lambda: channel.send(message, tag))

    def recv(self, peer: int, out: Bytes, tag: int, then: Callable[[], None] | None = None) -> Handle[None]:
        """Start to receive the next message of that tag.

        Args:
            then: what is to be done with it before the handle is done.
        """
        channel = self._channel(peer, self._rank)

        def run() -> None:
            channel.recv(out, tag)
            if then is not None:
                then()

        return channel.submit(run)

    def _channel(self, source: int, target: int) -> _Channel:
        with self._lock:
            known = self._channels.get((source, target))
            if known is None:
                known = _Channel(source, target, self._rank == target, self._opener)
                self._channels[source, target] = known
            return known

    def close(self) -> None:
        """Leave all of them; what has not begun fails."""
        with self._lock:
            channels = list(self._channels.values())
            self._channels.clear()
        for channel in channels:
            channel.close()


class _Channel:
    """One end of a channel from one rank to another.

    Args:
        receives: this is the receiving end.
    """

    def __init__(self, source: int, target: int, receives: bool, opener: Opener) -> None:
        from ...kernels.asynchronous import Progress

        self._source, self._target = source, target
        self._receives, self._opener = receives, opener
        self._comm: Communicator | None = None
        self._kept: dict[int, deque[bytes]] = {}
        self._progress = Progress(f"autotune {source} to {target}")

    def submit(self, run: Callable[[], None]) -> Handle[None]:
        return self._progress.issue(run)

    def send(self, message: Bytes, tag: int) -> None:
        comm = self._opened()
        comm.send(np.array([tag, message.size], np.int64), 1)
        if message.size:
            comm.send(message, 1)

    def recv(self, out: Bytes, tag: int) -> None:
        kept = self._kept.get(tag)
        if kept:
            self._fits(len(kept[0]), out, tag)
            out[:] = np.frombuffer(kept.popleft(), np.uint8)
            return
        comm = self._opened()
        head = np.empty(2, np.int64)
        while True:
            comm.recv(head, 0)
            came, size = int(head[0]), int(head[1])
            if came == tag:
                break
            message = np.empty(size, np.uint8)
            if size:
                comm.recv(message, 0)
            self._kept.setdefault(came, deque()).append(message.tobytes())
        self._fits(size, out, tag)
        if size:
            comm.recv(out, 0)

    def _fits(self, size: int, out: Bytes, tag: int) -> None:
        if size != out.size:
            raise CommunicatorError(
                f"rank {self._source} sends {size} bytes to rank {self._target} with tag {tag}, "
                f"which receives {out.size} bytes",
                remedy="send and receive tensors of the same size and type, in the same order",
            )

    def _opened(self) -> Communicator:
        if self._comm is None:
            self._comm = self._opener(self._source, self._target, 1 if self._receives else 0)
        return self._comm

    def close(self) -> None:
        self._progress.close(finish=False)
        if self._comm is not None:
            self._comm.close()
