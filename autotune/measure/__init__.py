"""Measuring: what a sample is, what a backend promises, and what samples prove. Pure; needs numbers only.

timing     the backend's contract, timings and failures
exact      inputs whose right answer is exact
bandwidth  algbw and busbw
paired     medians, paired ratios, intervals
sequential the test that a winner must pass, which may be looked at again; the bound of the races
racing     who leads, who is out, and the effort of a run

Importing this loads the standard library only; the functions that judge import scipy.stats when they are called.
"""

from __future__ import annotations

from .bandwidth import algbw_gb_per_s, busbw_factor, busbw_gb_per_s
from .exact import exact_modulus
from .paired import (
    AGAIN_FROM,
    ALPHA,
    MIN_GAIN,
    MIN_ROUNDS,
    TEST,
    Comparison,
    Interval,
    median_interval,
    paired_ratio,
)
from .racing import EFFORTS, EXHAUSTIVE, NORMAL, QUICK, THOROUGH, Effort, Race, leader, race_of, scores, survivors
from .sequential import Standing, holds_again, last_look, look_with, rounds_at, sequential_ratio, standing
from .timing import Backend, Failure, Outcome, Timing, batch_calls, calls_like, single_calls, undisturbed_mean

__all__ = [
    "AGAIN_FROM",
    "ALPHA",
    "EFFORTS",
    "EXHAUSTIVE",
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
    "Standing",
    "Timing",
    "algbw_gb_per_s",
    "batch_calls",
    "busbw_factor",
    "busbw_gb_per_s",
    "calls_like",
    "exact_modulus",
    "holds_again",
    "last_look",
    "leader",
    "look_with",
    "median_interval",
    "paired_ratio",
    "race_of",
    "rounds_at",
    "scores",
    "sequential_ratio",
    "single_calls",
    "standing",
    "survivors",
    "undisturbed_mean",
]
