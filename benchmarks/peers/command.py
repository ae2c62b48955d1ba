"""The command line of the comparison.

In:  words. Out: `Options` for comparison.compare, and the exit code: 0 if every cell is won or held, 1 if not or if
something went wrong, 2 for words that cannot be meant. May not touch: processes, samples.
"""

from __future__ import annotations

import argparse
import datetime
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from autotune.errors import AutotuneError
from autotune.runtime.selector import Selector
from autotune.settings import read
from autotune.table.load import load_table
from autotune.types import Collective, Config, Memory, SampleKind
from autotune.units import parse_bytes, parse_ranks, parse_sizes

from . import cells, install, libraries, ours
from .comparison import Options, compare

QUICK_RACE_S = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    signal.signal(signal.SIGTERM, _ended)
    try:
        return 0 if compare(options(sys.argv[1:] if arguments is None else arguments)) else 1
    except AutotuneError as err:
        print(f"error: {err.message}\ntry: {err.remedy}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _ended(number: int, frame: FrameType | None) -> None:
    """End as on Ctrl-C: every rank is ended, and what was measured is reported."""
    raise KeyboardInterrupt


def options(arguments: Sequence[str]) -> Options:
    """Read the words; ends the process with code 2 where they cannot be meant.

    Raises:
        UsageError: a size, a rank count or a setting that cannot be meant.
        TableFormatError: the table cannot be read.
    """
    known = list(libraries.LIBRARIES)
    parser = _parser(known)
    chosen = parser.parse_args(arguments)
    peers = chosen.peers.split(",") if chosen.peers else [n for n in known if libraries.LIBRARIES[n].default]
    for peer in peers:
        if peer not in known:
            parser.error(f"--peers: {peer!r} is not one of: {', '.join(known)}")
    if chosen.most_rounds < 1 or chosen.race <= 0 or (chosen.budget is not None and chosen.budget <= 0):
        parser.error("--most-rounds, --race and --budget are above 0")
    if chosen.out and chosen.resume:
        parser.error("--out and --resume exclude each other")
    if chosen.resume and not chosen.resume.endswith(".csv"):
        parser.error("--resume: the name of a CSV ends in .csv")
    if chosen.table and chosen.config:
        parser.error("--table and --config exclude each other")
    settings = read()
    quick = chosen.quick
    collectives = [Collective(name) for name in chosen.collective or ()]
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return Options(
        grid=cells.grid(
            collectives or (cells.QUICK_COLLECTIVES if quick else cells.COLLECTIVES),
            parse_ranks(chosen.ranks) if chosen.ranks else cells.QUICK_RANKS if quick else cells.RANKS,
            parse_sizes(chosen.sizes) if chosen.sizes else cells.QUICK_SIZES if quick else cells.SIZES,
            SampleKind.STEADY if chosen.steady else SampleKind.FRESH,
        ),
        peers=tuple(peers),
        named_peers=bool(chosen.peers),
        memories=tuple(Memory) if chosen.memory == "both" else (Memory(chosen.memory),),
        refresh=chosen.refresh,
        budget_s=chosen.budget,
        most_rounds=chosen.most_rounds,
        race_s=min(chosen.race, QUICK_RACE_S) if quick else chosen.race,
        prototypes=Path(chosen.prototypes).resolve() if chosen.prototypes else None,
        table=Selector(load_table(chosen.table)) if chosen.table else None,
        fixed=_config(chosen.config) if chosen.config else None,
        out=Path(chosen.resume).with_suffix("")
        if chosen.resume
        else Path(chosen.out)
        if chosen.out
        else install.folder(settings.cache_dir) / "results" / stamp,
        resume=bool(chosen.resume),
        settings=settings,
    )


def _parser(known: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="peers", description="Ours against other CPU collective libraries.")
    named = [collective.value for collective in cells.COLLECTIVES]
    add = parser.add_argument
    add("--quick", action="store_true", help="two collectives; 2 and 4 ranks; 8 B, 64 KiB, 1 MiB")
    add("--collective", action="append", choices=named, help="may be repeated; default all six")
    add("--ranks", metavar="N,N", help="default 2,4,8")
    add("--sizes", metavar="SIZES", help="such as 8,64K,1M or 8-64M")
    add("--peers", metavar="NAME,NAME", help=f"of {', '.join(known)}; default all but the rings")
    places = [*(memory.value for memory in Memory), "both"]
    add("--memory", choices=places, default="both", help="where our buffers are, default %(default)s")
    add("--steady", action="store_true", help="the same buffers again and again, instead of fresh inputs")
    add("--table", metavar="FILE", help="ours runs what this tuned table says; default what a race finds")
    add("--config", metavar="CONFIG", help="ours runs this everywhere: ring/64KiB, direct/64KiB/outbox=cached")
    add("--race", metavar="SECONDS", type=float, default=ours.RACE_S, help="of a cell at most, default %(default)g")
    add("--budget", metavar="SECONDS", type=float, help="for everything after installation")
    add("--most-rounds", metavar="N", type=int, default=60, help="of a cell, default %(default)s")
    add("--prototypes", metavar="FOLDER", help="rows for the prototypes whose sources are there")
    add("--refresh", action="store_true", help="install the peers anew (PIP_* variables reach pip)")
    add("--out", metavar="PREFIX", help="PREFIX.csv and PREFIX.json; default in the cache folder")
    add("--resume", metavar="CSV", help="go on with that file, or begin it: with --budget, one piece of a long run")
    return parser


def _config(text: str) -> Config:
    """As `str` writes one; without a segment 64 KiB."""
    algorithm, *rest = text.split("/")
    knobs = [word.split("=", 1) for word in rest if "=" in word]
    segment = next((word for word in rest if "=" not in word), "64KiB")
    return Config(
        algorithm=algorithm,
        segment_bytes=parse_bytes(segment),
        knobs=tuple(sorted((key, int(value) if value.isdecimal() else value) for key, value in knobs)),
    )
