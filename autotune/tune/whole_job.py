"""Which settings of a whole job a run tunes under: chosen before anything else, over all cells together.

In:  cells, a bench, and what of a config a job can have only once. Out: race rounds of the library's own choice under
each of these settings, in the store; a bench whose backend offers no candidates under the others.
May not touch: what the settings mean.

A library that reads a setting when a job starts has it for every size, so what each cell alone would choose is worth
nothing, and trying every algorithm under every setting costs most of a run. Therefore the library's own choice races
under all of them first, in rounds over all cells. What is behind over all cells leaves, and every cell is tuned under
the one that is left. None replaces what a job has without settings unless it is faster by what is worth a change.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..measure import MIN_GAIN, Backend, Outcome
from ..types import Config, KnobValue, Phase, Problem, SampleKind
from .rounds import Bench, OutOfTime, Rounds

Settings = tuple[tuple[str, KnobValue], ...]
SettingsOf = Callable[[Config], Settings]
"""Those of a config's knobs that belong to the whole job."""

ROUNDS = 24
_FAR_BEHIND_AFTER, _FAR_BEHIND = 2, math.log(1.25)
_BEHIND_AFTER, _BEHIND = 12, math.log(1.04)  # a host may change within seconds, and what is behind with it
_SHARE = 0.3  # of a run's time, at most


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A backend that offers only the default and what runs under some settings."""

    whole: Backend
    settings_of: SettingsOf
    settings: Settings

    @property
    def name(self) -> str:
        return self.whole.name

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        default = self.whole.default(problem)
        every = self.whole.candidates(problem)
        return tuple(c for c in every if c == default or self.settings_of(c) == self.settings)

    def default(self, problem: Problem) -> Config:
        return self.whole.default(problem)

    def reference(self, problem: Problem) -> Config | None:
        return self.whole.reference(problem)

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        return self.whole.measure_round(problem, configs, kind=kind, batch=batch)

    def restart(self) -> None:
        self.whole.restart()

    def close(self) -> None:
        self.whole.close()


def narrowed(bench: Bench, cells: Iterable[tuple[Problem, Rounds]], settings_of: SettingsOf) -> Bench:
    """The bench with the candidates of the settings that won.

    The rounds that decide it are race rounds of the cells. What the store has of them is not measured again, and
    decides as it did.
    """
    race = _Race(tuple(cells), bench, settings_of)
    left = race.settings
    most = race.rounds_before
    number = 0
    while len(left) > 1 and number < (ROUNDS if most is None else most):
        try:
            race.run(number, left, until_s=math.inf if most is not None else _SHARE * _whole_s(bench))
        except OutOfTime:
            break
        number += 1
        if number >= _FAR_BEHIND_AFTER:
            over = race.over_default(number)
            most_behind = _FAR_BEHIND if number < _BEHIND_AFTER else _BEHIND
            least = min(over[settings] for settings in left)
            left = tuple(settings for settings in left if settings == () or over[settings] - least <= most_behind)
    over = race.over_default(number)
    best = min(left, key=lambda settings: (over[settings], str(settings)))
    chosen: Settings = best if over[best] <= -math.log(MIN_GAIN) else ()  # () as well where no round was through
    return replace(bench, backend=Narrowed(bench.backend, settings_of, chosen))


class _Race:
    """The library's own choice under each of the settings, in every cell."""

    def __init__(self, cells: Sequence[tuple[Problem, Rounds]], bench: Bench, settings_of: SettingsOf) -> None:
        backend = bench.backend
        self._cells, self._budget = cells, bench.budget
        self._ways: dict[Problem, dict[Settings, Config]] = {}
        for problem, _ in cells:
            default = backend.default(problem)
            own = [default, *(c for c in backend.candidates(problem) if replace(c, knobs=default.knobs) == default)]
            self._ways[problem] = {settings_of(config): config for config in reversed(own)}
        self.settings = tuple(sorted({settings for ways in self._ways.values() for settings in ways}, key=str))

    @property
    def rounds_before(self) -> int | None:
        """How many rounds decided it when this run began; None where the run has not got as far."""
        confirmed = any(
            s.phase is Phase.CONFIRM for _, own in self._cells for t in own.trials.values() for s in t.samples
        )
        return min(own.next_number(Phase.RACE, SampleKind.FRESH) for _, own in self._cells) if confirmed else None

    def run(self, number: int, left: Sequence[Settings], *, until_s: float) -> None:
        """One round of every cell that has not had it.

        Raises:
            OutOfTime: the run has lasted for so long before all cells had it.
        """
        for problem, rounds in self._cells:
            if self._budget.elapsed_s > until_s:
                raise OutOfTime
            if rounds.next_number(Phase.RACE, SampleKind.FRESH) <= number:
                ways = self._ways[problem]
                running = [ways[settings] for settings in left if settings in ways and not self._failed(settings)]
                if running:
                    rounds.measure(running, SampleKind.FRESH, Phase.RACE)

    def _failed(self, settings: Settings) -> bool:
        """Whether they failed in any cell: what this library does not have is not asked for in every other one."""
        return any(rounds.failed(way) for problem, rounds in self._cells if (way := self._ways[problem].get(settings)))

    def over_default(self, rounds: int) -> Mapping[Settings, float]:
        """The mean log, over the cells where the default did not fail, of what the settings took over it, by so many
        first rounds; infinite where they failed anywhere."""
        return {settings: self._mean(settings, rounds) for settings in self.settings}

    def _mean(self, settings: Settings, n_rounds: int) -> float:
        found = []
        for problem, rounds in self._cells:
            ways = self._ways[problem]
            own, base = (_logs(rounds, ways.get(one), n_rounds) for one in (settings, ()))
            common = own.keys() & base.keys()
            if common:
                found.append(statistics.median(own[r] - base[r] for r in common))
            elif base:
                return math.inf
        return statistics.fmean(found) if found else math.inf


def _logs(rounds: Rounds, config: Config | None, n_rounds: int) -> dict[int, float]:
    if config is None or config not in rounds.trials or rounds.failed(config):
        return {}
    samples = rounds.trials[config].samples
    race = [s for s in samples if s.phase is Phase.RACE and s.kind is SampleKind.FRESH and s.round < n_rounds]
    return {s.round: math.log(s.time_us) for s in race}


def _whole_s(bench: Bench) -> float:
    """How long the run may take."""
    left_s = bench.budget.left_s
    return math.inf if left_s is None else bench.budget.elapsed_s + left_s
