"""`python benchmarks/testbed`: the packages beside this folder are found from here; autotune is the installed one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

if __name__ == "__main__":
    sys.exit(importlib.import_module("testbed.command").main())
