"""How the agents of a run find each other: rank 0 listens, the others come and prove themselves.

In:  a `Launched`, what this rank says of itself, the run's secret. Out: rank 0's links to all others, or a link to it.
May not touch: what is said over the links afterwards.

On one host rank 0 listens at an abstract Unix socket, whose name is made of the user and the job; the kernel says whose
process the other end is, so it needs no secret, and nothing is left behind whatever ends it. On several hosts it
listens on a TCP port of its own, which torch's TCPStore tells; beside it, unless AUTOTUNE_SECRET is set, the secret.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..backends.rank_process import Json
from ..errors import AutotuneError, CommunicatorError
from ..runtime.board import KeyValueStore
from .environment import Launched
from .hello import Hello, read_hello
from .links import Link, LinkLost, admit, introduce, plain_address
from .store import tell_port, told_port

_RETRY_S = 0.02
_STRANGER_S = 10.0  # the longest that somebody who connects may take to prove himself
_UNHEARD_MS = 30_000  # a connection that is cut for as long is lost
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What rank 0 knows when all have come.

    Args:
        agents: the other ranks, by rank.
        secret: of the run; empty on one host.
    """

    agents: dict[int, tuple[Hello, Link]]
    secret: bytes


def lead(
    launch: Launched,
    mine: Hello,
    secret: bytes | None,
    store: KeyValueStore | None,
    within_s: float,
    said: Callable[[str], None],
) -> Met:
    """Rank 0's side: every other rank's hello and link.

    Args:
        store: of several hosts.
        said: told of strangers that knocked.

    Raises:
        CommunicatorError: a rank did not come in time, came twice, or is of another version or run; all that came get
            the same error.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listener(launch, store))
        key = b"" if store is None else tell_port(launch, store, secret, listener.getsockname()[1])
        arrivals: queue.SimpleQueue[tuple[Hello, Link] | str] = queue.SimpleQueue()
        deadline_s = time.monotonic() + within_s
        accepting = threading.Thread(target=_accept, args=(listener, key, deadline_s, arrivals), daemon=True)
        accepting.start()
        stack.callback(listener.shutdown, socket.SHUT_RDWR)  # ends accept()
        agents: dict[int, tuple[Hello, Link]] = {}
        strangers: set[str] = set()
        problem: CommunicatorError | None = None
        n_came = 0
        try:
            while n_came < launch.n_ranks - 1:
                try:
                    arrival = arrivals.get(timeout=max(1e-3, deadline_s - time.monotonic()))
                except queue.Empty:
                    problem = problem or _missing(launch, agents, strangers, within_s)
                    break
                if isinstance(arrival, str):
                    if arrival not in strangers:
                        said(f"closed a connection from {arrival}: it did not know the run's secret")
                    strangers.add(arrival)
                    continue
                n_came += 1
                hello, link = arrival
                problem = problem or _difference(hello, mine, agents)
                if hello.rank in agents or hello.rank == 0:
                    stack.callback(link.close)
                    _tell(link, problem)
                else:
                    agents[hello.rank] = (hello, link)
            if problem is not None:
                raise problem
        except BaseException as err:
            for _, link in agents.values():
                _tell(link, err if isinstance(err, AutotuneError) else None)
                link.close()
            raise
        return Met(agents=agents, secret=key)


def follow(launch: Launched, mine: Hello, secret: bytes | None, store: KeyValueStore | None, within_s: float) -> Link:
    """The other ranks' side: the link to rank 0.

    Raises:
        CommunicatorError: no rank 0 was found in time, or it did not take this rank.
    """
    deadline_s = time.monotonic() + within_s
    turned_away = False
    port, key = (0, b"") if store is None else told_port(launch, store, secret, within_s)
    while time.monotonic() < deadline_s:
        with contextlib.ExitStack() as stack:
            try:
                sock = stack.enter_context(_connected(launch, port, deadline_s))
                address = None if launch.on_one_host else plain_address(sock)
                link = introduce(sock, key, replace(mine, address=address).message(), deadline_s)
            except OSError as err:
                turned_away = turned_away or not isinstance(err, ConnectionRefusedError | TimeoutError)
                link = None
            if link is not None:
                stack.pop_all()
                return link
        time.sleep(_RETRY_S)
    why = ", or did not know its secret: it closed the connection" if turned_away else ""
    raise CommunicatorError(
        f"rank {launch.rank} found no rank 0 within {within_s:g} s{why}",
        remedy="start all ranks with one launcher, with the same AUTOTUNE_SECRET or none",
    )


def _name(launch: Launched) -> str:
    return f"\0autotune-{os.getuid()}-{launch.job}"


@contextlib.contextmanager
def _listener(launch: Launched, store: KeyValueStore | None) -> Iterator[socket.socket]:
    try:
        if store is None:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(_name(launch))
            listener.listen(launch.n_ranks)
        elif socket.has_dualstack_ipv6():
            listener = socket.create_server(
                ("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=launch.n_ranks
            )
        else:
            listener = socket.create_server(("", 0), backlog=launch.n_ranks)
    except OSError as err:
        raise CommunicatorError(
            f"rank 0 cannot listen for the other ranks: {err.strerror}",
            remedy="end the other run of the same job, or start a new one",
        ) from err
    with listener:
        yield listener


def _accept(
    listener: socket.socket,
    secret: bytes,
    deadline_s: float,
    arrivals: queue.SimpleQueue[tuple[Hello, Link] | str],
) -> None:
    """Let everybody prove himself in a thread of his own: who says nothing holds up nobody."""
    while True:
        try:
            sock, where = listener.accept()
        except OSError:  # closed: all have come
            return
        who = str(where[0]).removeprefix("::ffff:") if isinstance(where, tuple) else "another process"
        threading.Thread(target=_admit, args=(sock, who, secret, deadline_s, arrivals), daemon=True).start()


def _admit(
    sock: socket.socket,
    who: str,
    secret: bytes,
    deadline_s: float,
    arrivals: queue.SimpleQueue[tuple[Hello, Link] | str],
) -> None:
    if sock.family == socket.AF_UNIX:
        found = admit(sock, secret, deadline_s) if _is_own(sock) else None
    else:
        _keep_alive(sock)
        found = admit(sock, secret, min(deadline_s, time.monotonic() + _STRANGER_S))
    if found is None:
        sock.close()
        arrivals.put(who)
    else:
        arrivals.put((read_hello(found[0]), found[1]))


def _connected(launch: Launched, port: int, deadline_s: float) -> socket.socket:
    left_s = max(1e-3, deadline_s - time.monotonic())
    if launch.on_one_host:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(left_s)
            sock.connect(_name(launch))
            if not _is_own(sock):
                raise ConnectionRefusedError("another user listens there")
        except OSError:
            sock.close()
            raise
        return sock
    assert launch.master is not None
    sock = socket.create_connection((launch.master.address, port), timeout=left_s)
    _keep_alive(sock)
    return sock


def _is_own(sock: socket.socket) -> bool:
    """Whether a process of this user is at the other end of a Unix socket."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())


