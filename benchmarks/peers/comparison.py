"""A run: install, choose our configs, interleave rounds, judge, report; one number of ranks after the other.

In:  `Options`. Out: tables and verdicts on standard output, progress on standard error, a CSV and a JSON file; whether
every cell is won or held. May not touch: the command line.
"""

from __future__ import annotations

import contextlib
import datetime
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotune.backends.mpi_sampling import Outcome
from autotune.backends.native import NativeBackend
from autotune.errors import BackendUnavailable
from autotune.runtime.selector import Selector
from autotune.settings import Settings
from autotune.topology.graph import Topology
from autotune.topology.pairs import pinning_order
from autotune.topology.probes.linux import collect, parse
from autotune.types import Config, Memory

from . import floors, install, libraries, lineup, ours, output, prototypes
from .cells import Cell
from .judgement import Judgement, Verdict
from .rounds import CellRecord, Contender, run

RACE_SHARE = 0.3
"""Of the budget: the most that choosing our configs may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is to be done, checked.

    Args:
        peers: names of LIBRARIES.
        named_peers: the user asked for these, so that one that cannot be had is an error.
        memories: where our buffers are.
        budget_s: for everything after installation; None for as long as the round limit takes.
        prototypes: the folder of the prototypes' sources; None to go without.
        table: what ours runs; None for `fixed`, or a race.
        fixed: the config that ours runs everywhere.
        out: path without suffix.
    """

    grid: tuple[Cell, ...]
    peers: tuple[str, ...]
    named_peers: bool
    memories: tuple[Memory, ...]
    refresh: bool
    budget_s: float | None
    most_rounds: int
    race_s: float
    prototypes: Path | None
    table: Selector | None
    fixed: Config | None
    out: Path
    settings: Settings


