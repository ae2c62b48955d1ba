"""`python benchmarks hosts up|down|run|findings`: hosts to try things on, or for the time of one command.

    python benchmarks hosts up --hosts 4 --rate 1000      # then: ip netns exec ath0 ping 198.18.0.2
    python benchmarks hosts down --hosts 4
    python benchmarks hosts run --hosts 2 -- python -m autotune probe --backend torch
    python benchmarks hosts findings                      # what the tuner finds at 1 Gbit/s: seven minutes, quiet
    python benchmarks hosts findings --scene slow         # one of its scenes
    python benchmarks hosts run --per-host 3,2 --slow 1=200 -- autotune bench all_reduce --scaling

`run` starts the command's ranks in each host, with what torchrun would set in its environment, and takes the hosts
away afterwards, whatever happens. `up` and `down` need root; `run` makes a private user namespace where it is not.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from autotune.errors import AutotuneError, UsageError

from . import findings
from .launch import run_ranks
from .network import Network, down, enter_private, made, up

_WITHIN_S = 3600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = _options(arguments)
    try:
        per_host = (1,) * options.hosts if options.per_host is None else parse_numbers(options.per_host)
        network = Network(
            n_hosts=len(per_host),
            rate_mbit=options.rate or None,
            slow_mbit=dict(map(_slow, options.slow)),
            n_interfaces=options.interfaces,
            congestion=options.congestion,
            prefix=options.prefix or _prefix(options.do),
        )
        if options.do == "up":
            up(network)
            print(f"hosts {network.host(0)} to {network.host(network.n_hosts - 1)}, from {network.address(0)} on")
        elif options.do == "down":
            down(network)
        elif options.do == "findings":
            enter_private()
            return findings.main(options.scene)
        else:
            enter_private()
            with made(network):
                run_ranks(network, options.command, within_s=options.within, capture=False, per_host=per_host)
    except AutotuneError as err:
        print(f"error: {err.message}\ntry: {err.remedy}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _slow(word: str) -> tuple[int, int]:
    """``1=200``: the second host at 200 Mbit/s."""
    host, _, rate = word.partition("=")
    return parse_numbers(host)[0], parse_numbers(rate)[0]


def parse_numbers(text: str) -> tuple[int, ...]:
    """``3,2``.

    Raises:
        UsageError: no whole numbers.
    """
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"{text!r} are not whole numbers", remedy="write them as --per-host 3,2 and --slow 1=200")
    return tuple(map(int, words))


def _prefix(do: str) -> str:
    """Hosts of a run have names of their own, so that runs do not disturb each other."""
    return f"at{os.getpid()}" if do == "run" else "at"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python benchmarks hosts",
        usage="%(prog)s up|down|run|findings [options] [-- COMMAND]",
        description=(__doc__ or "").partition("\n")[0],
        allow_abbrev=False,
    )
    parser.add_argument("do", choices=["up", "down", "run", "findings"])
    parser.add_argument("--hosts", type=int, default=4, metavar="N", help="2 to 64; default 4")
    parser.add_argument("--rate", type=int, default=1000, metavar="MBIT", help="of each interface; 0: not shaped")
    parser.add_argument("--per-host", metavar="N,N", help="ranks of each host, which says how many hosts; default 1")
    parser.add_argument("--slow", action="append", default=[], metavar="HOST=MBIT", help="another rate for one host")
    parser.add_argument("--interfaces", type=int, default=1, metavar="N", help="of each host, 1 to 8; default 1")
    parser.add_argument("--congestion", metavar="NAME", help="how TCP finds its rate, as cubic; default the machine's")
    parser.add_argument("--scene", action="append", default=[], metavar="NAME", help="of findings; may be repeated")
    parser.add_argument("--prefix", default="", help="of the namespaces' names; default at")
    parser.add_argument("--within", type=float, default=_WITHIN_S, metavar="S", help="the longest that run may take")
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.command = words[end + 1 :]
    if (options.do == "run") != bool(options.command):
        parser.error("run takes a command after --, and the others take none")
    return options
