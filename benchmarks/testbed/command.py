"""The command line of the testbed, and the run: one scene after the other, a few cells at a time in interleaved rounds.

In:  words. Out: the judged table on standard output, a CSV of every sample for each scene; 0 if every cell is as
wanted, 1 if not. May not touch: how samples are taken. Everything is taken away at the end, whatever happens.

A run ends after --budget seconds. What it left open, the same command with the same --out takes up again.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from hosts.network import Network, enter_private, made
from peers import install, libraries, ours
from peers.cells import Cell
from peers.judgement import needs_rounds
from peers.rounds import CellRecord, Contender, run

from autotune.backends.mpi_sampling import Outcome
from autotune.backends.native import REFERENCE
from autotune.errors import AutotuneError, UsageError
from autotune.measure import THOROUGH, Timing
from autotune.settings import read
from autotune.types import Collective, Config
from autotune.units import format_bytes, parse_sizes

from . import kept, table
from .contenders import contenders
from .grid import COLLECTIVES, PLACEMENTS, QUICK_SIZES, RATES_MBIT, SIZES, Scene

AT_A_TIME = 4
"""Cells that share rounds: so few that a short run finishes some, so many that a disturbance spreads."""
PAUSES_FROM_BYTES = 64 << 10
PAUSE_S = 1.0
FINALISTS = 4
GLOO_ROUNDS = 9
"""Rounds that gloo takes part in however slow it is, since its ratio is a target: so many give an interval."""
OPPONENT = "openmpi"
"""Whose time says how everybody's samples of a cell are taken, races and rounds: the better peer wherever a call is
short enough for a batch. The fastest, ours, is too near to 20 us: at 8 B on four hosts 38 us alone, 20 in a batch."""
_BEGAN = time.monotonic()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    signal.signal(signal.SIGTERM, _ended)
    options = _options(arguments)
    try:
        until = time.monotonic() + options.budget
        wanted = _wanted(options)
        if not options.show:
            enter_private()
            cache = read().cache_dir
            homes = {name: install.installed(libraries.LIBRARIES[name], cache, refresh=False) for name in table.PEERS}
            for scene, cells in wanted.items():
                if time.monotonic() < until:
                    _measure(scene, cells, homes, options, until)
        return 0 if _report(wanted, options) else 1
    except AutotuneError as err:
        print(f"error: {err.message}\ntry: {err.remedy}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        return 130


def _wanted(options: argparse.Namespace) -> dict[Scene, list[Cell]]:
    """The cells that were asked for, by scene."""
    sizes = parse_sizes(options.sizes) if options.sizes else QUICK_SIZES if options.quick else SIZES
    collectives = [Collective(name) for name in options.collective or ()] or COLLECTIVES
    only = options.only.split(",") if options.only else []
    scenes = [Scene.of(p, rate) for rate in options.rates.split(",") for p in options.placements.split(",")]
    wanted = {scene: scene.cells(collectives, sizes, only) for scene in scenes}
    if not any(wanted.values()):
        raise UsageError(f"--only {options.only}: no cell is called so", remedy="such as '4x1/1000/all_reduce/*'")
    return {scene: cells for scene, cells in wanted.items() if cells}


def _measure(
    scene: Scene, cells: Sequence[Cell], homes: dict[str, Path], options: argparse.Namespace, until: float
) -> None:
    """The cells of one scene that are open."""
    path = _file(options, scene)
    known, configs = kept.read_back(path)
    records = [known.get(cell, CellRecord(cell=cell)) for cell in cells]
    todo = [record for record in records if _is_open(scene, record, configs, options.most_rounds)]
    if not todo:
        return
    cores = tuple(sorted(os.sched_getaffinity(0)))
    network = Network(
        n_hosts=scene.n_hosts,
        rate_mbit=scene.rate_mbit or None,
        congestion=options.congestion,
        prefix=f"at{os.getpid()}",
    )
    with made(network), contextlib.ExitStack() as ending, kept.appended(path) as samples:
        field = contenders(network, scene.per_host, cores, homes)
        for contender in field:
            ending.callback(contender.close)
        for some in _groups(todo):
            unchosen = [record for record in some if table.OURS not in configs.get(record.cell, {})]
            if time.monotonic() + options.race * len(unchosen) > until:  # the next piece has time for whole races
                break
            for record in some:
                record.agree(field, OPPONENT)
                _choose(scene, record, field[0], configs.get(record.cell, {}).get(table.OURS), options.race)
                for ring in (contender for contender in field if contender.name == table.RING):
                    ring.configs[record.cell] = ours.config_words(REFERENCE)
                    if not table.needs_ring(scene, record.cell):
                        record.out[ring.name] = "not asked for"
            run(
                some,
                field,
                until=until,
                most_rounds=options.most_rounds,
                keep=samples.keep,
                say=_say,
                hopeless_after=GLOO_ROUNDS,
                asks_more=functools.partial(_has_open_target, scene),
            )
        for contender in field:
            for fault in contender.faults:
                print(f"fault: {contender.name}: {fault}")


def _choose(scene: Scene, record: CellRecord, own: Contender, chosen: str | None, seconds: float) -> None:
    """Our config of a cell: that of its earlier rounds, or the best of a race before and apart from those compared."""
    if chosen is None:
        pauses = scene.rate_mbit > 0 and record.cell.message_bytes >= PAUSES_FROM_BYTES
        config, n_rounds = _race(own, record, scene.candidates(record.cell), seconds, pauses)
        chosen = ours.config_words(config)
        _say(f"{scene.name_of(record.cell)}: {config}, leader of a race of {n_rounds} rounds")
    own.configs[record.cell] = chosen


def _race(
    own: Contender, record: CellRecord, candidates: Sequence[Config], seconds: float, pauses: bool
) -> tuple[Config, int]:
    """The best of all in quick succession, with the effort `thorough` of a plan.

    Args:
        pauses: for long messages at a shaped rate: half of the time goes to the best few, after a pause, as in the
            rounds to come.

    A connection that has been idle for a second starts slowly (RFC 5681, section 4.1), which hurts those most that send
    long messages on few connections: an all_reduce of 1 MiB that takes 12.5 ms at once took 18 after a pause.
    """
    times_us: dict[Config, list[float]] = {}
    pause_s = 0.0

    def sample(config: Config, batch: int) -> Outcome | None:
        time.sleep(pause_s)
        outcome = own.sample(record.cell, batch, ours.config_words(config), record.like)
        if isinstance(outcome, Timing):
            times_us.setdefault(config, []).append(outcome.time_us)
        return outcome

    sample(candidates[0], 0)  # starts the ranks, where they do not run yet
    start = time.monotonic()
    if not pauses:
        return ours.race(candidates, sample, until=start + seconds, effort=THOROUGH)
    ours.race(candidates, sample, until=start + seconds / 2, effort=THOROUGH)
    best = sorted(times_us, key=lambda config: statistics.median(times_us[config]))[:FINALISTS]
    pause_s = PAUSE_S
    return ours.race(best, sample, until=start + seconds, effort=THOROUGH)


def _groups(records: Sequence[CellRecord]) -> Iterator[Sequence[CellRecord]]:
    for first in range(0, len(records), AT_A_TIME):
        yield records[first : first + AT_A_TIME]


def _is_open(scene: Scene, record: CellRecord, configs: dict[Cell, dict[str, str]], most_rounds: int) -> bool:
    row = table.judged(scene, record, configs.get(record.cell, {}))
    if row is None or needs_rounds(row.judgement, most_rounds=most_rounds):
        return True
    return record.n_rounds < most_rounds and table.State.OPEN in row.targets.values()


def _has_open_target(scene: Scene, record: CellRecord) -> bool:
    row = table.judged(scene, record, {})
    return row is not None and table.State.OPEN in row.targets.values()


def _report(wanted: dict[Scene, list[Cell]], options: argparse.Namespace) -> bool:
    """Print the table of all that is in the files; whether every cell is as wanted."""
    rows = []
    for scene, cells in wanted.items():
        known, configs = kept.read_back(_file(options, scene))
        rows += [table.judged(scene, known[cell], configs.get(cell, {})) for cell in cells if cell in known]
    found = [row for row in rows if row is not None]
    n_cells = sum(map(len, wanted.values()))
    print(table.text(found, n_cells), flush=True)
    return len(found) == n_cells and all(row.wanted for row in found)


def _file(options: argparse.Namespace, scene: Scene) -> Path:
    return Path(options.out) / f"{scene.name}.csv"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python benchmarks testbed", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--out", required=True, metavar="FOLDER", help="of the CSV files; a run goes on with what is there")
    add("--show", action="store_true", help="print the table of what is there, and measure nothing")
    add("--quick", action="store_true", help=f"sizes {', '.join(map(format_bytes, QUICK_SIZES))}")
    add("--placements", default=",".join(PLACEMENTS), metavar="HxR", help="hosts x ranks, default %(default)s")
    add("--rates", default=",".join(map(str, RATES_MBIT)), metavar="MBIT", help="0: not shaped; default %(default)s")
    add("--sizes", metavar="SIZES", help="such as 8,64K,1M")
    add("--collective", action="append", choices=[c.value for c in COLLECTIVES], help="may be repeated")
    add("--only", metavar="CELLS", help="patterns such as '2x2/1000/all_reduce/*,4x?/0/*/8B'")
    add("--congestion", default="cubic", metavar="NAME", help="how TCP finds its rate, for all: default %(default)s")
    add("--race", type=float, default=20.0, metavar="SECONDS", help="of a cell at most, default %(default)g")
    add("--budget", type=float, default=3600.0, metavar="SECONDS", help="of this run, default %(default)g")
    add("--most-rounds", type=int, default=40, metavar="N", help="of a cell, default %(default)s")
    return parser.parse_args(arguments)


def _ended(number: int, frame: FrameType | None) -> None:
    """End as on Ctrl-C: every rank and host is taken away."""
    raise KeyboardInterrupt


def _say(words: str) -> None:
    print(f"{time.monotonic() - _BEGAN:5.0f} s  {words}", file=sys.stderr, flush=True)
