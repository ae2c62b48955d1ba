"""A server that answers exactly what a test says, byte for byte, and remembers what it was asked."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

WAIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """The server.

    Args:
        requests: heads, in the order of their arrival.
    """

    url: str
    requests: list[str] = field(default_factory=list)


@contextmanager
def scripted(
    answers: Sequence[bytes], *, hold: bool = False, context: ssl.SSLContext | None = None
) -> Iterator[Scripted]:
    """One answer for each connection, the last one for all further ones; then the connection is closed.

    Args:
        hold: answer, and then keep the connection open without another byte, until the block ends.
        context: for HTTPS.
    """
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        found = Scripted(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        held: list[socket.socket] = []

        def work() -> None:
            while not ended.is_set():
                try:
                    peer, _ = listener.accept()
                except TimeoutError:
                    continue
                peer.settimeout(WAIT_S)
                head = b""
                with suppress(OSError):  # a client that gives up
                    if context is not None:
                        peer = context.wrap_socket(peer, server_side=True)
                    while b"\r\n\r\n" not in head and (part := peer.recv(4096)):
                        head += part
                    found.requests.append(head.decode("latin-1"))
                    peer.sendall(answers[min(len(found.requests), len(answers)) - 1])
                if hold:
                    held.append(peer)
                else:
                    peer.close()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield found
        finally:
            ended.set()
            thread.join(WAIT_S)
            for peer in held:
                peer.close()
            assert not thread.is_alive()


def answer(body: bytes | str, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """An answer with its Content-Length, or another one."""
    content = body.encode() if isinstance(body, str) else body
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(content) if length is None else length}", *headers]
    return "\r\n".join([*head, "Connection: close", "", ""]).encode() + content
