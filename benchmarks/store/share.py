"""What storing costs a real run: the seconds inside the store's verbs, over those of the run's measuring.

In:  a new store's URL, the words of ``autotune run``. Out: one figure. The verbs that a run calls between rounds are
timed from outside, a question for trials included, and so is the storing of what is still held after the last cell;
measuring is what passes between the handing over of the first round and the end of that, storing included.
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
_HANDING_OVER = ("add_round", "mark_cell")


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
    from autotune.db.recorder import Recorder
    from autotune.db.sql_store import SqlStore

    spent: list[tuple[str, float, float]] = []
    within: list[str] = []

    def timed(name: str, verb: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            if any(outer in _HANDING_OVER for outer in within):
                return verb(*args, **kwargs)  # its time is in that of the verb that called it
            begun = time.perf_counter()
            within.append(name)
            try:
                return verb(*args, **kwargs)
            finally:
                within.pop()
                spent.append((name, begun, time.perf_counter()))

        return call

    for room, name in ((SqlStore, "add_round"), (SqlStore, "mark_cell"), (SqlStore, "trials"), (Recorder, "flush")):
        setattr(room, name, timed(name, getattr(room, name)))
    try:
        main(words)
    finally:
        handed_over = [(begun, end) for name, begun, end in spent if name in _HANDING_OVER]
        if handed_over:
            first_s, last_s = handed_over[0][0], handed_over[-1][1]
            # The next verb stores what is still held.
            last_s = next((end for name, begun, end in spent if name == "flush" and begun >= last_s), last_s)
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
