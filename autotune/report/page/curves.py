"""The time of every algorithm over sizes: its best config at each, with the interval. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...types import Config, RuleKey, TrialState
from .cells import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An algorithm's best config at one size; low and high are None below six rounds, where no interval exists."""

    message_bytes: int
    config: Config
    n_rounds: int
    median_us: float
    low_us: float | None
    high_us: float | None
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One algorithm (with its codec, if it has one) on one key, by ascending size."""

    algorithm: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The curves of one key."""

    key: RuleKey
    curves: tuple[Curve, ...]


def panel(column: Column) -> Panel | None:
    """A column's curves; None where fewer than two sizes have trials at hand."""
    best: dict[str, dict[int, Point]] = {}
    for cell in column.cells:
        for candidate in () if cell.proof is None else cell.proof.candidates:
            time_us, config = candidate.time_us, candidate.trial.config
            if time_us is None or candidate.trial.state is not TrialState.OK:
                continue
            point = Point(
                message_bytes=cell.message_bytes,
                config=config,
                n_rounds=time_us.n_values,
                median_us=time_us.median,
                low_us=time_us.low,
                high_us=time_us.high,
                is_chosen="chosen" in candidate.roles,
            )
            points = best.setdefault(_name(config), {})
            before = points.get(cell.message_bytes)
            if before is None or _rank(point) < _rank(before):
                points[cell.message_bytes] = point
    if len({size for points in best.values() for size in points}) < 2:
        return None
    curves = (
        Curve(algorithm=name, points=tuple(points[size] for size in sorted(points))) for name, points in best.items()
    )
    return Panel(key=column.key, curves=tuple(sorted(curves, key=lambda curve: curve.algorithm)))


def algorithms(panels: Iterable[Panel]) -> tuple[str, ...]:
    """All that are drawn; those that are chosen most often first, since the first get the plainest marks."""
    chosen: dict[str, int] = {}
    for each in panels:
        for curve in each.curves:
            wins = sum(point.is_chosen for point in curve.points)
            chosen[curve.algorithm] = chosen.get(curve.algorithm, 0) + wins
    return tuple(sorted(chosen, key=lambda name: (-chosen[name], name)))


def sizes(panels: Sequence[Panel]) -> tuple[int, int]:
    """The smallest and the largest size that is drawn."""
    found = [point.message_bytes for each in panels for curve in each.curves for point in curve.points]
    return min(found), max(found)


def _name(config: Config) -> str:
    return config.algorithm if config.codec == "none" else f"{config.algorithm} {config.codec}"


def _rank(point: Point) -> tuple[bool, bool, float]:
    """The chosen config stands for its algorithm; else one with an interval, since a few lucky rounds prove little."""
    return (not point.is_chosen, point.low_us is None, point.median_us)
