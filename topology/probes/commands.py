"""Runs the programs that probes ask: a list of words, no shell, a time limit, bounded output.

In: a command's words. Out: its text, or one word that says why there is none, so that a recording can hold either.
Nothing but this file starts a program in ``topology``.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import IO

ABSENT = "!absent"
DENIED = "!denied"
TIMEOUT = "!timeout"
TOO_LONG = "!too long"

_TIMEOUT_S = 20.0
_MAX_OUTPUT_BYTES = 4 << 20
_MAX_LINE_CHARACTERS = 200
_PIECE_BYTES = 64 << 10


def run_command(words: Sequence[str], *, timeout_s: float = _TIMEOUT_S) -> str:
    """What a program writes to its standard output, decoded as UTF-8, without blanks at the end.

    The program runs in a session of its own with ``LC_ALL=C`` and nothing to read; what it started is gone when this
    returns. In place of a text that could not be had stands ``!absent`` (no such program), ``!denied`` (it may not be
    run), ``!timeout``, ``!too long`` (more than 4 MiB), or ``!exit N: `` with the first line that it wrote to standard
    error, or to standard output where that is empty. An exit by a signal has a negative N, as in ``subprocess``.
    """
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError:  # not executable, or no program of this machine
        return DENIED
    with process:
        try:
            deadline = time.monotonic() + timeout_s
            texts = _read_both(process, deadline)
            if isinstance(texts, str):
                return texts
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:  # it closed its outputs and went on
            return TIMEOUT
        finally:
            _end(process)
    out, err = (text.decode("utf-8", "replace").rstrip() for text in texts)
    if code == 0:
        return out
    return f"!exit {code}: {_first_line(err) or _first_line(out)}".rstrip()


def _read_both(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes] | str:
    """(standard output, standard error) once both have ended, or why not."""
    assert process.stdout is not None
    assert process.stderr is not None
    texts: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for pipe in texts:
            waiting.register(pipe, selectors.EVENT_READ, pipe)
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return TIMEOUT
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                if not piece:
                    waiting.unregister(key.fileobj)
                texts[key.data] += piece
                if len(texts[key.data]) > _MAX_OUTPUT_BYTES:
                    return TOO_LONG
    return bytes(texts[process.stdout]), bytes(texts[process.stderr])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of the program's session is left, whether it ended or not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _MAX_LINE_CHARACTERS else f"{line[: _MAX_LINE_CHARACTERS - 3]}..."
