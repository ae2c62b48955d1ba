"""Processes that run store_writer.py, for tests and benchmarks: no wait without a time-out, none outlives its block."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.db import TrialStore

N_CONFIGS = 30
TIMEOUT_S = 60
PROGRAM = Path(__file__).with_name("store_writer.py")


class Writer:
    """A process that writes. Its pipe is read in one way only: a second one would miss what is buffered."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process, self.stdin, self.stdout, self.stderr = process, process.stdin, process.stdout, process.stderr

    def await_ready(self) -> None:
        """Until it has imported everything."""
        assert self.line() == "ready\n", self.end()

    def start(self) -> None:
        """Let it open the store."""
        self.stdin.write("\n")
        self.stdin.flush()

    def line(self) -> str:
        return self.stdout.readline()

    def end(self) -> tuple[list[str], str]:
        """Wait for the end; the lines not yet read, and the errors."""
        lines, errors = self.stdout.read().splitlines(), self.stderr.read()
        self.process.wait(timeout=TIMEOUT_S)
        return lines, errors


@contextmanager
def writer(
    url: Path | str,
    *,
    n_rounds: int,
    wait_s: float = 30.0,
    n_tuners: int = 1,
    timed: bool = False,
    holding: bool = False,
    ready: bool = True,
    limit_s: float = TIMEOUT_S,
) -> Iterator[Writer]:
    """A writer that has imported everything and waits for its start; killed at the end of the block, or too late.

    Args:
        ready: whether to wait for that; else ``await_ready`` does.
    """
    words = [str(url), str(n_rounds), str(wait_s), str(n_tuners)]
    words += ["timed"] if timed else []
    words += ["holding"] if holding else []
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    late = threading.Timer(limit_s, process.kill)
    late.start()
    with process:
        try:
            made = Writer(process)
            if ready:
                made.await_ready()
            yield made
        finally:
            late.cancel()
            process.kill()


def rounds_stored(store: TrialStore, session_id: int) -> int:
    """The number of rounds, each of which must be there for all configs."""
    counts = Counter(sample.round for trial in store.trials(session_id=session_id) for sample in trial.samples)
    assert set(counts.values()) <= {N_CONFIGS}
    assert sorted(counts) == list(range(len(counts)))
    return len(counts)
