"""The store's benchmark on a small scale: every figure is printed, and what it checks holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "store"


def test_the_figures_are_printed() -> None:
    words = ["speed", "kills", "--engine", "sqlite", "--trials", "1", "--kills", "2"]
    done = subprocess.run([sys.executable, str(PROGRAM), *words], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line.partition(": ")[2].partition(" (")[0] for line in done.stdout.splitlines()[1:]]
    assert heads[0].startswith("9216 trials, ")
    assert heads[1].startswith("a scenario's best")
    assert heads[2].startswith("a stored table of 288 rules")
    assert heads[3].startswith("a full distillation")
    assert heads[4].startswith("kill -9 2 times")
