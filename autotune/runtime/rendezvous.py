"""How the ranks of one host find each other: rank 0 hands out the shared segment and its table, over a Unix socket.

In:  a group name, a rank, what must agree. Out: a descriptor of the segment and rank 0's table, on every rank.
May not touch: the network. The socket lies in a directory that only this user can enter, peers are checked to be this
user's processes, and the name is gone before the first collective. Standard library only.

Rank 0 listens, waits for all others, compares, and answers each with the table (its descriptor of the segment as
ancillary data) or with one error text that all ranks raise. So a difference is an error, never a hang.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import struct
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import CommunicatorError, UsageError

_RETRY_S = 0.005  # a rank that comes before rank 0 looks again this often
_MAX_MESSAGE = 64 << 20


@dataclass(frozen=True, slots=True)
class Group:
    """What every rank leaves the meeting with. The caller closes fd."""

    fd: int
    table_text: str
    n_cores: int  # that the ranks may run on, together


def meet(
    name: str,
    rank: int,
    n_ranks: int,
    *,
    must_agree: Mapping[str, str],
    cores: Collection[int],
    table_text: str,
    create: Callable[[], int],
    runtime_dir: Path,
    timeout_s: float,
) -> Group:
    """Meet the other ranks of `name`.

    Args:
        name: the group's name on this host; letters, digits, ``.``, ``_`` and ``-``.
        must_agree: words that have to be equal on all ranks, such as the version and the table's digest.
        cores: CPU numbers that this rank may run on.
        table_text: this rank's table; rank 0's is handed out.
        create: makes the segment; called on rank 0 only.
        runtime_dir: where the private directory of sockets is made; the same on all ranks.

    Raises:
        UsageError: an unusable name or rank.
        CommunicatorError: a rank did not come in time, came twice, or differs.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise UsageError(
            f"group name {name!r} is not 1 to 64 letters, digits, '.', '_' or '-'", remedy="choose another name"
        )
    if not 0 <= rank < n_ranks:
        raise UsageError(f"rank {rank} is not in a group of {n_ranks}", remedy=f"give ranks from 0 to {n_ranks - 1}")
    path = _private_directory(runtime_dir) / f"{name}.sock"
    deadline = time.monotonic() + timeout_s
    hello = {"rank": rank, "n_ranks": n_ranks, "agree": dict(must_agree), "cores": sorted(cores)}
    if rank == 0:
        return _host(path, hello, table_text, create, deadline, timeout_s)
    return _join(path, hello, deadline, timeout_s)


def _private_directory(runtime_dir: Path) -> Path:
    """A directory that belongs to this user alone.

    Raises:
        CommunicatorError: somebody else made it first.
    """
    path = runtime_dir / f"autotune-{os.getuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.lstat()
    except OSError as err:
        raise CommunicatorError(f"cannot make {path}: {err.strerror}", remedy="set AUTOTUNE_RUNTIME_DIR") from err
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise CommunicatorError(
            f"{path} is not a directory of this user alone", remedy=f"remove {path}, or set AUTOTUNE_RUNTIME_DIR"
        )
    return path


def _host(
    path: Path,
    hello: dict[str, object],
    table_text: str,
    create: Callable[[], int],
    deadline: float,
    timeout_s: float,
) -> Group:
    n_ranks = int(str(hello["n_ranks"]))
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        _bind(listener, path)
        stack.callback(path.unlink, missing_ok=True)
        listener.listen(n_ranks)
        arrived: list[socket.socket] = []
        peers: dict[int, socket.socket] = {}
        cores = set(_cores(hello))
        problem: str | None = None
        while len(peers) < n_ranks - 1 and problem is None:
            listener.settimeout(max(0.0, deadline - time.monotonic()) or 1e-3)
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                missing = [str(r) for r in range(1, n_ranks) if r not in peers]
                problem = f"rank(s) {', '.join(missing)} did not join the group within {timeout_s:g} s"
                break
            arrived.append(stack.enter_context(peer))
            problem = _admit(peer, peers, hello, cores, deadline)
        fd = -1
        if problem is None:
            fd = create()
            answer = json.dumps({"table": table_text, "cores": len(cores)}).encode()
        else:
            answer = json.dumps({"error": problem}).encode()
        for peer in arrived if problem is not None else peers.values():
            with contextlib.suppress(OSError):  # a peer that has gone is noticed when the group is joined
                peer.settimeout(max(1e-3, deadline - time.monotonic() + 1.0))
                _send(peer, answer, fd)
        if problem is not None:
            raise _disagreement(problem)
        return Group(fd, table_text, len(cores))


