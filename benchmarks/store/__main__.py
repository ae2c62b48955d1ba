"""What the store promises, measured: speed at a million trials, many writers, kills, the cost of storing.

    python benchmarks/store [speed] [contention] [kills] [share] [--engine NAME] [--trials N] [--kills N]
                            [--postgres URL]

Without words, all of them, on a SQLite file and on PostgreSQL, or on the engine that is named. The server is one that
is started here (see tests/postgres_server.py), with its files synced; or an empty database that --postgres names, where
the measurements after the first are left out. About 15 minutes on two cores, half of it kills. Wants an idle host, and
2 GiB of disk.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

from contention import contend
from fill import PROBLEMS, Filled, fill
from kills import kills
from postgres_server import running_server
from share import share
from speed import answers, distillation, distilled

from autotune.db import open_store, status
from autotune.table import dump_table

WHAT = ("speed", "contention", "kills", "share")
TUNERS = {"sqlite": 4, "postgresql": 16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[[], *WHAT], default=[])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--run", default="--quick", help="the words of autotune run for share")
    parser.add_argument("--postgres", help="an empty database, instead of a server that is started here")
    parser.add_argument("--engine", choices=tuple(TUNERS), help="this one alone")
    asked = parser.parse_args()
    chosen = asked.what or list(WHAT)
    measurements: dict[str, Callable[[str, str], list[str]]] = {
        "speed": lambda url, _: speed(url, asked.trials),
        "contention": lambda url, engine: contend(url, TUNERS[engine]),
        "kills": lambda url, _: kills(url, asked.kills, seed=int(time.time())),
        "share": lambda url, _: share(url, tuple(asked.run.split())),
    }
    print(f"{platform.machine()}, Python {platform.python_version()}")
    for what in chosen:
        for engine, places in (("sqlite", sqlite_file), ("postgresql", lambda: postgresql(asked.postgres))):
            if asked.engine not in (None, engine):
                continue
            if asked.postgres and engine == "postgresql" and what != chosen[0]:
                continue
            with places() as url:
                for line in measurements[what](url, engine):
                    print(f"{what}, {engine}: {line}", flush=True)


def speed(url: str, n_trials: int) -> list[str]:
    """Fill, with a table that is distilled from a small store of the same problems, and ask."""
    with tempfile.TemporaryDirectory() as folder:
        small = f"{folder}/small.sqlite"
        fill(small, 1, "{}")
        store = open_store(small)
        table_json = dump_table(distilled(store))
        store.close()
    begun = time.monotonic()
    filled: Filled = fill(url, n_trials, table_json)
    found = status(url)
    lines = [
        f"{filled.trials} trials, {filled.samples} samples, {filled.sessions} sessions of {len(PROBLEMS)} problems, "
        f"{found.size_bytes / 1e6:.0f} MB, filled in {time.monotonic() - begun:.0f} s; {found.engine}"
    ]
    return lines + answers(url) + distillation(url)


@contextmanager
def sqlite_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder}/trials.sqlite"


@contextmanager
def postgresql(named: str | None) -> Iterator[str]:
    if named is not None:
        yield named
        return
    with running_server(options=("fsync=on",)) as server:
        yield server.url


if __name__ == "__main__":
    main()
