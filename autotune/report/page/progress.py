"""How fast the search came to its choices: the best so far against the seconds spent. Pure.

The store keeps no clock with its samples, so the seconds are those of the timed calls themselves; preparing and
checking buffers comes on top of them.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...measure import leader, race_of
from ...types import Config, Phase, Sample, SampleKind, Trial
from .cells import Cell, Kind

_TIMES = 60  # points of the curve over all cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The search of one cell.

    Args:
        steps: (seconds spent, time of the best so far over that of the race's winner), one after each race round.
        total_s: seconds of all timed calls of the cell, confirming included.
    """

    steps: tuple[tuple[float, float], ...]
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The searches of all cells together.

    Args:
        times_s: ascending.
        median: at each of these times, over the cells: best so far over the race's winner.
        high: the same at the 90th percentile.
    """

    searches: tuple[Search, ...]
    times_s: tuple[float, ...]
    median: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def total_s(self) -> float:
        return sum(search.total_s for search in self.searches)

    def reached_s(self, factor: float) -> float | None:
        """From when on half of the cells stay within a factor of their winner; None where they never do."""
        late = [i for i, value in enumerate(self.median) if value > factor]
        after = late[-1] + 1 if late else 0
        return self.times_s[after] if after < len(self.times_s) else None


def progress(kinds: Iterable[Kind]) -> Progress | None:
    """None where no trials are at hand."""
    cells = (cell for kind in kinds for column in kind.columns for cell in column.cells)
    searches = tuple(search for cell in cells if (search := _search(cell)) is not None)
    if not searches:
        return None
    first = min(search.steps[0][0] for search in searches)
    last = max(search.steps[-1][0] for search in searches)
    times = [first * (last / first) ** (i / (_TIMES - 1)) for i in range(_TIMES)] if last > first else [first]
    columns = [sorted(_at(search.steps, time_s) for search in searches) for time_s in times]
    return Progress(
        searches=searches,
        times_s=tuple(times),
        median=tuple(statistics.median(column) for column in columns),
        high=tuple(column[math.ceil(0.9 * len(column)) - 1] for column in columns),
    )


def _search(cell: Cell) -> Search | None:
    trials = () if cell.proof is None else tuple(candidate.trial for candidate in cell.proof.candidates)
    race = race_of(trials)
    if not any(race.values()):
        return None
    winner = leader(race)
    spent: defaultdict[int, float] = defaultdict(float)
    for trial in trials:
        for sample in _race_samples(trial):
            spent[sample.round] += _seconds(sample)
    steps: list[tuple[float, float]] = []
    elapsed_s = 0.0
    for number in sorted(spent):
        elapsed_s += spent[number]
        so_far = {
            config: known
            for config, rounds in race.items()
            if (known := {r: s for r, s in rounds.items() if r <= number})
        }
        steps.append((elapsed_s, _ratio(race[_best(so_far)], race[winner])))
    total_s = sum(_seconds(sample) for trial in trials for sample in trial.samples)
    return Search(steps=tuple(steps), total_s=total_s)


def _best(race: Mapping[Config, Mapping[int, Sample]]) -> Config:
    """The best by what is known: of those that ran in the last round, the lowest median."""
    last = max(number for rounds in race.values() for number in rounds)
    running = [config for config, rounds in race.items() if last in rounds]
    return min(running, key=lambda config: statistics.median(s.time_us for s in race[config].values()))


def _ratio(ours: Mapping[int, Sample], winners: Mapping[int, Sample]) -> float:
    """In the rounds that both ran; a slow phase of the host falls on both."""
    logs = [math.log(ours[r].time_us / winners[r].time_us) for r in ours.keys() & winners.keys()]
    return math.exp(statistics.median(logs)) if logs else 1.0


def _race_samples(trial: Trial) -> Iterable[Sample]:
    return (s for s in trial.samples if s.phase is Phase.RACE and s.kind is SampleKind.FRESH)


def _seconds(sample: Sample) -> float:
    return sample.time_us * sample.batch_calls * 1e-6


def _at(steps: Sequence[tuple[float, float]], time_s: float) -> float:
    """The last step that was reached; before the first, the first, since nothing better was known."""
    return next((value for reached, value in reversed(steps) if reached <= time_s), steps[0][1])
