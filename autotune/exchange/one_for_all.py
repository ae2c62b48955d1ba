"""What it costs to use one choice for every size, where a library cannot tell sizes apart. Pure.

In:  cells (a measured size with the times of its configs) and what each config is in the library's terms.
Out: the choice that loses least against the free one, and the loss.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..table import Rule, TuningTable
from ..types import Config, Phase, RuleKey, SampleKind, Trial, TrialState
from ..units import format_bytes
from .exporter import Request

Choice = TypeVar("Choice", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One measured size.

    Args:
        size_bytes: message_bytes.
        weight: how much it counts.
        free: the config that the table chooses here.
        free_us: its time.
        times_us: of every config that was measured here.
    """

    key: RuleKey
    size_bytes: int
    weight: float
    free: Config
    free_us: float
    times_us: Mapping[Config, float]

    def __str__(self) -> str:
        return f"{self.key} at {format_bytes(self.size_bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(Generic[Choice]):
    """One choice for all cells.

    Args:
        loss: its time over the free choice's, less one: the weighted mean over the cells where it was measured; None
            where it was measured in none that counts.
        unknown: cells where it was not measured.
        worst: the cell where it loses most, and the ratio less one.
    """

    choice: Choice
    loss: float | None
    unknown: tuple[Cell, ...]
    worst: tuple[Cell, float] | None


def cells_of(
    key: RuleKey,
    rules: Iterable[Rule],
    trials: Iterable[Trial],
    default: Callable[[int], Config],
    weight: Callable[[Rule], float],
) -> list[Cell]:
    """A cell for each rule.

    Args:
        trials: of this key; those of a rule are the ones whose size lies in its range.
        default: size -> the table's default there.
    """
    own = [trial for trial in trials if trial.problem.key == key and trial.state is TrialState.OK and trial.samples]
    cells = []
    for rule in rules:
        times: dict[Config, list[float]] = {rule.config: [rule.median_us]}
        inside = [trial for trial in own if rule.from_bytes <= trial.problem.message_bytes < rule.to_bytes]
        kept = default(rule.from_bytes)
        of_session = {(trial.session_id, trial.config): trial for trial in inside}
        for trial in inside:
            beside = [of_session.get((trial.session_id, config)) for config in (rule.config, kept)]
            ratio = _over(trial, *beside)
            times.setdefault(trial.config, []).append(_median_us(trial) if ratio is None else ratio * rule.median_us)
        if rule.gain is not None:
            times.setdefault(kept, [rule.median_us * rule.gain])
        # The rule's own figure is of the trials that prove it, so it stands for the config that it chose.
        shown = {config: rule.median_us if config == rule.config else min(found) for config, found in times.items()}
        size = inside[0].problem.message_bytes if inside else rule.from_bytes
        cells.append(
            Cell(
                key=key, size_bytes=size, weight=weight(rule), free=rule.config, free_us=rule.median_us, times_us=shown
            )
        )
    return cells


def weighted_cells(key: RuleKey, rules: Iterable[Rule], table: TuningTable, request: Request) -> list[Cell]:
    """The cells of a table's rules, with the weights that the user asked for."""

    def default(size_bytes: int) -> Config:
        return table.defaults.lookup(key, size_bytes)

    def weight(rule: Rule) -> float:
        if not request.weights:
            return 1.0
        return sum(w for size, w in request.weights.items() if rule.from_bytes <= size < rule.to_bytes)

    return cells_of(key, rules, request.trials, default, weight)


def least_loss(cells: Iterable[Cell], meaning: Callable[[Config], Choice | None]) -> list[Loss[Choice]]:
    """Every choice, best first: the one that was measured for most of the weight, then the one that loses least.

    Args:
        meaning: what a config is to the library; None where it has no word for it.
    """
    found = list(cells)
    choices = {choice for cell in found for config in cell.times_us if (choice := meaning(config)) is not None}
    losses = [_loss(choice, found, meaning) for choice in choices]
    return sorted(
        losses, key=lambda one: (_weight(one.unknown), math.inf if one.loss is None else one.loss, str(one.choice))
    )


def _loss(choice: Choice, cells: list[Cell], meaning: Callable[[Config], Choice | None]) -> Loss[Choice]:
    ratios: list[tuple[Cell, float]] = []
    unknown: list[Cell] = []
    for cell in cells:
        times = [time_us for config, time_us in cell.times_us.items() if meaning(config) == choice]
        if times:
            ratios.append((cell, min(times) / cell.free_us - 1.0))
        else:
            unknown.append(cell)
    counted = [(cell, ratio) for cell, ratio in ratios if cell.weight > 0.0]
    weights = [cell.weight for cell, _ in counted]
    return Loss(
        choice=choice,
        loss=statistics.fmean([ratio for _, ratio in counted], weights) if counted else None,
        unknown=tuple(unknown),
        worst=max(counted, key=lambda pair: pair[1], default=None),
    )


def _weight(cells: Iterable[Cell]) -> float:
    return sum(cell.weight for cell in cells)


def _over(trial: Trial, choice: Trial | None, default: Trial | None) -> float | None:
    """A config's time over the choice's, by the default, which ran in every round: slow phases of the host fall out."""
    if choice is None or default is None:
        return None
    own, other = _paired(trial, default), _paired(choice, default)
    return None if own is None or other is None else own / other


def _paired(trial: Trial, other: Trial) -> float | None:
    """The median ratio of the rounds on fresh inputs in which both ran."""
    theirs = {(s.phase, s.round): s.time_us for s in other.samples if s.kind is SampleKind.FRESH}
    fresh = [s for s in trial.samples if s.kind is SampleKind.FRESH and (s.phase, s.round) in theirs]
    return statistics.median(s.time_us / theirs[s.phase, s.round] for s in fresh) if fresh else None


def _median_us(trial: Trial) -> float:
    """Of the confirm rounds on fresh inputs if there are any, else of all samples."""
    fresh = [s.time_us for s in trial.samples if s.phase is Phase.CONFIRM and s.kind is SampleKind.FRESH]
    return statistics.median(fresh or [sample.time_us for sample in trial.samples])
