"""From measured configs to the groups that are worth making. Pure.

In:  for each size the times of configs, a `Family`, limits. Out: a `Portfolio`.
May not touch: where the times come from.

Every set of group settings that was measured is a candidate; where a group fixes an algorithm for each collective,
every combination (up to `MOST_COMBINATIONS`) of those that are the fastest somewhere under these settings is one.
Settings of the whole process are the same for all groups: each set of them is solved alone, and the best is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import AutotuneError
from ..types import Collective, Config, RuleKey
from .family import ANY, Family, Settings
from .solve import Cell, Option, Solution, solve
from .value import Group, Portfolio, Route

MOST_COMBINATIONS = 256
"""Of algorithms under one set of settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One range of sizes.

    Args:
        times_us: of every config that was measured here.
        free: the config that the free choice takes, and its time.
    """

    key: RuleKey
    from_bytes: int
    to_bytes: int
    weight: float
    free: Config
    free_us: float
    times_us: Mapping[Config, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the job can afford.

    Args:
        max_memory_bytes: of all groups together, on each rank; None: no limit.
    """

    max_groups: int = 4
    max_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A group that could be made."""

    settings: Settings
    algorithms: tuple[tuple[Collective, str], ...]

    def serves(self, family: Family, collective: Collective, config: Config) -> bool:
        wanted = family.algorithm(collective, config)
        has = dict(self.algorithms).get(collective)
        return family.group_settings(config) == self.settings and wanted in (ANY, has)


def choose(measured: Sequence[Measured], family: Family, limits: Limits) -> Portfolio:
    """The groups that together lose least.

    No config counts as faster than the free choice: what seems to be was not significantly so, and often was sampled
    in a few rounds only. So no group is made on the strength of luck.

    Raises:
        AutotuneError: no groups within the limits serve every size.
    """
    measured = [
        replace(cell, times_us={config: max(time_us, cell.free_us) for config, time_us in cell.times_us.items()})
        for cell in measured
    ]
    everywhere = {config for cell in measured for config in cell.times_us}
    best: tuple[Solution, Settings, list[_Candidate]] | None = None
    failure: AutotuneError | None = None
    for process in sorted({family.process_settings(config) for config in everywhere}, key=str):
        candidates = [c for c in _candidates(measured, family, process) if _can_be_made(family, c)]
        options = [
            Option(
                memory_bytes=family.memory_bytes(c.settings, process),
                exclusive=family.exclusive(c.settings, process),
            )
            for c in candidates
        ]
        cells = [
            Cell(
                weight=cell.weight,
                free_us=cell.free_us,
                times_us=tuple(_fastest(cell, family, process, c)[1] for c in candidates),
            )
            for cell in measured
        ]
        try:
            found = solve(cells, options, max_groups=limits.max_groups, max_memory_bytes=limits.max_memory_bytes)
        except AutotuneError as err:
            failure = err
            continue
        if best is None or found.loss < best[0].loss:
            best = (found, process, candidates)
    if best is None:
        assert failure is not None, "something was measured"
        raise failure
    return _portfolio(measured, family, limits, *best)


def _candidates(measured: Sequence[Measured], family: Family, process: Settings) -> Iterator[_Candidate]:
    useful: dict[Settings, dict[Collective, dict[str, None]]] = {}
    for cell in measured:
        fastest: dict[Settings, tuple[float, bool, str | None]] = {}
        for config, time_us in cell.times_us.items():
            if family.process_settings(config) != process:
                continue
            settings = family.group_settings(config)
            useful.setdefault(settings, {})
            word = family.algorithm(cell.key.collective, config)
            this = (time_us, config != cell.free)
            if word != ANY and (settings not in fastest or this < fastest[settings][:2]):
                fastest[settings] = (*this, word)
        for settings, (_, _, word) in fastest.items():
            if word is not None:
                useful[settings].setdefault(cell.key.collective, {})[word] = None
    for settings, words in useful.items():
        # No algorithm for a collective is the library's own choice, which is always one of the ways.
        ways = [[None, *((collective, word) for word in of)] for collective, of in words.items()]
        for way in itertools.islice(itertools.product(*ways), MOST_COMBINATIONS):
            yield _Candidate(settings, tuple(pair for pair in way if pair is not None))


def _can_be_made(family: Family, candidate: _Candidate) -> bool:
    try:
        family.made(candidate.settings, dict(candidate.algorithms))
    except ValueError:
        return False
    return True


def _fastest(
    cell: Measured, family: Family, process: Settings, candidate: _Candidate
) -> tuple[Config | None, float | None]:
    """The best config that the group can serve; the free choice before others that are not faster."""
    times = [
        (time_us, config != cell.free, str(config), config)
        for config, time_us in cell.times_us.items()
        if family.process_settings(config) == process and candidate.serves(family, cell.key.collective, config)
    ]
    if not times:
        return None, None
    time_us, _, _, config = min(times, key=lambda one: one[:3])
    return config, time_us


def _portfolio(
    measured: Sequence[Measured],
    family: Family,
    limits: Limits,
    solution: Solution,
    process: Settings,
    candidates: Sequence[_Candidate],
) -> Portfolio:
    numbers = {option: number for number, option in enumerate(solution.chosen)}
    groups = tuple(
        Group(
            name=f"group{number}",
            options=tuple(sorted(family.made(c.settings, dict(c.algorithms)).items())),
            memory_bytes=family.memory_bytes(c.settings, process),
        )
        for option, number in numbers.items()
        for c in (candidates[option],)
    )
    routes = []
    for cell, option in zip(measured, solution.served_by, strict=True):
        config, time_us = _fastest(cell, family, process, candidates[option])
        assert config is not None, "the option serves the cell"
        assert time_us is not None, "the option serves the cell"
        routes.append(
            Route(
                key=cell.key,
                from_bytes=cell.from_bytes,
                to_bytes=cell.to_bytes,
                group=numbers[option],
                config=config,
                loss=time_us / cell.free_us - 1.0,
            )
        )
    return Portfolio(
        backend=family.backend,
        process=tuple((name, str(value)) for name, value in process),
        groups=groups,
        routes=tuple(routes),
        max_groups=limits.max_groups,
        loss=solution.loss,
        bound=solution.bound,
        proved=solution.proved,
    )