def _bind(listener: socket.socket, path: Path) -> None:
    try:
        listener.bind(str(path))
    except OSError:
        # Left by a rank 0 that was killed, or in use: a live one answers.
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with probe:
            if probe.connect_ex(str(path)) == 0:
                raise CommunicatorError(
                    f"another group named {path.stem!r} is meeting now", remedy="give each group a name of its own"
                ) from None
        path.unlink(missing_ok=True)
        listener.bind(str(path))


def _cores(hello: Mapping[str, object]) -> list[int]:
    listed = hello["cores"]
    if not isinstance(listed, list):
        raise TypeError("cores is not a list")
    return [int(core) for core in listed]


def _admit(
    peer: socket.socket, peers: dict[int, socket.socket], mine: dict[str, object], cores: set[int], deadline: float
) -> str | None:
    """Take a peer's first message; returns what is wrong with it."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] != os.getuid():
        return None  # another user's: root may enter the directory; not counted, and told nothing
    peer.settimeout(max(1e-3, deadline - time.monotonic()))
    try:
        theirs = json.loads(_receive(peer)[0])
        rank, n_ranks, agree = int(theirs["rank"]), int(theirs["n_ranks"]), dict(theirs["agree"])
        cores.update(_cores(theirs))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # went away before it said who it is
    if rank in peers or rank == 0:
        return f"two processes came as rank {rank}"
    peers[rank] = peer
    if n_ranks != mine["n_ranks"]:
        return f"rank 0 says the group has {mine['n_ranks']} ranks, rank {rank} says {n_ranks}"
    ours = mine["agree"]
    assert isinstance(ours, dict)
    for field in sorted(ours.keys() | agree.keys()):
        if ours.get(field) != agree.get(field):
            return f"ranks 0 and {rank} differ in {field}: {ours.get(field)} and {agree.get(field)}"
    return None


def _join(path: Path, hello: dict[str, object], deadline: float, timeout_s: float) -> Group:
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(max(1e-3, deadline - time.monotonic()))
            try:
                peer.connect(str(path))
                _send(peer, json.dumps(hello).encode(), -1)
                # Rank 0 waits for the slowest rank first, and its own time-out may start later than ours.
                peer.settimeout(max(1e-3, deadline - time.monotonic() + timeout_s))
                text, fd = _receive(peer)
                answer = json.loads(text)
            except (OSError, ValueError):
                if time.monotonic() >= deadline:
                    raise CommunicatorError(
                        f"rank {hello['rank']} found no rank 0 of group {path.stem!r} within {timeout_s:g} s",
                        remedy="start rank 0 too, under the same user and group name",
                    ) from None
                time.sleep(_RETRY_S)
                continue
        if "error" in answer:
            raise _disagreement(str(answer["error"]))
        return Group(fd, str(answer["table"]), int(answer["cores"]))


def _disagreement(problem: str) -> CommunicatorError:
    return CommunicatorError(
        problem, remedy="start all ranks with the same version, number of ranks and AUTOTUNE_TABLE"
    )


def _send(peer: socket.socket, text: bytes, fd: int) -> None:
    peer.sendall(struct.pack("<Q", len(text)))
    if fd >= 0:
        socket.send_fds(peer, [b"+"], [fd])
    else:
        peer.sendall(b"-")
    peer.sendall(text)


def _receive(peer: socket.socket) -> tuple[bytes, int]:
    (length,) = struct.unpack("<Q", _exactly(peer, 8))
    if length > _MAX_MESSAGE:
        raise ValueError(f"a message of {length} bytes")
    _, fds, _, _ = socket.recv_fds(peer, 1, 1)
    text = _exactly(peer, length)
    return text, fds[0] if fds else -1


def _exactly(peer: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = peer.recv(length - len(parts))
        if not part:
            raise OSError("the peer went away")
        parts += part
    return bytes(parts)
