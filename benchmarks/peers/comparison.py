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

from autotune.backends.native import NativeBackend
from autotune.errors import BackendUnavailable
from autotune.runtime.selector import Selector
from autotune.settings import Settings
from autotune.topology.graph import Topology
from autotune.topology.pairs import pinning_order
from autotune.topology.probes.linux import collect, parse
from autotune.types import Config, Memory

from . import choosing, floors, install, libraries, lineup, ours, output, prototypes
from .cells import COLLECTIVES, Cell
from .choosing import Choices
from .earlier import Earlier, read
from .judgement import Judgement, Verdict
from .rounds import CellRecord, Contender, run

RACE_SHARE = 0.5
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
        resume: go on with the samples that are there.
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
    resume: bool
    settings: Settings


@dataclass(slots=True)
class Findings:
    """What is reported in the end."""

    contenders: list[Contender] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    choices: Choices = field(default_factory=Choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where ranks go and what bounds them."""

    topology: Topology
    cores: tuple[int, ...]
    homes: dict[str, Path]
    floors_program: Path
    prototypes: tuple[prototypes.Prototype, ...]


def compare(options: Options) -> bool:
    """Run it all, or a piece of it; whether every cell is won or held and nothing went wrong.

    Raises:
        AutotuneError: a peer that was named cannot be had, ours did not run, or the file cannot be gone on with.
    """
    machine = _prepared(options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    path = Path(f"{options.out}.csv")
    earlier = read(path) if options.resume else Earlier()
    counts = sorted({cell.n_ranks for cell in options.grid})
    if options.resume and options.budget_s is not None:  # a piece: starting the ranks of several counts takes too long
        counts = counts[:1] if not earlier.records else [_least_measured(counts, options.grid, earlier)]
    begun = bool(earlier.records)
    found = Findings()
    _say(f"ranks are pinned to cores {','.join(map(str, machine.cores))}, in this order, again and again")
    try:
        with open(path, "a" if begun else "w", newline="") as file:
            samples = output.SampleFile(file, begun=begun)
            for at, n_ranks in enumerate(counts):
                left_s = float("inf") if options.budget_s is None else started + options.budget_s - time.monotonic()
                _one_count(n_ranks, left_s / (len(counts) - at), machine, options, samples, earlier, found)
    finally:
        _report(options, machine, earlier, found)
    faults = [f"{contender.name}: {fault}" for contender in found.contenders for fault in contender.faults]
    for fault in faults:
        print(f"fault: {fault}")
    decided = all(judgement.verdict in (Verdict.WON, Verdict.HELD) for judgement in found.judgements)
    whole = len(found.judgements) >= len(options.grid) * len(options.memories)
    return whole and decided and not faults


def _least_measured(counts: Sequence[int], grid: Sequence[Cell], earlier: Earlier) -> int:
    """The number of ranks whose cells have had the fewest rounds."""
    return min(counts, key=lambda n_ranks: (earlier.rounds(cell for cell in grid if cell.n_ranks == n_ranks), n_ranks))


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
    n_ranks: int,
    budget_s: float,
    machine: Machine,
    options: Options,
    samples: output.SampleFile,
    earlier: Earlier,
    found: Findings,
) -> None:
    """Choose, run and add the rounds of one number of ranks to `earlier`."""
    until = time.monotonic() + budget_s
    grid = [cell for cell in options.grid if cell.n_ranks == n_ranks]
    own = [lineup.our_contender(n_ranks, machine.cores, options.settings, memory) for memory in options.memories]
    peers = [
        lineup.peer_contender(libraries.LIBRARIES[name], home, n_ranks, machine.cores)
        for name, home in machine.homes.items()
    ]
    throwaway = [lineup.prototype_contender(prototype, n_ranks, machine.cores) for prototype in machine.prototypes]
    bounds = []
    if n_ranks == floors.N_RANKS <= len(machine.cores):
        bounds = lineup.floor_contenders(machine.floors_program, machine.cores, options.memories)
    field_ = [*own, *peers, *throwaway, *bounds]
    for contender in field_:
        earlier.restore(contender, grid)
    race_s = min(options.race_s * len(grid) * (len(own) + len(throwaway)), RACE_SHARE * budget_s)
    races = bool(throwaway) or (options.table is None and options.fixed is None)
    if options.resume and races:  # the others have their race in a later piece
        waiting = [cell for cell in grid if any(cell not in contender.configs for contender in own)]
        turn = max(1, int(race_s / options.race_s / (len(own) + len(throwaway))))
        grid = [cell for cell in grid if cell not in waiting[turn:]]
        race_s = min(race_s, options.race_s * len(waiting[:turn]) * (len(own) + len(throwaway)))
    settings = options.settings
    backend = NativeBackend(machine.cores, staging_bytes=settings.staging_bytes, timeout_s=settings.timeout_s)
    with contextlib.ExitStack() as ending:
        flag = lineup.flag_contender(machine.floors_program, machine.cores)
        for contender in (*field_, flag):
            ending.callback(contender.close)
        share = len(own) / (len(own) + len(throwaway))
        choosing.choose(
            own,
            grid,
            backend,
            fixed=options.fixed,
            table=options.table,
            seconds=race_s * share,
            choices=found.choices,
            say=_say,
        )
        choosing.choose_for(machine.prototypes, throwaway, grid, seconds=race_s * (1 - share), choices=found.choices)
        records = [earlier.record(cell) for cell in grid]
        for record in records:
            for contender in throwaway:
                if record.cell not in contender.configs:
                    record.out[contender.name] = "the prototype has no such collective, or failed"
        _bound(bounds, records, floors.cache_bytes(machine.topology))
        try:
            run(
                records,
                field_,
                until=until,
                most_rounds=options.most_rounds,
                keep=samples.keep,
                say=_say,
                flag=lineup.flag_of(flag, enough_cores=len(machine.cores) >= floors.N_RANKS),
            )
        finally:
            for contender in field_:
                earlier.contenders[n_ranks, contender.name] = contender


def _bound(contenders: Sequence[Contender], records: Sequence[CellRecord], cache_bytes: tuple[int, int]) -> None:
    for contender in contenders:
        for record in records:
            if contender.settings in floors.ways(record.cell, contender.memory, *cache_bytes):
                contender.configs[record.cell] = contender.settings
            else:
                record.out[contender.name] = "no floor of this cell"


def _report(options: Options, machine: Machine, earlier: Earlier, found: Findings) -> None:
    """All tables, those of earlier pieces too."""
    for n_ranks in sorted({cell.n_ranks for cell in earlier.records}):
        records = [record for cell, record in earlier.records.items() if cell.n_ranks == n_ranks]
        records.sort(key=lambda record: (COLLECTIVES.index(record.cell.collective), record.cell.size_bytes))
        contenders = earlier.known(n_ranks)
        for contender in contenders:
            if contender.role == "ours":
                for cell, words in contender.configs.items():
                    found.choices.configs.setdefault((cell, contender.name), str(ours.config_of(words)))
        found.contenders += contenders
        found.judgements += [judgement for record in records for judgement in record.judgements(contenders)]
        print(output.tables(records, contenders, found.choices.configs), end="\n\n", flush=True)
    environment: dict[str, object] = {
        "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "cores": list(machine.cores),
        "budget_s": options.budget_s,
    }
    configs = found.choices.configs
    output.write_summary(Path(f"{options.out}.json"), found.judgements, found.contenders, configs, environment)
    print(f"our configs: {'; '.join(sorted(found.choices.hows)) or 'as chosen before'}")
    versions = {c.name: f"{c.name}: {c.version} {c.settings}".rstrip() for c in found.contenders if c.version}
    print("\n".join(versions.values()))
    idle = max(((c.idle_cpu_s, c.name) for c in found.contenders), default=(0.0, "nobody"))
    print(f"most processor time outside its own samples: {idle[0]:.2f} s, {idle[1]}")
    print(output.verdicts(found.judgements))
    print(f"samples: {options.out}.csv, summary: {options.out}.json")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
