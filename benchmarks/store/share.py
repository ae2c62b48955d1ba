"""What storing costs a real run: the seconds inside the store's verbs, over those of the run's measuring.

In:  a new store's URL, the words of ``autotune run``. Out: one figure. The verbs that a run calls between rounds are
timed from outside, the question for a cell's trials included; measuring is what passes between the handing over of the
first round and the end of the last cell, storing included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
TARGET_PERCENT = 2.0
_WRITES = ("add_round", "mark_cell")
_VERBS = (*_WRITES, "trials")


def share(url: str, words: tuple[str, ...]) -> list[str]:
    """Run it in a fresh process, with folders of its own."""
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"AUTOTUNE_DATA_DIR": f"{home}/data", "AUTOTUNE_CACHE_DIR": f"{home}/cache"}
        done = subprocess.run(
            [sys.executable, str(Path(__file__)), "run", "--db", url, *words],
            capture_output=True,
            text=True,
            timeout=3600,
            env=environment,
        )
    if done.returncode != 0:
        raise SystemExit(f"autotune run {' '.join(words)} failed: {done.stderr[-2000:]}")
    found = json.loads(done.stderr.splitlines()[-1])
    percent = 100 * found["storing_s"] / found["measuring_s"]
    return [
        f"storing while `autotune run {' '.join(words)}`: {found['rounds']} rounds, {found['storing_s']:.2f} s of "
        f"{found['measuring_s']:.1f} s of measuring, {percent:.2f} %, target {TARGET_PERCENT:g} %; longest "
        f"{1e3 * found['longest_s']:.1f} ms"
    ]


def _main(words: list[str]) -> None:
    from autotune.cli.main import main
    from autotune.db.sql_store import SqlStore

    spent: list[tuple[str, float, float]] = []

    def timed(name: str, verb: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            begun = time.perf_counter()
            try:
                return verb(*args, **kwargs)
            finally:
                spent.append((name, begun, time.perf_counter()))

        return call

    for name in _VERBS:
        setattr(SqlStore, name, timed(name, getattr(SqlStore, name)))
    try:
        main(words)
    finally:
        writes = [call for call in spent if call[0] in _WRITES]
        if writes:
            first_s, last_s = writes[0][1], writes[-1][2]
            inside = [(begun, end) for _, begun, end in spent if first_s <= begun and end <= last_s]
            figures = {
                "rounds": sum(name == "add_round" for name, _, _ in spent),
                "storing_s": sum(end - begun for begun, end in inside),
                "longest_s": max(end - begun for begun, end in inside),
                "measuring_s": last_s - first_s,
            }
            print(json.dumps(figures), file=sys.stderr)


if __name__ == "__main__":
    _main(sys.argv[1:])
