"""How long a user waits for help: wall-clock time of ``autotune --help`` and of a command's help, in fresh processes.

    python benchmarks/help_time.py

Prints milliseconds, the median and the range of 15 interleaved starts of each; exits 1 if a median is above 300 ms.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from time import perf_counter

STARTS = 15
TARGET_MS = 300.0
HELP = (["--help"], ["run", "--help"], ["bench", "--help"])


def elapsed_ms(words: list[str]) -> float:
    began_s = perf_counter()
    subprocess.run([sys.executable, "-m", "autotune", *words], check=True, stdout=subprocess.DEVNULL, timeout=60)
    return (perf_counter() - began_s) * 1e3


def main() -> None:
    times_ms: dict[str, list[float]] = {" ".join(words): [] for words in HELP}
    for words in HELP * STARTS:
        times_ms[" ".join(words)].append(elapsed_ms(words))
    for name, taken in times_ms.items():
        print(f"autotune {name:14} {statistics.median(taken):6.0f} ms  [{min(taken):.0f}, {max(taken):.0f}]")
    sys.exit(max(map(statistics.median, times_ms.values())) > TARGET_MS)


if __name__ == "__main__":
    main()
