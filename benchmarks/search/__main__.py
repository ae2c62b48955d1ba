"""`python benchmarks/search` or `python -m benchmarks.search`: the same command, whichever way the package is found.

As a folder the package is loaded from beside this file, and autotune is the one that is installed; as a module both
come from the working directory. The package `hosts` is found beside this folder either way.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

folder = Path(__file__).resolve().parent
if __package__:
    sys.path.append(str(folder.parent))
    name, program = __package__, ["-m", __package__]
else:
    sys.path[0] = str(folder.parent)
    name, program = folder.name, [str(folder)]

if __name__ == "__main__":
    sys.exit(importlib.import_module(f"{name}.command").main([sys.executable, *program]))
