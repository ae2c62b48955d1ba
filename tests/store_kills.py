"""Writers that are killed at random moments, and what must hold after each: for tests and benchmarks."""

from __future__ import annotations

import random
import signal
import threading
from contextlib import closing

from store_writers import TIMEOUT_S, rounds_stored, writer

from autotune.db import SessionState, open_store


def killed_at(url: str, delay_s: float, *, once_open: bool) -> int:
    """Let a writer go on with the newest session, kill it at some moment, and return the rounds that it acknowledged.

    Args:
        once_open: the delay counts from the session, so that rounds are hit; else from the start, so that the making
            and the opening of the store are hit as well.
    """
    with writer(url, n_rounds=0) as process:
        late = threading.Timer(delay_s, process.process.kill)
        process.start()
        if once_open:
            process.line()
        late.start()
        lines, _ = process.end()
        late.join(timeout=TIMEOUT_S)
        assert process.process.returncode == -signal.SIGKILL
    return max((int(line) + 1 for line in (lines if once_open else lines[1:]) if line.isdecimal()), default=0)


def kill_and_count(url: str, n_kills: int, *, seed: int) -> int:
    """Kill writers at random moments; after each, what was acknowledged is stored. The rounds at the end."""
    draw = random.Random(seed)
    n_stored = 0
    for number in range(n_kills):
        acknowledged = killed_at(url, draw.uniform(0.0, 0.4), once_open=number % 2 == 1)
        with closing(open_store(url)) as store:
            sessions = store.sessions()
            assert len(sessions) <= 1
            found = rounds_stored(store, sessions[0].session_id) if sessions else 0
        # Rounds whose acknowledgement was still in the pipe, or never written, may be stored as well.
        assert max(n_stored, acknowledged) <= found
        n_stored = found
    return n_stored


def assert_goes_on_to_its_end(url: str, n_stored: int) -> None:
    with writer(url, n_rounds=-(n_stored + 3)) as process:
        process.start()
        lines, errors = process.end()
        assert (process.process.returncode, errors) == (0, "")
        assert lines[-1] == str(n_stored + 2)
    with closing(open_store(url)) as store:
        (session,) = store.sessions()
        assert session.state is SessionState.FINISHED
        assert rounds_stored(store, session.session_id) == n_stored + 3
