"""Predicted times for people and for programs: the best config of each size, and a table over rank counts. Pure.

In:  `Prediction` values. Out: renderables and JSON. Bandwidths are in GB/s (1e9 bytes per second), by the formulas of
nccl-tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..measure import algbw_gb_per_s, busbw_gb_per_s
from ..types import Config, Problem
from ..units import format_bytes, format_us
from .figures import UNKNOWN, config_fields, config_text, gain_text, kind_text, percent_text, problem_fields, ranks_text
from .grid import Cell, grid

_RIVALS = ("ring", "tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A config and what a call would take with it."""

    config: Config
    time_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is predicted for one problem.

    Args:
        size_bytes: as asked for; the problem's message_bytes is that, rounded up to whole elements.
        priced: every candidate, the choice first, the others by time.
        default: what runs without a table; not always among the priced.
        least_us: what the fabric needs for it at least; None where no theoretical bandwidth is known.
        refused: algorithms that were not priced, and why.
    """

    size_bytes: int
    problem: Problem
    priced: tuple[Priced, ...]
    default: Config
    least_us: float | None
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def best(self) -> Priced:
        return self.priced[0]

    @property
    def algbw_gb_per_s(self) -> float:
        return algbw_gb_per_s(self.problem.message_bytes, self.best.time_us)

    @property
    def busbw_gb_per_s(self) -> float:
        key = self.problem.key
        return busbw_gb_per_s(key.collective, key.n_ranks, self.problem.message_bytes, self.best.time_us)

    @property
    def utilisation(self) -> float | None:
        """busbw over the theoretical one, which is the least time over the predicted one."""
        return None if self.least_us is None else self.least_us / self.best.time_us

    def time_us(self, algorithm: str) -> float | None:
        """Of the algorithm with its best segment; None where it was not priced."""
        return min((one.time_us for one in self.priced if one.config.algorithm == algorithm), default=None)

    def over(self, config: Config) -> float | None:
        """The config's time over that of the choice; None where it was not priced."""
        found = next((one.time_us for one in self.priced if one.config == config), None)
        return None if found is None else found / self.best.time_us


def simulation_view(title: str, predictions: Sequence[Prediction]) -> RenderableType:
    """A line for each size, under a heading for each rank count."""
    parts: list[RenderableType] = [Text(f"{title}, simulated")]
    for key, group in groupby(predictions, key=lambda one: one.problem.key):
        found = list(group)
        headings = (">size", "best config", ">time us", ">algbw", ">busbw", ">of limit", *(f">{r}" for r in _RIVALS))
        parts += [Text(), Text(f"{kind_text(key)}, {ranks_text(key.n_ranks)}{_hosts(key.placement)}", style="bold")]
        parts.append(grid(headings, map(_row, found)))
        parts += [Text(f"not priced: {name}, since {why}", style="dim") for name, why in found[0].refused]
    return Group(*parts, Text(), *(Text(line, style="dim") for line in _LEGEND))


def scaling_view(title: str, predictions: Sequence[Prediction]) -> RenderableType:
    """The best config of each size over rank counts."""
    headings = (
        *(">size", ">ranks", ">hosts", "best config", ">time us", ">algbw", ">busbw", ">of limit", ">speed-up"),
        *(f">{rival}" for rival in _RIVALS),
    )
    rows: list[tuple[Cell, ...]] = []
    for of_size in _by_size(predictions):
        for one, speed_up in zip(of_size, _speed_ups(of_size), strict=True):
            key = one.problem.key
            size, *figures = _row(one)
            first = size if one is of_size[0] else ""
            counts = (str(key.n_ranks), str(len(key.placement)))
            rows.append((first, *counts, *figures[:5], f"{speed_up:.2f}", *figures[5:]))
    legend = "speed-up: bytes of all ranks in a second, over those of the fewest ranks; linear is n over the fewest"
    lines = (*_LEGEND, legend)
    kind = kind_text(predictions[0].problem.key)
    table = grid(headings, rows)
    return Group(Text(f"{title}, {kind}, simulated"), Text(), table, Text(), *(Text(x, style="dim") for x in lines))


_LEGEND = (
    "algbw, busbw: GB/s (1e9 bytes/s); of limit: busbw over the theoretical one of the links",
    "ring, tree: their time, each with its best segment, over that of the best config",
)


def simulation_document(title: str, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """JSON: every candidate of every problem, the choice first; ``speed_up`` is over the smallest rank count."""
    speed_ups = {
        id(one): speed_up
        for of_size in _by_size(predictions)
        for one, speed_up in zip(of_size, _speed_ups(of_size), strict=True)
    }
    return {
        "topology": title,
        "evidence": "simulated",
        "predictions": [
            {
                **problem_fields(one.problem),
                "config": config_fields(one.best.config),
                "time_us": one.best.time_us,
                "algbw_gb_per_s": one.algbw_gb_per_s,
                "busbw_gb_per_s": one.busbw_gb_per_s,
                "least_us": one.least_us,
                "utilisation": one.utilisation,
                "speed_up": speed_ups[id(one)],
                "configs": [{"config": config_fields(each.config), "time_us": each.time_us} for each in one.priced],
                "refused": [{"algorithm": name, "reason": why} for name, why in one.refused],
            }
            for one in predictions
        ],
    }


def _row(one: Prediction) -> tuple[str, ...]:
    rivals = (one.time_us(rival) for rival in _RIVALS)
    return (
        format_bytes(one.problem.message_bytes),
        config_text(one.best.config, one.problem.message_bytes),
        format_us(one.best.time_us),
        f"{one.algbw_gb_per_s:.2f}",
        f"{one.busbw_gb_per_s:.2f}",
        percent_text(one.utilisation),
        *(UNKNOWN if time_us is None else gain_text(time_us / one.best.time_us) for time_us in rivals),
    )


def _hosts(placement: tuple[int, ...]) -> str:
    return f" on {len(placement)} hosts" if len(placement) > 1 else ""


def _by_size(predictions: Sequence[Prediction]) -> Iterator[list[Prediction]]:
    """The predictions of one size, by ascending rank count."""
    for size in sorted({one.size_bytes for one in predictions}):
        yield sorted((one for one in predictions if one.size_bytes == size), key=lambda one: one.problem.key.n_ranks)


def _speed_ups(block: Sequence[Prediction]) -> list[float]:
    """What all ranks together move in a second, over the same of the smallest rank count."""
    rates = [one.problem.key.n_ranks * one.algbw_gb_per_s for one in block]
    return [rate / rates[0] for rate in rates]
