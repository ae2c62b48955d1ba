"""Writers that are killed at random moments, and what must hold after each: for tests and benchmarks."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass

from store_writer import HOLD_S, ROUND_S
from store_writers import TIMEOUT_S, Writer, rounds_stored, writer

from autotune.db import SessionState, open_store

KILLS_A_SESSION = 10
MOST_HELD = round(HOLD_S / ROUND_S)
"""Rounds that a writer may lose: those of the time that a store may hold them for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What a writer said before it was killed.

    Args:
        acknowledged: rounds that it knew to be stored.
        handed_over: rounds for which add_round had returned.
    """

    acknowledged: int
    handed_over: int


def killed_at(process: Writer, delay_s: float, *, once_open: bool) -> Killed:
    """Let a writer go on with the newest session, and kill it at some moment.

    Args:
        once_open: the delay counts from the session, so that rounds are hit; else from the start, so that the making
            and the opening of the store are hit as well.
    """
    late = threading.Timer(delay_s, process.process.kill)
    process.start()
    if once_open:
        process.line()
    late.start()
    lines, _ = process.end()
    late.join(timeout=TIMEOUT_S)
    assert process.process.returncode == -signal.SIGKILL
    said = lines if once_open else lines[1:]
    numbers = [int(line) for line in said if line.isdecimal()]
    held = [int(line[1:]) for line in said if line.startswith("+") and line[1:].isdecimal()]
    return Killed(acknowledged=max(numbers, default=-1) + 1, handed_over=max([*numbers, *held], default=-1) + 1)


def kill_and_count(url: str, n_kills: int, *, seed: int) -> int:
    """Kill writers at random moments; after each, what was acknowledged is stored. All rounds that are stored then.

    Of every four writers, two have a store that holds rounds, of which no more may be lost than were measured in that
    time. After a few kills the session is brought to its end, and a new one begins.
    """
    draw = random.Random(seed)
    ended: list[int] = []
    with closing(_started_ahead(url, n_kills)) as ahead:
        for first in range(0, n_kills, KILLS_A_SESSION):
            n_stored = 0
            for number in range(first, min(first + KILLS_A_SESSION, n_kills)):
                said = killed_at(next(ahead), draw.uniform(0.0, 0.4), once_open=number % 2 == 1)
                found = _rounds_of_newest(url, n_ended=len(ended))
                # Rounds whose acknowledgement was still in the pipe, or never written, may be stored as well.
                assert max(n_stored, said.acknowledged, said.handed_over - MOST_HELD) <= found
                n_stored = found
            ended.append(_brought_to_its_end(url, n_stored, holding=_is_holding(len(ended))))
    with closing(open_store(url)) as store:
        sessions = store.sessions()
        assert {session.state for session in sessions} == {SessionState.FINISHED}
        assert [rounds_stored(store, session.session_id) for session in sessions] == ended
    return sum(ended)


def _is_holding(number: int) -> bool:
    return number // 2 % 2 == 1


def _started_ahead(url: str, n_kills: int) -> Generator[Writer, None, None]:
    """Writers one by one; while one writes, the next imports what it needs, which takes longer."""

    def started(number: int) -> AbstractContextManager[Writer]:
        return writer(url, n_rounds=0, ready=False, holding=_is_holding(number), limit_s=2 * TIMEOUT_S)

    with ExitStack() as waiting:
        following = waiting.enter_context(started(0))
        for number in range(n_kills):
            process = following
            with waiting.pop_all():
                if number + 1 < n_kills:
                    following = waiting.enter_context(started(number + 1))
                process.await_ready()
                yield process


def _rounds_of_newest(url: str, *, n_ended: int) -> int:
    """The rounds of the session that the killed writers share; 0 where none was opened yet."""
    with closing(open_store(url)) as store:
        sessions = store.sessions()
        assert n_ended <= len(sessions) <= n_ended + 1
        return rounds_stored(store, sessions[-1].session_id) if len(sessions) > n_ended else 0


def _brought_to_its_end(url: str, n_stored: int, *, holding: bool) -> int:
    """Let a last writer go on with the session for three rounds, and finish it. Its rounds."""
    with writer(url, n_rounds=-(n_stored + 3), holding=holding) as process:
        process.start()
        lines, errors = process.end()
        assert (process.process.returncode, errors) == (0, "")
        assert lines[-1].lstrip("+") == str(n_stored + 2)
    return n_stored + 3
