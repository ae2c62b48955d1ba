"""One row of a table: which config serves a range of message sizes, and what proves it. Pure values, no files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..types import Config, Evidence
from ..units import MAX_BYTES

MAX_WHOLE = (1 << 63) - 1
# Control characters would spoil a terminal or a line of the file; lone surrogates cannot be written as UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The config for message sizes in ``[from_bytes, to_bytes)``, with its figures.

    Times are microseconds of one call on the slowest rank; gains are ratios of paired times (1.2: the other config
    takes 1.2 times as long). Intervals hold 95 %.

    Args:
        is_default: the default was kept, so there is no gain over it.
        n_rounds: interleaved rounds behind the figures.
        gain: over the default's config.
        ring_gain: over ``ring`` in segments of 64 KiB; None where that was not measured.
        trial_ids: rows of the trial database that prove the rule.

    Raises:
        ValueError: an empty range, figures that contradict each other, or a measured rule without proof.
    """

    from_bytes: int
    to_bytes: int
    config: Config
    evidence: Evidence
    is_default: bool
    n_rounds: int
    median_us: float
    low_us: float
    high_us: float
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    ring_gain: float | None = None
    trial_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.from_bytes < self.to_bytes <= MAX_BYTES + 1:
            raise ValueError(f"sizes [{self.from_bytes}, {self.to_bytes}) are no range within 0 to {MAX_BYTES} bytes")
        if self.n_rounds < 1:
            raise ValueError(f"n_rounds {self.n_rounds} is below 1")
        check_config(self.config)
        _check_interval("median_us", self.low_us, self.median_us, self.high_us)
        gain = (self.gain_low, self.gain, self.gain_high)
        if None not in gain:
            _check_interval("gain", *gain)
        elif gain != (None, None, None):
            raise ValueError("gain, gain_low and gain_high are given together or not at all")
        if self.ring_gain is not None and not 0.0 < self.ring_gain < math.inf:
            raise ValueError(f"ring_gain {self.ring_gain} is not above 0")
        if self.is_default and self.gain is not None:
            raise ValueError("a rule that keeps the default has no gain over it")
        if self.evidence is Evidence.MEASURED:
            if not self.is_default and self.gain is None:
                raise ValueError("a measured rule that leaves the default states its gain over it")
            if not self.trial_ids:
                raise ValueError("a measured rule names the trials that prove it")
        if len(set(self.trial_ids)) != len(self.trial_ids) or any(trial < 0 for trial in self.trial_ids):
            raise ValueError(f"trial_ids {self.trial_ids} are not distinct row numbers")


def check_adjoining(rules: Sequence[Rule]) -> None:
    """Rules of one key cover their sizes once: each range begins where the one before it ends.

    Raises:
        ValueError: no rules, a gap, or an overlap.
    """
    if not rules:
        raise ValueError("a key without rules")
    for before, after in pairwise(rules):
        if before.to_bytes != after.from_bytes:
            kind = "gap" if before.to_bytes < after.from_bytes else "overlap"
            raise ValueError(
                f"{kind} between sizes: one range ends at {before.to_bytes}, the next begins at {after.from_bytes}"
            )


def check_config(config: Config) -> None:
    """A config that a file can hold and give back equal.

    Raises:
        ValueError: a control character in a word, or a knob that is neither a word nor a whole number of 64 bits.
    """
    for word in (config.algorithm, config.codec, *(name for name, _ in config.knobs)):
        check_text(word)
    for name, value in config.knobs:
        if isinstance(value, str):
            check_text(value)
        elif isinstance(value, bool) or abs(value) > MAX_WHOLE:
            raise ValueError(f"knob {name}={value!r} is neither a word nor a whole number of 64 bits")


def check_text(text: str) -> None:
    """Text that a line of a file and a terminal can show.

    Raises:
        ValueError: a control character or a lone surrogate.
    """
    if _UNPRINTABLE.search(text):
        raise ValueError(f"{text!r} holds a control character")


def _check_interval(name: str, low: float | None, middle: float | None, high: float | None) -> None:
    if low is None or middle is None or high is None or not 0.0 < low <= middle <= high < math.inf:
        raise ValueError(f"{name} {middle} with the interval [{low}, {high}] is not ordered and above 0")
