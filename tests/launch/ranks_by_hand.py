"""Ranks of a job that are started one by one, with the variables that torchrun sets; and what can be seen of them."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WITHIN_S = 120.0
_TICK_S = 0.01

LAUNCHERS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_",
    "MASTER_",
    "TORCHELASTIC_",
    "OMPI_",
    "PMI",
    "MPI_LOCAL",
    "SLURM_",
    "AUTOTUNE_",
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a rank ended."""

    code: int
    out: str
    err: str


def environment(home: Path) -> dict[str, str]:
    """This process's, without any launcher's variables, and with folders below ``home``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    folders = {"AUTOTUNE_DATA_DIR": str(home / "data"), "AUTOTUNE_CACHE_DIR": str(home / "cache")}
    return {**kept, **folders, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}


def variables(rank: int, n_ranks: int, job: int) -> dict[str, str]:
    """What a rank on one host is told; ``job`` tells jobs apart, as a port does."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(n_ranks),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(n_ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(job),
    }


@contextmanager
def started(home: Path, words: Sequence[str], n_ranks: int, **more: str) -> Iterator[list[subprocess.Popen[str]]]:
    """``autotune`` on so many ranks, each in a process group of its own; all gone when the block ends."""
    job = 1 + os.getpid() % 60_000
    ranks: list[subprocess.Popen[str]] = []
    try:
        for rank in range(n_ranks):
            ranks.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "autotune", *words],
                    env={**environment(home), **variables(rank, n_ranks, job), **more},
                    cwd=home,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            )
        yield ranks
    finally:
        for process in ranks:
            process.kill()
            process.communicate()


def ended(ranks: Sequence[subprocess.Popen[str]], within_s: float = WITHIN_S) -> list[Ended]:
    """How all ranks ended."""
    deadline_s = time.monotonic() + within_s
    found = []
    for process in ranks:
        out, err = process.communicate(timeout=max(0.1, deadline_s - time.monotonic()))
        found.append(Ended(process.returncode, out, err))
    return found


def until(condition: Callable[[], object], what: str, within_s: float = WITHIN_S) -> None:
    """Look again and again until something is so."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what}: not within {within_s:g} s"
        time.sleep(_TICK_S)


def children(pid: int, word: str = "autotune.") -> list[int]:
    """The processes that a process started whose command line has a word."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that has just ended
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                if word in Path(f"/proc/{child}/cmdline").read_bytes().decode():
                    found.append(child)
    return found


def n_samples(home: Path) -> int:
    """How much was measured and stored."""
    if not (home / "data" / "trials.sqlite").exists():
        return 0
    database = f"file:{home / 'data' / 'trials.sqlite'}?mode=ro"
    with contextlib.closing(sqlite3.connect(database, uri=True)) as reading, contextlib.suppress(sqlite3.Error):
        found: int = reading.execute("SELECT count(*) FROM samples").fetchone()[0]
        return found
    return 0  # it is just being made


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
