"""kill -9 at random moments, two hundred times on each engine: the slow tests, with their figures printed.

In:  a new store's URL, a number of kills, a seed. Out: one line, or an assertion that fails.
"""

from __future__ import annotations

import time

from store_kills import assert_goes_on_to_its_end, kill_and_count


def kills(url: str, n_kills: int, seed: int) -> list[str]:
    """Kill a writer so often, look after each time, and let the last one finish."""
    begun = time.monotonic()
    n_stored = kill_and_count(url, n_kills, seed=seed)
    assert_goes_on_to_its_end(url, n_stored)
    return [
        f"kill -9 {n_kills} times (seed {seed}), {n_stored} rounds stored: every acknowledged round is there, the "
        f"store opens, a continued run finishes; {time.monotonic() - begun:.0f} s"
    ]
