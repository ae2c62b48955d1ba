"""`python benchmarks/search` or `python -m benchmarks.search`: the same command, whichever way the package is found.

As a folder the package is loaded from beside this file, and autotune is the one that is installed; as a module both
come from the working directory.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __package__:
    name = __package__
else:
    folder = Path(__file__).resolve().parent
    sys.path[0] = str(folder.parent)
    name = folder.name

if __name__ == "__main__":
    sys.exit(importlib.import_module(f"{name}.command").main())
