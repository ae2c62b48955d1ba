"""The driver's socket in every host: abstract Unix names belong to a network namespace, so each gets a door of its own.

In:  the name that ranks connect to, hosts. Out: connections in a host, handed on to the driver's socket of that name.
May not touch: what is said.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Iterator, Sequence

_CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def doors(namespaces: Sequence[str], name: str) -> Iterator[None]:
    """Listen under an abstract name in each namespace, until the block ends; connections that were made stay."""
    with contextlib.ExitStack() as stack:
        for namespace in namespaces:
            door = stack.enter_context(_listening(namespace, name))
            stack.callback(door.shutdown, socket.SHUT_RDWR)
            threading.Thread(target=_let_in, args=(door, name), daemon=True).start()
        yield


def _listening(namespace: str, name: str) -> socket.socket:
    """A socket of another network namespace: made by a thread that goes there, and ends."""
    made: list[socket.socket] = []
    failed: list[OSError] = []

    def make() -> None:
        fd = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(fd, _CLONE_NEWNET) != 0:
                failed.append(OSError(ctypes.get_errno(), "setns"))
                return
            door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            door.bind(b"\0" + name.encode())
            door.listen(64)
            made.append(door)
        finally:
            os.close(fd)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _let_in(door: socket.socket, name: str) -> None:
    while True:
        try:
            inner, _ = door.accept()
        except OSError:
            return  # shut down
        outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        outer.connect(b"\0" + name.encode())
        for source, target in ((inner, outer), (outer, inner)):
            threading.Thread(target=_hand_on, args=(source, target), daemon=True).start()


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
