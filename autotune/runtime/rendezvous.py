"""How the ranks of one host find each other: rank 0 hands out the shared segment and its table, over a Unix socket.

In:  a group name, a rank, what must agree. Out: a descriptor of the segment and rank 0's table, on every rank.
May not touch: the network. The socket lies in a directory that only this user can enter, peers are checked to be this
user's processes, and the name is gone before the first collective. Standard library only.

Rank 0 listens, waits for all others, compares, and answers each with the table (its descriptor of the segment as
ancillary data) or with one error that all ranks raise. So a difference is an error, never a hang; it is told when all
have come, since those that come later would find nobody to tell them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import socket
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import AutotuneError, CommunicatorError, UsageError

_RETRY_S = 0.005  # a rank that comes before rank 0 looks again this often
_MAX_MESSAGE = 64 << 20
_MAX_PATH = 107  # bytes of a socket's name on Linux


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
    if len(os.fsencode(path)) > _MAX_PATH:
        raise CommunicatorError(
            f"{path} is too long for a socket: {len(os.fsencode(path))} bytes, not up to {_MAX_PATH}",
            remedy="set AUTOTUNE_RUNTIME_DIR to a shorter path",
        )
    deadline = time.monotonic() + timeout_s
    hello = _Hello(rank, n_ranks, dict(must_agree), sorted(cores))
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
    hello: _Hello,
    table_text: str,
    create: Callable[[], int],
    deadline: float,
    timeout_s: float,
) -> Group:
    n_ranks = hello.n_ranks
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        _listen(listener, path, n_ranks)
        stack.callback(path.unlink, missing_ok=True)
        arrived: list[socket.socket] = []
        ranks: set[int] = set()
        cores = set(hello.cores)
        problem: AutotuneError | None = None
        while len(arrived) < n_ranks - 1:
            listener.settimeout(max(0.0, deadline - time.monotonic()) or 1e-3)
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                missing = [str(r) for r in range(1, n_ranks) if r not in ranks]
                problem = problem or _disagreement(
                    f"rank(s) {', '.join(missing)} did not join the group within {timeout_s:g} s"
                )
                break
            stack.enter_context(peer)
            theirs = _introduced(peer, deadline)
            if theirs is None:
                continue
            arrived.append(peer)
            cores.update(theirs.cores)
            problem = problem or _difference(theirs, ranks, hello)
            ranks.add(theirs.rank)
        fd = -1
        if problem is None:
            try:
                fd = create()
            except AutotuneError as err:
                problem = err
        if problem is None:
            answer = {"table": table_text, "cores": len(cores)}
        else:
            answer = {"error": problem.message, "remedy": problem.remedy}
        for peer in arrived:
            with contextlib.suppress(OSError):  # a peer that has gone is noticed when the group is joined
                peer.settimeout(max(1e-3, deadline - time.monotonic() + 1.0))
                _send(peer, json.dumps(answer).encode(), fd)
        if problem is not None:
            raise problem
        return Group(fd, table_text, len(cores))


def _listen(listener: socket.socket, path: Path, n_ranks: int) -> None:
    """Take the name; a file that nobody listens behind was left by a rank 0 that was killed.

    The name appears once somebody listens behind it, and two that want it at once take turns: otherwise the second
    would find the first's socket not yet listening and remove it as stale.
    """
    binding = path.with_name(".new")
    try:
        with _locked(path.parent):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.setblocking(False)  # a full queue is somebody, too
                if probe.connect_ex(str(path)) not in (errno.ECONNREFUSED, errno.ENOENT):
                    raise CommunicatorError(
                        f"another group named {path.stem!r} is meeting now", remedy="give each group a name of its own"
                    )
            binding.unlink(missing_ok=True)  # of one that was killed within these lines
            listener.bind(str(binding))
            listener.listen(n_ranks)
            binding.rename(path)
    except OSError as err:
        raise CommunicatorError(f"cannot listen on {path}: {err.strerror}", remedy="set AUTOTUNE_RUNTIME_DIR") from err


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Alone in a directory for the few system calls that take a name; the lock goes with its holder."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class _Hello:
    """A rank's first message."""

    rank: int
    n_ranks: int
    agree: dict[str, str]
    cores: list[int]


def _hello(fields: Mapping[str, object]) -> _Hello:
    cores, agree = fields["cores"], fields["agree"]
    if not isinstance(cores, list) or not isinstance(agree, dict):
        raise TypeError("cores is not a list, or agree no mapping")
    return _Hello(int(str(fields["rank"])), int(str(fields["n_ranks"])), agree, [int(core) for core in cores])


def _introduced(peer: socket.socket, deadline: float) -> _Hello | None:
    """A peer's first message; None from another user's process, or one that went away before it said who it is."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] != os.getuid():
        return None  # root may enter the directory; not counted, and told nothing
    peer.settimeout(max(1e-3, deadline - time.monotonic()))
    try:
        return _hello(json.loads(_receive(peer)[0]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _difference(theirs: _Hello, ranks: Collection[int], mine: _Hello) -> CommunicatorError | None:
    """What makes a peer no rank of this group, or None."""
    if theirs.rank in ranks or theirs.rank == 0:
        return _disagreement(f"two processes came as rank {theirs.rank}")
    if theirs.n_ranks != mine.n_ranks:
        return _disagreement(
            f"rank 0 says the group has {mine.n_ranks} ranks, rank {theirs.rank} says {theirs.n_ranks}"
        )
    for field in sorted(mine.agree.keys() | theirs.agree.keys()):
        ours, other = mine.agree.get(field), theirs.agree.get(field)
        if ours != other:
            return _disagreement(f"ranks 0 and {theirs.rank} differ in {field}: {ours} and {other}")
    return None


def _join(path: Path, hello: _Hello, deadline: float, timeout_s: float) -> Group:
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(max(1e-3, deadline - time.monotonic()))
            try:
                peer.connect(str(path))
                _send(peer, json.dumps(asdict(hello)).encode(), -1)
                # Rank 0 waits for the slowest rank first, and its own time-out may start later than ours.
                peer.settimeout(max(1e-3, deadline - time.monotonic() + timeout_s))
                text, fd = _receive(peer)
                answer = json.loads(text)
            except (OSError, ValueError):
                if time.monotonic() >= deadline:
                    raise CommunicatorError(
                        f"rank {hello.rank} found no rank 0 of group {path.stem!r} within {timeout_s:g} s",
                        remedy="start rank 0 too, under the same user and group name",
                    ) from None
                time.sleep(_RETRY_S)
                continue
        if "error" in answer:
            raise CommunicatorError(str(answer["error"]), remedy=str(answer["remedy"]))
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
    for fd in fds:
        os.set_inheritable(fd, False)  # a received descriptor is the only kind that Python leaves inheritable
    try:
        return _exactly(peer, length), fds[0] if fds else -1
    except OSError:
        for fd in fds:
            os.close(fd)
        raise


def _exactly(peer: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = peer.recv(length - len(parts))
        if not part:
            raise OSError("the peer went away")
        parts += part
    return bytes(parts)
