"""How fast a store of a million trials answers, and how much memory a full distillation takes.

In:  a filled store's URL. Out: figures, one a line. The questions are asked through the public verbs, in a process of
their own each time that memory counts.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from fill import FINGERPRINT, KEYS, REFERENCE, default_of

from autotune.db import TrialStore, open_store
from autotune.distil import decide, table_of
from autotune.table import TuningTable, shipped_table

BEST_TARGET_MS, TABLE_TARGET_MS, DISTIL_TARGET_S, DISTIL_TARGET_GIB = 50.0, 10.0, 60.0, 2.0
_REPEATS = 5


def answers(url: str) -> list[str]:
    """Milliseconds of a scenario's best and of a stored table: each scenario in turn, over five rounds."""
    with closing(open_store(url)) as store:
        best = _timed([lambda key=key: store.best(key, fingerprint=FINGERPRINT) for key in KEYS])
        table = _timed([lambda: store.newest_table(FINGERPRINT, "native")])
    return [
        f"a scenario's best (12 sizes): {_spread(best)}, target {BEST_TARGET_MS:g} ms",
        f"a stored table of 288 rules: {_spread(table)}, target {TABLE_TARGET_MS:g} ms",
    ]


def distillation(url: str) -> list[str]:
    """Seconds and peak memory of distilling every session, in a fresh process."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), url], capture_output=True, text=True, check=True, timeout=3600
    )
    found = json.loads(done.stdout)
    return [
        f"a full distillation ({found['rules']} rules): {found['seconds']:.1f} s, target {DISTIL_TARGET_S:g} s; "
        f"peak {found['peak_gib']:.2f} GiB, target {DISTIL_TARGET_GIB:g} GiB",
    ]


def distilled(store: TrialStore) -> TuningTable:
    """The table of all sessions of the machine."""
    session_ids = [session.session_id for session in store.sessions() if session.fingerprint == FINGERPRINT]
    decided = decide(store.trials_by_problem(session_ids), default=default_of, reference=lambda _: REFERENCE)
    return table_of(
        decided.values(),
        defaults=shipped_table("native").defaults,
        fingerprint=FINGERPRINT,
        environment={},
        created_at="2026-01-31T12:00:00Z",
    )


def _timed(asks: list[Callable[[], object]]) -> list[float]:
    times = []
    for _ in range(_REPEATS):
        for ask in asks:
            begun = time.perf_counter()
            assert ask()
            times.append(1e3 * (time.perf_counter() - begun))
    return times


def _spread(times: list[float]) -> str:
    return f"median {statistics.median(times):.1f} ms, longest {max(times):.1f} ms of {len(times)}"


def _main(url: str) -> None:
    begun = time.perf_counter()
    with closing(open_store(url)) as store:
        table = distilled(store)
    print(
        json.dumps(
            {
                "rules": sum(map(len, table.rules.values())),
                "seconds": time.perf_counter() - begun,
                "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20),
            }
        )
    )


if __name__ == "__main__":
    _main(sys.argv[1])
