"""From measured configs to the groups that are worth making. Pure.

In:  for each size the times of configs, a `Family`, limits. Out: a `Portfolio`.
May not touch: where the times come from.

Every set of group settings that was measured is a candidate; where a group fixes an algorithm for each collective,
every combination of those that are the fastest somewhere under these settings is one, of the most useful ones where
there would be more than `MOST_COMBINATIONS`. Settings of the whole process are the same for all groups: each set of
them is solved alone, and the best is kept. The bound holds for all of it.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    """A group that could be made; with None for its algorithms, one that could not: it has all of them."""

    settings: Settings
    algorithms: tuple[tuple[Collective, str], ...] | None

    def serves(self, family: Family, collective: Collective, config: Config) -> bool:
        if family.group_settings(config) != self.settings:
            return False
        wanted = family.algorithm(collective, config)
        return self.algorithms is None or wanted in (ANY, dict(self.algorithms).get(collective))


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
    bound = math.inf
    for process in sorted({family.process_settings(config) for config in everywhere}, key=str):
        every, complete = _candidates(measured, family, process)
        candidates = [c for c in every if _can_be_made(family, c)]
        try:
            found = _solved(measured, family, process, limits, candidates)
            of_process = found.bound if complete else _relaxed_bound(measured, family, process, limits)
        except AutotuneError as err:
            failure = err
            continue
        bound = min(bound, of_process)
        if best is None or found.loss < best[0].loss:
            best = (found, process, candidates)
    if best is None:
        assert failure is not None, "something was measured"
        raise failure
    loss = best[0].loss
    whole = replace(best[0], bound=min(bound, loss), proved=bound >= loss)
    return _portfolio(measured, family, limits, whole, *best[1:])


def _solved(
    measured: Sequence[Measured], family: Family, process: Settings, limits: Limits, candidates: Sequence[_Candidate]
) -> Solution:
    options = [
        Option(memory_bytes=family.memory_bytes(c.settings, process), exclusive=family.exclusive(c.settings, process))
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
    return solve(cells, options, max_groups=limits.max_groups, max_memory_bytes=limits.max_memory_bytes)


def _relaxed_bound(measured: Sequence[Measured], family: Family, process: Settings, limits: Limits) -> float:
    """No groups lose less than groups that had all algorithms at once."""
    settings = {
        family.group_settings(config)
        for cell in measured
        for config in cell.times_us
        if family.process_settings(config) == process
    }
    free = [_Candidate(own, None) for own in sorted(settings, key=str)]
    return _solved(measured, family, process, limits, free).bound


def _candidates(measured: Sequence[Measured], family: Family, process: Settings) -> tuple[list[_Candidate], bool]:
    """Groups, and whether they are all that could be of use."""
    useful: dict[Settings, dict[Collective, dict[str, None]]] = {}
    merit: defaultdict[tuple[Settings, Collective, str], float] = defaultdict(float)
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
            if word is not None:
                merit[settings, cell.key.collective, word] += cell.weight * cell.free_us / time_us
        for settings, (_, _, word) in fastest.items():
            if word is not None:
                useful[settings].setdefault(cell.key.collective, {})[word] = None
    found: list[_Candidate] = []
    complete = True
    for settings, by_collective in useful.items():
        kept = _within(
            {
                collective: {word: merit[settings, collective, word] for word in words}
                for collective, words in by_collective.items()
            }
        )
        complete = complete and kept == {collective: list(words) for collective, words in by_collective.items()}
        # No algorithm for a collective is the library's own choice, which is always one of the ways.
        ways = [[None, *((collective, word) for word in words)] for collective, words in kept.items()]
        for way in itertools.product(*ways):
            found.append(_Candidate(settings, tuple(pair for pair in way if pair is not None)))
    return found, complete


def _within(words: Mapping[Collective, Mapping[str, float]]) -> dict[Collective, list[str]]:
    """The words of each collective, without those of the least merit where there would be too many combinations."""
    kept = {collective: list(merits) for collective, merits in words.items()}
    while math.prod(len(own) + 1 for own in kept.values()) > MOST_COMBINATIONS:
        longest = max(kept, key=lambda collective: (len(kept[collective]), collective.value))
        kept[longest].remove(min(kept[longest], key=lambda word: (words[longest][word], word)))
    return kept


def _can_be_made(family: Family, candidate: _Candidate) -> bool:
    try:
        family.made(candidate.settings, dict(candidate.algorithms or ()))
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
            options=tuple(sorted(family.made(c.settings, dict(c.algorithms or ())).items())),
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
