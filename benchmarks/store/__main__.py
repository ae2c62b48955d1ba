"""What the store promises, measured: speed at a million trials, many writers, kills, the cost of storing.

    python benchmarks/store [speed] [contention] [kills] [share] [--engine NAME] [--trials N] [--kills N] [--seed N]
                            [--keep FOLDER] [--postgres URL]
    python benchmarks/store fill --keep FOLDER

Without words, all of them, on a SQLite file and on PostgreSQL, or on the engine that is named. The server is one that
is started here (see tests/postgres_server.py), with its files synced; or an empty database that --postgres names, where
the measurements after the first are left out. About 15 minutes on two cores, half of it kills. Wants an idle host, and
2 GiB of disk.

With --keep the million trials of `speed` stay in the folder and are asked again the next time; `fill` only puts them
there. Kills may be had in pieces, each with a seed of its own.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

from contention import contend
from fill import PROBLEMS, fill, sessions_for
from kills import kills
from postgres_server import running_server
from share import share
from speed import answers, distillation, distilled

from autotune.db import open_store, status
from autotune.table import dump_table

WHAT = ("speed", "contention", "kills", "share")
FILL = "fill"
TUNERS = {"sqlite": 4, "postgresql": 16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[[], *WHAT, FILL], default=[])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments of kills")
    parser.add_argument("--run", default="--quick", help="the words of autotune run for share")
    parser.add_argument("--keep", type=Path, help="a folder for the filled stores, which are used again")
    parser.add_argument("--postgres", help="an empty database, instead of a server that is started here")
    parser.add_argument("--engine", choices=tuple(TUNERS), help="this one alone")
    asked = parser.parse_args()
    chosen = asked.what or list(WHAT)
    if FILL in chosen and asked.keep is None:
        parser.error("fill needs --keep FOLDER")
    measurements: dict[str, Callable[[str, str], list[str]]] = {
        FILL: lambda url, _: [filled(url, asked.trials)],
        "speed": lambda url, _: [filled(url, asked.trials), *answers(url), *distillation(url)],
        "contention": lambda url, engine: contend(url, TUNERS[engine]),
        "kills": lambda url, _: kills(url, asked.kills, seed=asked.seed),
        "share": lambda url, _: share(url, tuple(asked.run.split())),
    }
    print(f"{platform.machine()}, Python {platform.python_version()}")
    for what in chosen:
        keep: Path | None = asked.keep if what in ("speed", FILL) else None
        for engine in TUNERS:
            if asked.engine not in (None, engine):
                continue
            if asked.postgres and engine == "postgresql" and what != chosen[0]:
                continue
            with sqlite_file(keep) if engine == "sqlite" else postgresql(asked.postgres, keep) as url:
                for line in measurements[what](url, engine):
                    print(f"{what}, {engine}: {line}", flush=True)


def filled(url: str, n_trials: int) -> str:
    """Fill, with a table that is distilled from a small store of the same problems; or find it filled."""
    with closing(open_store(url)) as store:
        n_sessions = store.n_sessions()
    begun = time.monotonic()
    if n_sessions == 0:
        with tempfile.TemporaryDirectory() as folder:
            small = f"{folder}/small.sqlite"
            fill(small, 1, "{}")
            with closing(open_store(small)) as store:
                table_json = dump_table(distilled(store))
        fill(url, n_trials, table_json)
    elif n_sessions != sessions_for(n_trials):
        raise SystemExit(f"{url} has {n_sessions} sessions, and {n_trials} trials take {sessions_for(n_trials)}")
    found = status(url)
    done = f"filled in {time.monotonic() - begun:.0f} s" if n_sessions == 0 else "filled before"
    return (
        f"{found.rows['trials']} trials, {found.rows['samples']} samples, {found.rows['sessions']} sessions of "
        f"{len(PROBLEMS)} problems, {found.size_bytes / 1e6:.0f} MB, {done}; {found.engine}"
    )


@contextmanager
def sqlite_file(keep: Path | None) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder if keep is None else keep / 'sqlite'}/trials.sqlite"


@contextmanager
def postgresql(named: str | None, keep: Path | None) -> Iterator[str]:
    if named is not None:
        yield named
        return
    with running_server(options=("fsync=on",), keep=None if keep is None else keep / "postgresql") as server:
        yield server.url


if __name__ == "__main__":
    main()
