"""What the shipped defaults of several hosts lose against the fastest schedule, over network namespaces.

    python benchmarks/default_hosts.py [--per-host 2,2] [--rate 1000] [--collectives all_reduce,...] [--sizes 8,4K,...]

Namespaces with one shaped interface each (benchmarks/hosts) and the native executor over sockets. For each collective
and size every legal algorithm runs, in segments of 256 KiB, those that are likely for large messages also in 64 KiB and
1 MiB, float32; interleaved rounds, shuffled anew in each, slowest rank. A sample is a batch of calls back to back of
about 20 ms, after one that is not timed. What is more than 1.3 times as slow as the fastest after two rounds is
dropped, the default never; the others run nine rounds, and from 8 MiB on, where only those compete that were within
1.5 times at the size before, five. Each line has the default's median in us, and in order of speed the configs that
stayed, with the median over paired rounds of the default's time over theirs. 50 to 110 s with the defaults.

The rows of autotune/table/native_defaults.json for several hosts were chosen from what this printed (docs/table.md).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosts.command import parse_numbers
from hosts.launch import run_ranks
from hosts.network import Network, enter_private, made

from autotune.errors import AutotuneError
from autotune.kernels import distinct_names
from autotune.table import native_defaults
from autotune.types import Collective, Config, DType, OpClass, RuleKey
from autotune.units import format_bytes, parse_sizes

if TYPE_CHECKING:
    from autotune.kernels import Communicator

SEGMENTS = (64 << 10, 256 << 10, 1 << 20)
USUAL = 256 << 10
CUT_OTHERWISE = ("direct", "ring", "hierarchical", "hierarchical_ring", "two_leaders", "leaders", "chain")
BATCH_US, RACE_ROUNDS, ROUNDS = 20_000.0, 2, 9
DROPPED, LARGE, LARGE_ROUNDS, LARGE_DROPPED = 1.3, 8 << 20, 5, 1.5
COLLECTIVES = "all_reduce,all_gather,reduce_scatter,broadcast"
SIZES = "8,4K,32K,256K,1M,4M,16M"

Times = dict[Config, list[float]]


def main() -> int:
    options = _options()
    if options.rank_of is not None:
        rank(json.loads(options.rank_of))
        return 0
    try:
        per_host = parse_numbers(options.per_host)
        request = {"collectives": options.collectives.split(","), "sizes": list(parse_sizes(options.sizes))}
        command = [sys.executable, "-u", str(Path(__file__).resolve()), "--rank-of", json.dumps(request)]
        enter_private()
        network = Network(n_hosts=len(per_host), rate_mbit=options.rate or None, prefix=f"ad{os.getpid()}")
        start = time.monotonic()
        print(f"{options.per_host} ranks at {options.rate or 'no limit'} Mbit/s", flush=True)
        with made(network):
            run_ranks(network, command, within_s=900, capture=False, per_host=per_host)
        print(f"{time.monotonic() - start:.0f} s")
    except AutotuneError as err:
        print(f"error: {err.message}\ntry: {err.remedy}", file=sys.stderr)
        return err.exit_code
    return 0


def rank(request: dict[str, Any]) -> None:
    """One rank; rank 0 writes a line for each collective and size."""
    import numpy as np

    from autotune import communicator

    with communicator() as comm:
        hosts = comm.hosts
        assert hosts is not None, "ranks on several hosts"
        placement = tuple(sorted(map(hosts.host_of.count, set(hosts.host_of))))
        worst = np.zeros(1)

        def slowest_us(call: Callable[[], object], calls: int) -> float:
            call()
            comm.barrier()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            worst[0] = (time.perf_counter() - start) / calls * 1e6
            comm.all_reduce(worst, "max")
            return float(worst[0])

        for word in request["collectives"]:
            collective, within = Collective(word), None
            for size in request["sizes"]:
                size = -(-size // (4 * comm.n_ranks)) * 4 * comm.n_ranks
                times = _race(comm, collective, size, placement, hosts.host_of, slowest_us, within)
                medians = {config: statistics.median(found) for config, found in times.items()}
                least = min(medians.values())
                within = [c for c, us in medians.items() if us < LARGE_DROPPED * least]
                if comm.rank == 0:
                    _tell(collective, size, placement, times)


def _race(
    comm: Communicator,
    collective: Collective,
    size: int,
    placement: tuple[int, ...],
    host_of: tuple[int, ...],
    slowest_us: Callable[[Callable[[], object], int], float],
    within: list[Config] | None,
) -> Times:
    """Times of all rounds of what stayed; equal on all ranks, as what was dropped depends on them."""
    import numpy as np

    default = native_defaults().lookup(_key(collective, placement), size)
    whole, out = (np.full(size // 4, 0, np.float32) for _ in range(2))  # sums of sums would overflow
    part = np.full(size // 4 // comm.n_ranks, 0, np.float32)
    arguments = {
        Collective.ALL_GATHER: (part, whole),
        Collective.REDUCE_SCATTER: (whole, part),
        Collective.ALL_TO_ALL: (whole, out),
        Collective.SCATTER: (whole if comm.rank == 0 else None, part),
        Collective.GATHER: (part, whole if comm.rank == 0 else None),
    }.get(collective, (whole,))

    def call_of(config: Config) -> Callable[[], object]:
        return lambda: getattr(comm, collective.value)(*arguments, config=config)

    large = size >= LARGE and within is not None
    configs = list(dict.fromkeys([default, *(within if large and within else _candidates(collective, size, host_of))]))
    calls = {config: call_of(config) for config in configs}
    times: Times = {config: [] for config in configs}
    luck, rounds = random.Random(size), LARGE_ROUNDS if large else ROUNDS
    batch = {c: max(1, min(200, int(BATCH_US / slowest_us(call, 1)))) for c, call in calls.items()}
    for number in range(rounds):
        if number == RACE_ROUNDS:
            least = min(map(statistics.fmean, times.values()))
            times = {c: t for c, t in times.items() if c == default or statistics.fmean(t) < DROPPED * least}
        order = list(times)
        luck.shuffle(order)
        for config in order:
            times[config].append(slowest_us(calls[config], batch[config]))
    return times


def _candidates(collective: Collective, size: int, host_of: tuple[int, ...]) -> list[Config]:
    return [
        Config(algorithm=name, segment_bytes=segment)
        for name in distinct_names(collective, len(host_of), host_of=host_of)
        for segment in SEGMENTS
        if segment == USUAL or (name in CUT_OTHERWISE and segment < size and size > USUAL)
    ]


def _key(collective: Collective, placement: tuple[int, ...]) -> RuleKey:
    return RuleKey(
        backend="native",
        collective=collective,
        dtype=DType.FLOAT32 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=sum(placement),
        placement=placement,
    )


def _tell(collective: Collective, size: int, placement: tuple[int, ...], times: Times) -> None:
    default = native_defaults().lookup(_key(collective, placement), size)
    over = {
        config: statistics.median(a / b for a, b in zip(times[default], found, strict=True))
        for config, found in times.items()
    }
    shown = "  ".join(f"{config} {over[config]:.2f}" for config in sorted(over, key=lambda c: -over[c])[:8])
    median = statistics.median(times[default])
    print(f"{collective.value:>14} {format_bytes(size):>7} {default} {median:.0f} us: {shown}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--per-host", default="2,2", metavar="N,N")
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of each host's interface; 0: not shaped")
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
