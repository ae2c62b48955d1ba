"""kill -9 at random moments, two hundred times on each engine: the slow tests, with their figures printed.

In:  a new store's URL, a number of kills, a seed. Out: one line, or an assertion that fails.
"""

from __future__ import annotations

import time

from store_kills import KILLS_A_SESSION, MOST_HELD, kill_and_count


def kills(url: str, n_kills: int, seed: int) -> list[str]:
    """Kill a writer so often, look after each time, and let the last one of each session finish."""
    begun = time.monotonic()
    n_stored = kill_and_count(url, n_kills, seed=seed)
    n_sessions = -(-n_kills // KILLS_A_SESSION)
    return [
        f"kill -9 {n_kills} times (seed {seed}), {n_stored} rounds stored: every acknowledged round is there, of the "
        f"others never more than {MOST_HELD} are not, the store opens, all {n_sessions} continued runs finish; "
        f"{time.monotonic() - begun:.0f} s"
    ]
