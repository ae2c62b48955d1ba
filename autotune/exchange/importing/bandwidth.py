"""Whether the bandwidths that a log prints are those of its sizes and times. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ...measure import algbw_gb_per_s, busbw_gb_per_s
from .log import Figure

_ROUNDING = 0.01  # times are printed with four digits or fewer


def disagreeing(figures: Iterable[Figure]) -> list[tuple[Figure, str]]:
    """Figures whose log prints another bandwidth than size and time give, with what to say of each."""
    found = []
    for figure in figures:
        if figure.time_us is None:
            continue
        for claim in figure.claims:
            if claim.bus:
                gb_per_s = busbw_gb_per_s(figure.collective, figure.n_ranks, figure.message_bytes, figure.time_us)
            else:
                gb_per_s = algbw_gb_per_s(figure.message_bytes, figure.time_us)
            if not agrees(claim.printed, gb_per_s):
                kind = "bus" if claim.bus else "algorithm"
                text = f"line {figure.line}: prints {claim.printed} GB/s of {kind} bandwidth, but size and time"
                found.append((figure, f"{text} of {figure.n_ranks} ranks give {gb_per_s:.4g}"))
    return found


def agrees(printed: str, gb_per_s: float) -> bool:
    """Whether a printed number is the computed one, as far as its digits go."""
    try:
        value = float(printed)
    except ValueError:
        return False
    decimals = len(printed.partition(".")[2]) if "e" not in printed.lower() else 0
    half_unit = 0.5 * 10.0**-decimals if "e" not in printed.lower() else 0.05 * abs(value)
    return abs(value - gb_per_s) <= half_unit + _ROUNDING * gb_per_s
