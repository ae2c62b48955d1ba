"""One library's ranks: a long-lived set of processes that take samples when asked, and use no core when not.

In:  how to launch them; requests. Out: every rank's answer, or RanksFailed with what they last wrote.
May not touch: what a sample is, other libraries. The comparison with other libraries (benchmarks/peers) starts all of
them this way, those without MPI too.

Every rank connects to an abstract Unix socket of this process, and between requests is blocked in reading it. So a rank
ends by itself when this process ends, however it ends; close() waits for that, then ends what is left, by process id.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import AutotuneError
from .mpi_protocol import Hello, parse_hello

START_S = 60.0
STOP_S = 10.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class RanksFailed(AutotuneError):
    """A rank did not start, ended, or did not answer. The set is closed then.

    Args:
        hung: it did not answer in time; else it ended or never began.
    """

    def __init__(self, message: str, *, remedy: str, hung: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.hung = hung


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a set of ranks is started.

    Args:
        commands: (socket name, scratch folder) -> the programs to start: one launcher, or one for each rank.
        env: what is set besides this process's environment.
        unset: beginnings of names that are left out of it.
        pass_fds: descriptors that the programs inherit.
        folder: the programs' working directory; None for this process's.
    """

    commands: Callable[[str, Path], list[list[str]]]
    env: Mapping[str, str]
    unset: tuple[str, ...] = ()
    pass_fds: tuple[int, ...] = ()
    folder: Path | None = None


class RankSet:
    """The running ranks of one library; a context manager.

    Args:
        remedy: what helps where they fail.

    Raises:
        RanksFailed: they did not start.
    """

    def __init__(self, name: str, n_ranks: int, launch: Launch, *, remedy: str = "run it again") -> None:
        self.name = name
        self._remedy = remedy
        self.n_ranks = n_ranks
        self.version = ""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._links: dict[int, socket.socket] = {}
        self._pids: dict[int, int] = {}
        self._open = contextlib.ExitStack()
        self._said: IO[bytes] = self._open.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - close() closes it
        # Launchers keep their session files here, so that none is left whatever happens to them.
        scratch = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="autotune-ranks-")))
        self._shared: set[Path] = set()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
                address = f"autotune-ranks-{secrets.token_hex(8)}"
                door.bind(b"\0" + address.encode())
                door.listen(n_ranks)
                for command in launch.commands(address, scratch):
                    self._processes.append(
                        subprocess.Popen(
                            command,
                            stdin=subprocess.DEVNULL,
                            stdout=self._said,
                            stderr=self._said,
                            env={**_kept(launch.unset), "TMPDIR": str(scratch), **launch.env},
                            pass_fds=launch.pass_fds,
                            cwd=launch.folder,
                            # Ctrl-C is this process's to handle. No session for each: the kernel schedules sessions
                            # as groups (sched_autogroup), and a rank could not yield to one of another session.
                            process_group=0,
                        )
                    )
                self._let_in(door)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RankSet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _let_in(self, door: socket.socket) -> None:
        deadline = time.monotonic() + START_S
        door.settimeout(0.1)
        waiting: list[socket.socket] = []
        while len(waiting) < self.n_ranks:
            try:
                link, _ = door.accept()
            except TimeoutError:
                dead = [process for process in self._processes if process.poll()]
                if dead or time.monotonic() > deadline:
                    for link in waiting:
                        link.close()
                    raise self._failed(
                        f"ended with {dead[0].returncode}" if dead else f"did not start in {START_S:g} s"
                    ) from None
                continue
            waiting.append(link)
        for link in waiting:
            hello = self._hello(link)
            self._links[hello.rank] = link
            self._pids[hello.rank] = hello.pid
            self.version = hello.version
        self._note_shared()
        if sorted(self._links) != list(range(self.n_ranks)):
            raise self._failed(f"ranks {sorted(self._links)} came, not 0 to {self.n_ranks - 1}")

    def _hello(self, link: socket.socket) -> Hello:
        _, uid, _ = struct.unpack("iII", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII")))
        if uid != os.getuid():
            raise self._failed(f"user {uid} connected to the driver's socket")
        link.settimeout(START_S)
        line = b""
        while not line.endswith(b"\n"):
            part = link.recv(4096)
            if not part:
                raise self._failed("a rank ended before it said hello")
            line += part
        return parse_hello(line.decode())

    def ask(self, line: str, *, timeout_s: float) -> list[str]:
        """Send a line to every rank; every rank's answer, in the order of ranks.

        Raises:
            RanksFailed: a rank ended, or did not answer in time.
        """
        deadline = time.monotonic() + timeout_s
        answers = dict.fromkeys(range(self.n_ranks), b"")
        try:
            # Rank 0 last: its core may be this process's too, which must be blocked before the sample starts.
            for rank in reversed(range(self.n_ranks)):
                self._links[rank].sendall(line.encode())
            with selectors.DefaultSelector() as selector:
                for rank, link in self._links.items():
                    selector.register(link, selectors.EVENT_READ, rank)
                while selector.get_map():
                    ready = selector.select(max(0.0, deadline - time.monotonic()))
                    if not ready:
                        missing = [rank for rank, answer in answers.items() if not answer.endswith(b"\n")]
                        raise self._failed(f"no answer from ranks {missing} in {timeout_s:g} s", hung=True)
                    for key, _ in ready:
                        part = self._links[key.data].recv(1 << 16)
                        if not part:
                            raise self._failed(f"rank {key.data} ended")
                        answers[key.data] += part
                        if answers[key.data].endswith(b"\n"):
                            selector.unregister(key.fileobj)
        except OSError as err:
            raise self._failed(f"a rank does not listen ({err})") from err
        return [answers[rank].decode(errors="replace") for rank in range(self.n_ranks)]

    def cpu_seconds(self) -> float:
        """Processor time that the ranks and their launchers have used so far."""
        return sum(map(_cpu_seconds, [*self._pids.values(), *(process.pid for process in self._processes)]))

    def _note_shared(self) -> None:
        for pid in self._pids.values():
            with contextlib.suppress(OSError):  # it has ended
                self._shared |= _mapped_shared_files(pid)

    def _failed(self, what: str, *, hung: bool = False) -> RanksFailed:
        name, n_ranks = self.name, self.n_ranks
        said = self.close()
        return RanksFailed(
            f"{name}, {n_ranks} ranks: {what}" + (f"; it wrote: {said}" if said else ""),
            remedy=self._remedy,
            hung=hung,
        )

    def close(self) -> str:
        """End the ranks; the last lines that they wrote. Allowed twice."""
        self._note_shared()
        for link in self._links.values():
            link.close()  # a rank that waits for a request leaves its library and ends
        deadline = time.monotonic() + STOP_S
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                # The launcher's own process group, made above; then the ranks, which some launchers put elsewhere.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                for pid in self._pids.values():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()
        said = ""
        if self._processes:
            self._said.seek(0)
            said = " | ".join(self._said.read().decode(errors="replace").strip().splitlines()[-4:])
            for file in self._shared:
                file.unlink(missing_ok=True)  # what a library removes only when it ends in good order
        self._links, self._pids, self._processes = {}, {}, []
        self._open.close()
        return said


def _kept(unset: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(unset)}


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S  # utime, stime: proc(5)


def _mapped_shared_files(pid: int) -> set[Path]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    paths = [line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line]
    return {Path(path) for path in paths if path.startswith("/dev/shm/") and not path.endswith(" (deleted)")}
