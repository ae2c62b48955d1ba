"""The command line of the testbed, and the run: placements and rates one after the other, cells in interleaved rounds.

In:  words. Out: tables and verdicts on standard output, a CSV of every sample; 0 if every cell is won or held, 1 if
not. May not touch: how samples are taken. Everything is taken away at the end, whatever happens.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from hosts.network import Network, enter_private, made
from peers import install, libraries, ours, output
from peers.cells import Cell
from peers.judgement import Judgement, Verdict
from peers.rounds import CellRecord, Contender, run

from autotune.backends.mpi_sampling import Outcome
from autotune.errors import AutotuneError
from autotune.kernels.calls import layout_of
from autotune.kernels.schedules.registry import names
from autotune.settings import read
from autotune.types import Collective, Config
from autotune.units import format_bytes, parse_sizes

SIZES = (8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
QUICK_SIZES = (8, 4 << 10, 64 << 10, 1 << 20)
PLACEMENTS = ("4x1", "2x2", "4x2")
RATES_MBIT = (1000, 0)
COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER)
PEERS = ("gloo", "openmpi")
SEGMENTS = (64 << 10, 256 << 10, 1 << 20)
SLOW_ABOVE = {"flat": 16 << 10, "recursive_doubling": 1 << 20, "tree": 1 << 20, "chain": 16 << 20}
"""Algorithms that are no candidates above these sizes: they send whole buffers several times, or wait for each hop."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    signal.signal(signal.SIGTERM, _ended)
    options = _options(arguments)
    try:
        sizes = parse_sizes(options.sizes) if options.sizes else QUICK_SIZES if options.quick else SIZES
        settings = read()
        homes = {
            name: install.installed(libraries.LIBRARIES[name], settings.cache_dir, refresh=False) for name in PEERS
        }
        enter_private()
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
        out = Path(options.out or install.folder(settings.cache_dir) / "results" / f"testbed-{stamp}")
        out.parent.mkdir(parents=True, exist_ok=True)
        judgements: list[Judgement] = []
        for rate in map(int, options.rates.split(",")):
            for placement in options.placements.split(","):
                collectives = [Collective(name) for name in options.collective or ()] or COLLECTIVES
                found = _measure(placement, rate, collectives, sizes, homes, options, Path(f"{out}-{placement}-{rate}"))
                judgements += found
    except AutotuneError as err:
        print(f"error: {err.message}\ntry: {err.remedy}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        return 130
    print(output.verdicts(judgements))
    return 0 if all(j.verdict in (Verdict.WON, Verdict.HELD) for j in judgements) else 1


def _measure(
    placement: str,
    rate_mbit: int,
    collectives: Sequence[Collective],
    sizes: Sequence[int],
    homes: dict[str, Path],
    options: argparse.Namespace,
    out: Path,
) -> list[Judgement]:
    """One placement at one rate: all its cells."""
    from .contenders import contenders

    n_hosts, size = map(int, placement.split("x"))
    per_host = (size,) * n_hosts
    n_ranks = sum(per_host)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    cells = [Cell(collective=c, n_ranks=n_ranks, size_bytes=s) for c in collectives for s in sizes]
    records = [CellRecord(cell=cell) for cell in cells]
    network = Network(n_hosts=n_hosts, rate_mbit=rate_mbit or None, prefix=f"at{os.getpid()}")
    rate = f"{rate_mbit} Mbit/s" if rate_mbit else "not shaped"
    configs: dict[tuple[Cell, str], str] = {}
    until = time.monotonic() + options.budget
    with made(network), contextlib.ExitStack() as ending, open(f"{out}.csv", "w", newline="") as file:
        field = contenders(network, per_host, cores, homes)
        for contender in field:
            ending.callback(contender.close)
        own = field[0]
        for cell in cells:
            config, n_rounds = _race(own, cell, per_host, min(options.race, 0.3 * options.budget / len(cells)))
            own.configs[cell] = ours.config_words(config)
            configs[cell, own.name] = str(config)
            _say(f"{placement}, {rate}, {cell}: {config}, best of {n_rounds} rounds of a race")
        samples = output.SampleFile(file)
        try:
            run(records, field, until=until, most_rounds=options.most_rounds, keep=samples.keep, say=_say)
        finally:
            print(f"{placement} ranks, {rate}\n{output.tables(records, field, configs)}\n", flush=True)
            for contender in field:
                for fault in contender.faults:
                    print(f"fault: {contender.name}: {fault}")
    return [judgement for record in records for judgement in record.judgements(field)]


def _race(own: Contender, cell: Cell, per_host: tuple[int, ...], seconds: float) -> tuple[Config, int]:
    """Our config of a cell, chosen before and apart from the rounds that are compared."""
    host_of = tuple(host for host, size in enumerate(per_host) for _ in range(size))
    layout = layout_of(cell.n_ranks, 0, host_of)
    segments = [segment for segment in SEGMENTS if segment <= max(cell.message_bytes, SEGMENTS[0])]
    candidates = [
        Config(algorithm=name, segment_bytes=segment)
        for name in names(cell.collective, cell.n_ranks, layout)
        for segment in segments
        if cell.message_bytes <= SLOW_ABOVE.get(name, cell.message_bytes)
    ]

    def sample(config: Config, batch: int) -> Outcome | None:
        return own.sample(cell, batch, ours.config_words(config))

    sample(candidates[0], 0)  # starts the ranks, where they do not run yet
    return ours.race(candidates, sample, until=time.monotonic() + seconds)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python benchmarks testbed", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help=f"sizes {', '.join(map(format_bytes, QUICK_SIZES))}")
    add("--placements", default=",".join(PLACEMENTS), metavar="HxR", help="hosts x ranks, default %(default)s")
    add("--rates", default=",".join(map(str, RATES_MBIT)), metavar="MBIT", help="0: not shaped; default %(default)s")
    add("--sizes", metavar="SIZES", help="such as 8,64K,1M")
    add("--collective", action="append", choices=[c.value for c in COLLECTIVES], help="may be repeated")
    add("--race", type=float, default=10.0, metavar="SECONDS", help="of a cell at most, default %(default)g")
    add("--budget", type=float, default=600.0, metavar="SECONDS", help="of one placement at one rate")
    add("--most-rounds", type=int, default=40, metavar="N", help="of a cell, default %(default)s")
    add("--out", metavar="PREFIX", help="of the CSV files; default in the cache folder")
    return parser.parse_args(arguments)


def _ended(number: int, frame: FrameType | None) -> None:
    """End as on Ctrl-C: every rank and host is taken away."""
    raise KeyboardInterrupt


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
