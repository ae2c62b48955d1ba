"""Which config ours, and each prototype, runs in every cell: fixed, by a table, or by a race before those rounds.

In:  contenders, cells, seconds. Out: their `configs`; for people, what was chosen and how.
May not touch: compared rounds.

All cells race side by side, round by round, so that the rounds of one cell lie as far apart as the race is long: the
host changes its state within seconds, and a race that saw one state would choose for that one. For the same reason the
shipped default stays unless another config was faster in every round that they share, and by 5 % in the middle.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from autotune.backends.mpi_sampling import Outcome
from autotune.backends.native import NativeBackend
from autotune.runtime.selector import Selector
from autotune.types import Config, Memory

from . import ours, prototypes
from .cells import Cell
from .rounds import Contender

LEAD = 1.05
_KNOBS = (
    ("slices_in_flight", (2, 8)),
    ("stores", ("cached", "streamed")),
)
_KNOBS_FROM_BYTES = 256 << 10
"""Below, a message is one slice and stays in the caches: the knobs change nothing there."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Choices:
    """What was chosen, for people: by cell and contender; and in how many ways."""

    configs: dict[tuple[Cell, str], str] = field(default_factory=dict)
    hows: set[str] = field(default_factory=set)


def choose(
    own: Sequence[Contender],
    grid: Sequence[Cell],
    backend: NativeBackend,
    *,
    fixed: Config | None,
    table: Selector | None,
    seconds: float,
    choices: Choices,
    say: Say,
) -> None:
    """The config of each cell for each kind of our buffers.

    Args:
        seconds: for all races together, about.

    Raises:
        ValueError: no candidate of a cell ran.
    """
    todo = [(contender, cell) for contender in own for cell in grid if cell not in contender.configs]
    if fixed is not None:
        found = {(c.name, cell): (fixed, "fixed by --config") for c, cell in todo}
    elif table is not None:
        found = {(c.name, cell): from_table(table, cell, c.memory) for c, cell in todo}
    else:
        how = "the default, or what was faster in every round of a race before the rounds"
        raced = _raced(todo, backend, seconds)
        found = {key: (config, how) for key, config in raced.items()}
    for contender, cell in todo:
        config, how = found[contender.name, cell]
        say(f"{contender.name}, {cell}: {config}")
        contender.configs[cell] = ours.config_words(config)
        choices.configs[cell, contender.name] = str(config)
        choices.hows.add(how)


def from_table(selector: Selector, cell: Cell, memory: Memory) -> tuple[Config, str]:
    """What a job gets from a tuned table, and whether that is a rule of it."""
    selection = selector.select(
        cell.collective, message_bytes=cell.message_bytes, n_ranks=cell.n_ranks, memory=memory, backend="native"
    )
    return selection.config, "the table's rules" if selection.tuned else "the default where the table has no rule"


def _raced(
    todo: Sequence[tuple[Contender, Cell]], backend: NativeBackend, seconds: float
) -> dict[tuple[str, Cell], Config]:
    """The candidates first; then, in what is left of the time, the knobs of those that are large enough."""
    started = time.monotonic()
    races: dict[tuple[str, Cell], ours.Race] = {}
    base: dict[tuple[str, Cell], Config] = {}
    for contender, cell in todo:
        problem = cell.problem(contender.memory)
        base[contender.name, cell] = default = backend.default(problem)
        sampler = _sampler(contender, cell, default)
        races[contender.name, cell] = ours.Race(backend.candidates(problem), sampler, str(cell))
    run_side_by_side(list(races.values()), until=started + 0.7 * seconds)
    best = {key: winner(race, base[key]) for key, race in races.items()}
    knobs = {
        (contender.name, cell): ours.Race(
            variants(best[contender.name, cell]), _sampler(contender, cell, base[contender.name, cell]), str(cell)
        )
        for contender, cell in todo
        if cell.message_bytes >= _KNOBS_FROM_BYTES
    }
    run_side_by_side(list(knobs.values()), until=started + seconds)
    return {key: winner(knobs[key], config) if key in knobs else config for key, config in best.items()}


def run_side_by_side(races: Sequence[ours.Race], *, until: float) -> None:
    """Every race has its first round; then round by round, as long as there is time."""
    running = list(races)
    while running:
        for race in list(running):
            if race.n_rounds and time.monotonic() > until:
                return
            if not race.step(until):
                running.remove(race)


def winner(race: ours.Race, default: Config) -> Config:
    """The leader, if it was faster than the default in every round that both ran and by `LEAD` in the middle of them.

    Raises:
        ValueError: nobody ran.
    """
    first = race.leader()
    known = race.samples.get(default, {})
    ratios = [known[r].time_us / sample.time_us for r, sample in race.samples[first].items() if r in known]
    if default in race.samples and (not ratios or min(ratios) <= 1 or statistics.median(ratios) < LEAD):
        return default
    return first


def variants(config: Config) -> list[Config]:
    """The config, and with other values of each knob that it does not name."""
    known = {key for key, _ in config.knobs}
    others = [
        replace(config, knobs=tuple(sorted((*config.knobs, (key, value)))))
        for key, values in _KNOBS
        if key not in known
        for value in values
    ]
    return [config, *others]


def choose_for(
    made: Sequence[prototypes.Prototype],
    contenders: Sequence[Contender],
    grid: Sequence[Cell],
    *,
    seconds: float,
    choices: Choices,
) -> None:
    """The same race for the prototypes, where they have the collective; their fastest counts."""
    for prototype, contender in zip(made, contenders, strict=True):
        races = {
            cell: ours.Race(candidates, _sampler(contender, cell, candidates[0], prototypes.words), str(cell))
            for cell in grid
            if cell not in contender.configs and (candidates := prototype.candidates(cell))
        }
        run_side_by_side(list(races.values()), until=time.monotonic() + seconds / len(made))
        for cell, race in races.items():
            if not any(race.samples.values()):
                continue  # its ranks failed with every config, and `faults` says how
            config = race.leader()
            contender.configs[cell] = prototypes.words(config)
            choices.configs[cell, contender.name] = str(config)


def _sampler(
    contender: Contender, cell: Cell, like: Config, words: Callable[[Config], str] = ours.config_words
) -> Callable[[Config, int], Outcome | None]:
    """Samples of any config, all taken as those of `like` are."""
    default = words(like)
    return lambda config, batch: contender.sample(cell, batch, words(config), contender.plan(cell, default))
