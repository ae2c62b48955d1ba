"""Many tuners on one store: processes that write rounds without a pause, and how long the unluckiest waited.

In:  a new store's URL, a number of tuners. Out: figures. Each tuner is a process of its own (tests/store_writer.py),
and each round has 30 samples. Every round is looked for afterwards.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

from store_writers import rounds_stored, writer

from autotune.db import open_store

N_ROUNDS = 200
LONGEST_TARGET_S = 1.0
_LIMIT_S = 600.0


def contend(url: str, n_tuners: int) -> list[str]:
    """Write, count, and tell; raises where a round is missing."""
    with ExitStack() as stack:
        tuners = [
            stack.enter_context(writer(url, n_rounds=N_ROUNDS, timed=True, limit_s=_LIMIT_S)) for _ in range(n_tuners)
        ]
        begun = time.monotonic()
        for tuner in tuners:
            tuner.start()
        ends = [tuner.end() for tuner in tuners]
        seconds = time.monotonic() - begun
    for lines, errors in ends:
        if errors or len(lines) != 2:
            raise SystemExit(f"a tuner failed, or took {_LIMIT_S:g} s: {errors or lines}")
    waits = sorted(float(lines[1]) for lines, _ in ends)
    with closing(open_store(url)) as store:
        stored = [rounds_stored(store, session.session_id) for session in store.sessions()]
    if stored != [N_ROUNDS] * n_tuners:
        raise SystemExit(f"rounds are missing: {stored}")
    return [
        f"{n_tuners} tuners at once, {n_tuners * N_ROUNDS} rounds of 30 samples in {seconds:.1f} s: all there; longest "
        f"wait for a round {waits[-1]:.3f} s (over tuners: lowest {waits[0]:.3f} s), target {LONGEST_TARGET_S:g} s"
    ]