def _keep_alive(sock: socket.socket) -> None:
    """Small messages at once; and a host that has gone, or is not reached for half a minute, is noticed."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNHEARD_MS)


def _missing(
    launch: Launched, agents: dict[int, tuple[Hello, Link]], strangers: set[str], within_s: float
) -> CommunicatorError:
    missing = ", ".join(str(rank) for rank in range(1, launch.n_ranks) if rank not in agents)
    knocked = f"; {', '.join(sorted(strangers))} did not know the secret" if strangers else ""
    return CommunicatorError(
        f"rank(s) {missing} did not come within {within_s:g} s{knocked}",
        remedy="see what they wrote; give all ranks the same AUTOTUNE_SECRET, and slow ones a longer AUTOTUNE_TIMEOUT",
    )


def _difference(theirs: Hello, mine: Hello, agents: dict[int, tuple[Hello, Link]]) -> CommunicatorError | None:
    where = f"rank {theirs.rank} on {theirs.host}"
    if theirs.rank in agents or not 0 < theirs.rank < mine.n_ranks:
        what = f"a second process came as {where}"
    elif theirs.n_ranks != mine.n_ranks:
        what = f"{where} was started as one of {theirs.n_ranks} ranks, and rank 0 as one of {mine.n_ranks}"
    elif theirs.version != mine.version:
        what = f"{where} has autotune {theirs.version}, and rank 0 has {mine.version}"
    else:
        return None
    return CommunicatorError(what, remedy="start all ranks with one launcher, from the same installation")


def _tell(link: Link, problem: AutotuneError | None) -> None:
    message: dict[str, Json] = {"do": "end"}
    if problem is not None:
        message |= {"message": problem.message, "remedy": problem.remedy}
    with contextlib.suppress(LinkLost):  # one that has gone needs no words
        link.send(message)
