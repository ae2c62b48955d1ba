"""Makes the benchmark package importable as `python benchmarks/peers` does: from its folder, autotune as installed."""

from __future__ import annotations

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
