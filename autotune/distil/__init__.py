"""Trials -> tuning table: the only place where a measurement becomes a decision. Pure.

verdict   one problem, decided from one session's trials of it
cells     every problem, by the newest session that decides it
ranges    neighbouring sizes: what they share, where they end
tables    the table of what was decided
imported  a table of its own from figures of logs

May not touch: stores, clocks, files.

One rule for each measured size: its figures are those of exactly that size, and `explain` can show the trials behind
it. Neighbouring sizes do not flap between equal configs: the default stays unless a config is significantly better, and
ranges whose configs are statistically equal get the same one, so that they are one range to whoever reads decisions. A
range ends at the geometric mean of two measured sizes.
"""

from __future__ import annotations

from .cells import decide, verdicts
from .imported import IMPORTED_TEST, distil_imported
from .ranges import merged, size_ranges
from .tables import distil, table_of
from .verdict import Verdict, judge

__all__ = [
    "IMPORTED_TEST",
    "Verdict",
    "decide",
    "distil",
    "distil_imported",
    "judge",
    "merged",
    "size_ranges",
    "table_of",
    "verdicts",
]