@dataclass(slots=True)
class Findings:
    """What the rank counts have yielded so far; `configs` is for people, by cell and contender."""

    contenders: list[Contender] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    configs: dict[tuple[Cell, str], str] = field(default_factory=dict)
    hows: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where ranks go and what bounds them."""

    topology: Topology
    cores: tuple[int, ...]
    homes: dict[str, Path]
    floors_program: Path
    prototypes: tuple[prototypes.Prototype, ...]


def compare(options: Options) -> bool:
    """Run it all; whether every cell is won or held and nothing went wrong.

    Raises:
        AutotuneError: a peer that was named cannot be had, or ours did not run.
    """
    machine = _prepared(options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    counts = sorted({cell.n_ranks for cell in options.grid})
    found = Findings()
    _say(f"ranks are pinned to cores {','.join(map(str, machine.cores))}, in this order, again and again")
    try:
        with open(f"{options.out}.csv", "w", newline="") as file:
            samples = output.SampleFile(file)
            for at, n_ranks in enumerate(counts):
                left_s = float("inf") if options.budget_s is None else started + options.budget_s - time.monotonic()
                _one_count(n_ranks, left_s / (len(counts) - at), machine, options, samples, found)
    finally:
        _summarise(options, machine, found)
    faults = [f"{contender.name}: {fault}" for contender in found.contenders for fault in contender.faults]
    for fault in faults:
        print(f"fault: {fault}")
    decided = all(judgement.verdict in (Verdict.WON, Verdict.HELD) for judgement in found.judgements)
    return bool(found.judgements) and decided and not faults


def _prepared(options: Options) -> Machine:
    topology = parse(collect())
    homes: dict[str, Path] = {}
    refreshed: set[str] = set()
    for name in options.peers:
        library = libraries.LIBRARIES[name]
        try:
            refresh = options.refresh and library.home not in refreshed
            homes[name] = install.installed(library, options.settings.cache_dir, refresh=refresh)
            refreshed.add(library.home)
        except BackendUnavailable as err:
            if options.named_peers:
                raise
            print(f"without {name}: {err.message}")
    program = install.folder(options.settings.cache_dir) / "floors" / "floors"
    install.compiled("floors", floors.build_command(program), {})
    made = prototypes.built(options.prototypes, options.settings.cache_dir) if options.prototypes else []
    return Machine(
        topology=topology,
        cores=pinning_order(topology),
        homes=homes,
        floors_program=program,
        prototypes=tuple(made),
    )


def _one_count(
    n_ranks: int, budget_s: float, machine: Machine, options: Options, samples: output.SampleFile, found: Findings
) -> None:
    until = time.monotonic() + budget_s
    grid = [cell for cell in options.grid if cell.n_ranks == n_ranks]
    memories = options.memories
    own = [lineup.our_contender(n_ranks, machine.cores, options.settings, memory) for memory in memories]
    field_ = [*own]
    field_ += [
        lineup.peer_contender(libraries.LIBRARIES[name], home, n_ranks, machine.cores)
        for name, home in machine.homes.items()
    ]
    records = [CellRecord(cell=cell) for cell in grid]
    throwaway = [lineup.prototype_contender(prototype, n_ranks, machine.cores) for prototype in machine.prototypes]
    field_ += throwaway
    if n_ranks == floors.N_RANKS <= len(machine.cores):
        floors_here = lineup.floor_contenders(machine.floors_program, machine.cores, memories)
        _bound(floors_here, records, floors.last_cache_bytes(machine.topology))
        field_ += floors_here
    with contextlib.ExitStack() as ending:
        for contender in field_:
            ending.callback(contender.close)
        race_s = min(options.race_s, RACE_SHARE * budget_s / len(grid) / (len(own) + len(throwaway)))
        for contender in own:
            _choose(contender, grid, race_s, machine, options, found)
        for prototype, contender in zip(machine.prototypes, throwaway, strict=True):
            _choose_for(prototype, contender, records, race_s, found)
        try:
            run(records, field_, until=until, most_rounds=options.most_rounds, keep=samples.keep, say=_say)
        finally:
            found.contenders += field_
            found.judgements += [judgement for record in records for judgement in record.judgements(field_)]
            print(output.tables(records, field_, found.configs), end="\n\n", flush=True)


def _choose(
    contender: Contender, grid: Sequence[Cell], race_s: float, machine: Machine, options: Options, found: Findings
) -> None:
    """The config of each cell, before and apart from the rounds that are compared."""
    settings = options.settings
    backend = NativeBackend(machine.cores, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s)
    for cell in grid:
        if options.fixed is not None:
            choice = ours.Choice(config=options.fixed, how="fixed by --config")
        elif options.table is not None:
            choice = ours.from_table(options.table, cell, contender.memory)
        else:

            def sample(config: Config, batch: int, cell: Cell = cell) -> Outcome | None:
                return contender.sample(cell, batch, ours.config_words(config))

            choice = ours.by_race(backend, cell, contender.memory, sample, seconds=race_s)
            _say(f"{cell}: {choice.config}, {choice.how}")
        contender.configs[cell] = ours.config_words(choice.config)
        found.configs[cell, contender.name] = str(choice.config)
        found.hows.add(choice.how if "race" not in choice.how else "the best of a short race, before the rounds")


def _choose_for(
    prototype: prototypes.Prototype,
    contender: Contender,
    records: Sequence[CellRecord],
    race_s: float,
    found: Findings,
) -> None:
    """The same race for a prototype, where it has the collective."""
    for record in records:
        cell, candidates = record.cell, prototype.candidates(record.cell)
        if not candidates:
            record.out[contender.name] = "the prototype has no such collective"
            continue

        def sample(config: Config, batch: int, cell: Cell = cell) -> Outcome | None:
            return contender.sample(cell, batch, prototypes.words(config))

        config, _ = ours.race(candidates, sample, until=time.monotonic() + race_s)
        contender.configs[cell] = prototypes.words(config)
        found.configs[cell, contender.name] = str(config)


def _bound(contenders: Sequence[Contender], records: Sequence[CellRecord], cache_bytes: int) -> None:
    for contender in contenders:
        for record in records:
            way = floors.way(record.cell, contender.memory, cache_bytes)
            if way is None:
                record.out[contender.name] = "no floor is known"
            else:
                contender.configs[record.cell] = way


def _summarise(options: Options, machine: Machine, found: Findings) -> None:
    environment: dict[str, object] = {
        "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "cores": list(machine.cores),
        "budget_s": options.budget_s,
    }
    output.write_summary(Path(f"{options.out}.json"), found.judgements, found.contenders, found.configs, environment)
    print(f"our configs: {'; '.join(sorted(found.hows)) or 'none chosen'}")
    versions = {c.name: f"{c.name}: {c.version} {c.settings}".rstrip() for c in found.contenders if c.version}
    print("\n".join(versions.values()))
    idle = max(((c.idle_cpu_s, c.name) for c in found.contenders), default=(0.0, "nobody"))
    print(f"most processor time outside its own samples: {idle[0]:.2f} s, {idle[1]}")
    print(output.verdicts(found.judgements))
    print(f"samples: {options.out}.csv, summary: {options.out}.json")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
