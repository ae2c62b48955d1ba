"""Which settings of a whole job a run tunes under: chosen before anything else, over all cells together.

In:  cells, a bench, and what of a config a job can have only once. Out: race rounds of the candidates under each of
these settings, in the store; a bench whose backend offers no candidates under the others.
May not touch: what the settings mean.

A library that reads a setting when a job starts has it for every size, so what each cell alone would choose is worth
nothing. Therefore all candidates race first, in a few rounds over all cells, and of each setting counts what the
fastest candidate of every cell takes under it: the library's own choice alone, which the rules will replace, would
favour other settings. What is behind over all cells leaves, and every cell is tuned under the one that is left, with
these rounds as its first. None replaces what a job has without settings unless it is faster by what is worth a change.
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

ROUNDS = 6
_FAR_BEHIND_AFTER, _FAR_BEHIND = 1, math.log(1.2)
_BEHIND_AFTER, _BEHIND = 3, math.log(1.04)  # a host may change within seconds, and what is behind with it
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
    worth_it = math.isfinite(over[best]) and over[best] <= over[()] - math.log(MIN_GAIN)  # no round may be through
    chosen: Settings = best if worth_it else ()
    return replace(bench, backend=Narrowed(bench.backend, settings_of, chosen), settings=chosen)


class _Race:
    """All candidates under each of the settings, in every cell."""

    def __init__(self, cells: Sequence[tuple[Problem, Rounds]], bench: Bench, settings_of: SettingsOf) -> None:
        backend = bench.backend
        self._cells, self._budget = cells, bench.budget
        self._default = {problem: backend.default(problem) for problem, _ in cells}
        self._ways: dict[Problem, dict[Settings, dict[Config, None]]] = {}
        for problem, default in self._default.items():
            ways = self._ways[problem] = {}
            for config in (default, *backend.candidates(problem)):
                ways.setdefault(settings_of(config), {})[config] = None
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
                under = [config for settings in left if not self._failed(settings) for config in ways.get(settings, ())]
                running = [config for config in under if not rounds.failed(config)]
                if running:
                    rounds.measure(running, SampleKind.FRESH, Phase.RACE)

    def _failed(self, settings: Settings) -> bool:
        """Whether all candidates under them failed in some cell: what this library does not have is not asked for in
        every other one."""
        return any(
            ways and all(rounds.failed(way) for way in ways)
            for problem, rounds in self._cells
            for ways in [self._ways[problem].get(settings)]
        )

    def over_default(self, rounds: int) -> Mapping[Settings, float]:
        """The mean log, over the cells where the default did not fail, of what the fastest candidate under the settings
        took over the default, by so many first rounds; infinite where all of them failed in one."""
        return {settings: self._mean(settings, rounds) for settings in self.settings}

    def _mean(self, settings: Settings, n_rounds: int) -> float:
        found = []
        for problem, rounds in self._cells:
            base = _logs(rounds, self._default[problem], n_rounds)
            ways = [_logs(rounds, way, n_rounds) for way in self._ways[problem].get(settings, ())]
            over = [
                statistics.median(own[r] - base[r] for r in common)
                for own in ways
                if (common := own.keys() & base.keys())
            ]
            if over:
                found.append(min(over))
            elif base:
                return math.inf
        return statistics.fmean(found) if found else math.inf


def _logs(rounds: Rounds, config: Config, n_rounds: int) -> dict[int, float]:
    if config not in rounds.trials or rounds.failed(config):
        return {}
    samples = rounds.trials[config].samples
    race = [s for s in samples if s.phase is Phase.RACE and s.kind is SampleKind.FRESH and s.round < n_rounds]
    return {s.round: math.log(s.time_us) for s in race}


def _whole_s(bench: Bench) -> float:
    """How long the run may take."""
    left_s = bench.budget.left_s
    return math.inf if left_s is None else bench.budget.elapsed_s + left_s
