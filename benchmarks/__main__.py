"""`python benchmarks hosts|peers|search|testbed ...`: the benchmarks that are packages; other files run alone.

Python finds the packages in the folder that it is told to run, and autotune where it is installed: with -m, or from a
file of the checkout's root, the checkout's package without its built module would come first.
"""

from __future__ import annotations

import importlib
import signal
import sys

NAMES = ("hosts", "peers", "search", "testbed")

if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python benchmarks {'|'.join(NAMES)} [options]")
    name = sys.argv.pop(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what a benchmark made is taken away then, too
    sys.exit(importlib.import_module(f"{name}.command").main())
