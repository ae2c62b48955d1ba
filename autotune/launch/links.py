"""Messages between agents over a stream socket, each with a MAC: who does not know the run's secret is not heard.

    lead                                agent
      ── nonce ──────────────────────────►
      ◄── nonce, hello, MAC(secret) ──────      who fails this is closed; nothing that it sent is read any further
      ── MAC(secret) ────────────────────►      an agent that is lied to goes away as well
      ◄── frames: length, MAC, JSON ─────►      under a key of this connection, numbered in each direction

In:  a connected socket, a secret. Out: JSON messages, and descriptors where the socket is a Unix one.
May not touch: what messages mean. HMAC is that of RFC 2104, with SHA-256. Nothing is encrypted: who can read the
network reads the messages, but cannot change, repeat, drop or insert one without the link being closed.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence

from ..backends.rank_process import Json

Message = dict[str, Json]

MAX_MESSAGE_BYTES = 64 << 20
_MAX_HELLO_BYTES = 1 << 20
_NONCE_BYTES = _MAC_BYTES = 32
_LENGTH = struct.Struct("<I")
_MOST_DESCRIPTORS = 4


class LinkLost(OSError):
    """The other end has gone, or what came from it is not of it."""


class Link:
    """A connection whose other end has proved itself.

    Args:
        key: of this connection.
        leads: this is the lead's end.
    """

    def __init__(self, sock: socket.socket, key: bytes, *, leads: bool) -> None:
        self._sock = sock
        self._key = key
        self._out, self._in = (b"lead", b"agent") if leads else (b"agent", b"lead")
        self._n_sent = self._n_received = 0
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()

    def fileno(self) -> int:
        """For selectors."""
        return self._sock.fileno()

    @property
    def own_address(self) -> str | None:
        """This end's address; None for a Unix socket."""
        return None if self._sock.family == socket.AF_UNIX else plain_address(self._sock)

    def send(self, message: Mapping[str, Json], descriptors: Sequence[int] = ()) -> None:
        """Send one message, with descriptors over a Unix socket.

        Raises:
            LinkLost: the other end has gone, or takes nothing.
        """
        text = json.dumps(message).encode()
        frame = _LENGTH.pack(len(text)) + self._mac(self._out, self._n_sent, text) + text
        self._n_sent += 1
        try:
            if descriptors:
                sent = socket.send_fds(self._sock, [frame], descriptors)
                frame = frame[sent:]
            self._sock.sendall(frame)
        except OSError as err:
            raise LinkLost(f"cannot be told anything ({err})") from err

    def receive(self) -> list[Message]:
        """Read what is there, waiting until there is something; the messages that are whole now, perhaps none.

        Raises:
            LinkLost: the other end has gone, or did not know the key.
        """
        try:
            if self._sock.family == socket.AF_UNIX:
                part, received, _, _ = socket.recv_fds(self._sock, 1 << 16, _MOST_DESCRIPTORS)
                for descriptor in received:
                    os.set_inheritable(descriptor, False)  # a received one is inheritable otherwise
                self._descriptors += received
            else:
                part = self._sock.recv(1 << 16)
        except OSError as err:
            raise LinkLost(f"cannot be heard ({err})") from err
        if not part:
            raise LinkLost("has gone")
        self._bytes += part
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def ended(self) -> bool:
        """Whether the other end has closed the link, and all that it said was read."""
        try:
            return self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def descriptor(self) -> int | None:
        """The oldest descriptor that came and was not taken; the caller closes it."""
        return self._descriptors.popleft() if self._descriptors else None

    def close(self) -> None:
        """The other end notices."""
        self._sock.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _next(self) -> Message | None:
        head = _LENGTH.size + _MAC_BYTES
        if len(self._bytes) < head:
            return None
        (length,) = _LENGTH.unpack_from(self._bytes)
        if length > MAX_MESSAGE_BYTES:
            raise LinkLost(f"sent a message of {length} bytes")
        if len(self._bytes) < head + length:
            return None
        mac, text = bytes(self._bytes[_LENGTH.size : head]), bytes(self._bytes[head : head + length])
        del self._bytes[: head + length]
        if not hmac.compare_digest(mac, self._mac(self._in, self._n_received, text)):
            raise LinkLost("sent a message that is not its own")
        self._n_received += 1
        message: Message = json.loads(text)
        return message

    def _mac(self, sender: bytes, number: int, text: bytes) -> bytes:
        return hmac.digest(self._key, sender + number.to_bytes(8, "little") + text, "sha256")


def plain_address(sock: socket.socket) -> str:
    """The address of this end of a connection, an IPv4 one as such where it is carried in an IPv6 one."""
    return str(sock.getsockname()[0]).removeprefix("::ffff:")


def linked_pair() -> tuple[Link, Link]:
    """A lead's and an agent's end inside this process."""
    ours, theirs = socket.socketpair()
    key = secrets.token_bytes(_MAC_BYTES)
    return Link(ours, key, leads=True), Link(theirs, key, leads=False)


def admit(sock: socket.socket, secret: bytes, deadline_s: float) -> tuple[Message, Link] | None:
    """The lead's side of meeting: an agent's hello and its link; None for somebody who is no agent of this run."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    with contextlib.suppress(OSError, ValueError):  # a stranger may send anything, or nothing
        _until(sock, deadline_s)
        sock.sendall(nonce)
        theirs = _exactly(sock, _NONCE_BYTES, deadline_s)
        mac = _exactly(sock, _MAC_BYTES, deadline_s)
        (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size, deadline_s))
        if length > _MAX_HELLO_BYTES:
            return None
        hello = _exactly(sock, length, deadline_s)
        if not hmac.compare_digest(mac, hmac.digest(secret, b"agent" + nonce + theirs + hello, "sha256")):
            return None
        sock.sendall(hmac.digest(secret, b"lead" + nonce + theirs, "sha256"))
        sock.settimeout(None)
        message: Message = json.loads(hello)
        return message, Link(sock, hmac.digest(secret, b"link" + nonce + theirs, "sha256"), leads=True)
    return None


def introduce(sock: socket.socket, secret: bytes, hello: Mapping[str, Json], deadline_s: float) -> Link | None:
    """The agent's side of meeting: the link to the lead; None where who listens is not the lead of this run.

    Raises:
        OSError: nobody answers in time.
    """
    _until(sock, deadline_s)
    theirs = _exactly(sock, _NONCE_BYTES, deadline_s)
    nonce, text = secrets.token_bytes(_NONCE_BYTES), json.dumps(hello).encode()
    sock.sendall(
        nonce + hmac.digest(secret, b"agent" + theirs + nonce + text, "sha256") + _LENGTH.pack(len(text)) + text
    )
    proof = _exactly(sock, _MAC_BYTES, deadline_s)
    if not hmac.compare_digest(proof, hmac.digest(secret, b"lead" + theirs + nonce, "sha256")):
        return None
    sock.settimeout(None)
    return Link(sock, hmac.digest(secret, b"link" + theirs + nonce, "sha256"), leads=False)


def _exactly(sock: socket.socket, length: int, deadline_s: float) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        _until(sock, deadline_s)
        part = sock.recv(length - len(parts))
        if not part:
            raise OSError("the peer went away")
        parts += part
    return bytes(parts)


def _until(sock: socket.socket, deadline_s: float) -> None:
    sock.settimeout(max(1e-3, deadline_s - time.monotonic()))
