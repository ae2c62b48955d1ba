"""Measuring: what a sample is, what a backend promises, and what samples prove. Pure; needs numbers only.

timing     the backend's contract, timings and failures
exact      inputs whose right answer is exact
bandwidth  algbw and busbw
paired     medians, paired ratios, intervals and the test that a winner must pass
racing     who leads, who is out, and the effort of a run

Importing this loads the standard library only; the functions that judge import scipy.stats when they are called.
"""

from __future__ import annotations

from .bandwidth import algbw_gb_per_s, busbw_factor, busbw_gb_per_s
from .exact import exact_modulus
from .paired import (
    ALPHA,
    MIN_GAIN,
    MIN_ROUNDS,
    TEST,
    Comparison,
    Interval,
    median_interval,
    paired_ratio,
    significantly_faster,
)
from .racing import EFFORTS, NORMAL, QUICK, THOROUGH, Effort, Race, clearly_worse, leader, race_of, survivors
from .timing import Backend, Failure, Outcome, Timing, batch_calls

__all__ = [
    "ALPHA",
    "EFFORTS",
    "MIN_GAIN",
    "MIN_ROUNDS",
    "NORMAL",
    "QUICK",
    "TEST",
    "THOROUGH",
    "Backend",
    "Comparison",
    "Effort",
    "Failure",
    "Interval",
    "Outcome",
    "Race",
    "Timing",
    "algbw_gb_per_s",
    "batch_calls",
    "busbw_factor",
    "busbw_gb_per_s",
    "clearly_worse",
    "exact_modulus",
    "leader",
    "median_interval",
    "paired_ratio",
    "race_of",
    "significantly_faster",
    "survivors",
]
