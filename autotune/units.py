"""Sizes, durations and rates: parsed and printed in one place. Standard library only.

K, M, G and KiB, MiB, GiB are powers of two, as in nccl-tests. KB, MB and GB are refused, since half the field reads
them as powers of ten. GB/s is 1e9 *bytes* per second.
"""

from __future__ import annotations

import re

from .errors import UsageError

_POWERS = {"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "M": 1 << 20, "MIB": 1 << 20, "G": 1 << 30, "GIB": 1 << 30}
_SIZE = re.compile(r"(?P<number>\d+)\s*(?P<unit>[A-Za-z]*)\Z", re.ASCII)
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|min|h)\Z", re.ASCII)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZE_REMEDY = "write bytes as 65536, 64K or 64KiB (K, M, G and KiB, MiB, GiB are powers of two)"
MAX_BYTES = 1 << 46


def parse_bytes(text: str) -> int:
    """``"64KiB"`` -> 65536.

    Raises:
        UsageError: not a whole number with one of the units B, K, M, G, KiB, MiB, GiB, or above 64 TiB.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        raise UsageError(f"size {text!r} is not a number of bytes", remedy=_SIZE_REMEDY)
    unit = match["unit"].upper()
    if unit in ("KB", "MB", "GB"):
        raise UsageError(
            f"size {text!r} is ambiguous: {match['unit']} means 1000-based to some and 1024-based to others",
            remedy=f"write {match['number']}{unit[0]}iB for powers of two, or the plain number of bytes",
        )
    if unit not in _POWERS:
        raise UsageError(f"size {text!r} has the unknown unit {match['unit']!r}", remedy=_SIZE_REMEDY)
    # 15 digits hold every legal size; longer ones would only cost time to convert.
    value = int(match["number"]) * _POWERS[unit] if len(match["number"]) <= 15 else MAX_BYTES + 1
    if value > MAX_BYTES:
        raise UsageError(f"size {text!r} is above {format_bytes(MAX_BYTES)}", remedy=_SIZE_REMEDY)
    return value


def format_bytes(value: int) -> str:
    """The shortest exact form: 65536 -> ``"64KiB"``, 1000 -> ``"1000B"``. ``parse_bytes`` reads it back."""
    for unit, power in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value and value % power == 0:
            return f"{value // power}{unit}"
    return f"{value}B"


def parse_sizes(text: str) -> tuple[int, ...]:
    """``"8-64MiB"`` (a range: 8, 32, 128 ... and the end) or ``"8,1K,16K"`` -> ascending sizes in bytes.

    Raises:
        UsageError: an empty list, an unreadable size, or a range that runs backwards or starts at 0.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        low_text, dash, high_text = part.partition("-")
        low = parse_bytes(low_text)
        if not dash:
            sizes.add(low)
            continue
        high = parse_bytes(high_text)
        if low < 1 or high < low:
            raise UsageError(
                f"size range {part!r} runs from {low} to {high} bytes",
                remedy="write it as LOW-HIGH, for example 8-64MiB",
            )
        while low < high:
            sizes.add(low)
            low *= 4
        sizes.add(high)
    return tuple(sorted(sizes))


def parse_ranks(text: str) -> tuple[int, ...]:
    """``"2,4"`` -> (2, 4).

    Raises:
        UsageError: not whole numbers from 1 to 1024.
    """
    counts: set[int] = set()
    for part in text.split(","):
        word = part.strip()
        if not (word.isascii() and word.isdigit() and 1 <= len(word) <= 4 and 1 <= int(word) <= 1024):
            raise UsageError(
                f"rank count {word!r} is not a whole number from 1 to 1024", remedy="write rank counts as 2,4,8"
            )
        counts.add(int(word))
    return tuple(sorted(counts))


def parse_duration(text: str) -> float:
    """``"2m"`` -> 120.0 seconds.

    Raises:
        UsageError: no unit, an unknown unit, or zero.
    """
    match = _DURATION.match(text.strip())
    seconds = float(match["number"]) * _SECONDS[match["unit"]] if match else 0.0
    if not 0.0 < seconds < 1e7:
        raise UsageError(
            f"duration {text!r} is not a time above 0", remedy="write it with a unit: 500ms, 90s, 2m or 1h"
        )
    return seconds


def format_duration(seconds: float) -> str:
    """For people: 0.5 -> ``"0.5 s"``, 90 -> ``"1:30"``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_us(time_us: float) -> str:
    """Four significant digits, as nccl-tests prints times: 0.1234, 12.34, 1234."""
    return f"{time_us:.4g}" if time_us < 1000 else f"{time_us:.0f}"
