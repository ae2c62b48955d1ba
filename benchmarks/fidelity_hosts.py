"""How near the network model comes to our executors between four hosts at 1 Gbit/s.

    python benchmarks/fidelity_hosts.py [--rounds 7] [--algorithms ring,tree] [--sizes 1MiB,4MiB] [--executor native]

Four network namespaces with one shaped interface each (benchmarks/hosts), one rank in each: the portable executor over
gloo's sockets, or with --executor native our own (AUTOTUNE_NETWORK=ucx: over UCX), in segments of 256 KiB. Every
algorithm's all_reduce (float32) runs over each size in interleaved rounds, shuffled anew in each; a sample is the mean
of calls back to back for about 150 ms, after some that are not timed: they empty the interfaces' token buckets, and
bring connections that rested, whose window TCP has taken back (RFC 2861), up to their rate. About three minutes.

The model is a switch that never blocks, with a port of 1 Gbit/s x 1448/1514 (TCP's payload of an Ethernet frame) to
each host. The rest of its parameters are fitted to two patterns at some sizes: `ring`, in which no rank ever changes
its partner, and the all_gather `bruck`, in which every step does and sends what the last one brought. It is judged by
ring at the other sizes and by
recursive_halving_doubling at all: an error of at most 5 % from 1 MiB on. The others are shown as they are: in direct,
flat and recursive_doubling several hosts send to one at once or whole buffers are exchanged, and TCP's incast, which
the model does not know, makes some of them slower than any link accounts for. gloo's own all_reduce stands beside them.

TCP's senders find their rate by cubic, Linux's default, whatever this machine's is; --congestion names another. Under
bbr, which paces by what it last saw of a path, the same bytes between the same hosts differ by up to 13 % in their
medians.

Exits non-zero where the target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from hosts.launch import run_ranks
from hosts.network import Network, enter_private, made

from autotune.cost import NetworkModel, Timed, crossbar, fit_network
from autotune.errors import AutotuneError
from autotune.types import Collective, Config, DType, Layout, OpClass, Problem, RuleKey
from autotune.units import format_bytes, parse_sizes

N_HOSTS, RATE_MBIT = 4, 1000
SEGMENT_BYTES = {"portable": None, "native": 256 << 10}
PAYLOAD = 1448 / 1514
SIZES = (64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20)
GATHERS = "bruck"  # stands for an all_gather, the others for an all_reduce
FIT_ALGORITHMS, FIT_SIZES = ("ring", GATHERS), (1 << 20, 4 << 20, 16 << 20)
JUDGED = ("ring", "recursive_halving_doubling")
ALGORITHMS = (*JUDGED, GATHERS, "nhr", "tree", "direct", "recursive_doubling", "flat")
WHOLE_BUFFERS = ("tree", "recursive_doubling", "flat")  # several times the bytes: not measured above 4 MiB
TARGET, FROM_BYTES = 0.05, 1 << 20
LEAST_US, LEAST_CALLS, MOST_CALLS = 150_000.0, 2, 50  # of a sample
WARM_US = 30_000.0  # not timed before it
BYTES_PER_US = RATE_MBIT / 8
LIBRARY = "gloo's own"


def main() -> int:
    options = _options()
    if options.rank_of is not None:
        rank(json.loads(options.rank_of))
        return 0
    try:
        enter_private()
        cells = [
            (algorithm, size)
            for algorithm in (*options.algorithms.split(","), LIBRARY)
            for size in parse_sizes(options.sizes)
            if size <= 4 << 20 or algorithm not in WHOLE_BUFFERS
        ]
        times_us = measured(cells, options)
    except AutotuneError as err:
        print(f"error: {err.message}\ntry: {err.remedy}", file=sys.stderr)
        return err.exit_code
    return 1 if report(times_us, options) else 0


def measured(cells: list[tuple[str, int]], options: argparse.Namespace) -> dict[tuple[str, int], list[float]]:
    """Microseconds of every cell, by round."""
    request = json.dumps({"cells": cells, "rounds": options.rounds, "executor": options.executor})
    prefix = f"at{os.getpid()}"
    network = Network(n_hosts=N_HOSTS, rate_mbit=RATE_MBIT, congestion=options.congestion, prefix=prefix)
    command = [sys.executable, str(Path(__file__).resolve()), "--rank-of", request]
    start = time.monotonic()
    with made(network):
        text = run_ranks(network, command, within_s=900)
    print(f"{len(cells)} cells, {options.rounds} rounds, {time.monotonic() - start:.0f} s", file=sys.stderr)
    return {(algorithm, size): samples for algorithm, size, samples in json.loads(text)}


def rank(request: dict[str, Any]) -> None:
    """One rank: measure all cells, and write the slowest rank's times as rank 0."""
    import torch
    import torch.distributed as dist

    from autotune import communicator
    from autotune.kernels.portable import PortableCommunicator

    dist.init_process_group("gloo")
    segment_bytes = SEGMENT_BYTES[request["executor"]]
    native = communicator() if request["executor"] == "native" else None
    portable = PortableCommunicator(selector=lambda *_: Config(algorithm="ring"))
    cells: list[tuple[str, int]] = request["cells"]
    buffers = {size: (torch.zeros(size // 4), torch.zeros(size // 4)) for _, size in cells}

    def call(algorithm: str, size: int) -> None:
        buffer, other = buffers[size]
        config = Config(algorithm=algorithm, segment_bytes=segment_bytes)
        if algorithm == LIBRARY:
            dist.all_reduce(buffer)
        elif native is None and algorithm == GATHERS:
            portable.all_gather(other[: len(other) // N_HOSTS], buffer, config=config)
        elif native is None:
            portable.all_reduce(buffer, config=config)
        elif algorithm == GATHERS:
            native.all_gather(other[: len(other) // N_HOSTS].numpy(), buffer.numpy(), config=config)
        else:
            native.all_reduce(buffer.numpy(), config=config)

    for algorithm in dict.fromkeys(algorithm for algorithm, _ in cells):
        call(algorithm, min(buffers))  # connections
    order, luck = list(range(len(cells))), random.Random(0)
    samples: dict[int, list[float]] = defaultdict(list)
    for _ in range(request["rounds"]):
        luck.shuffle(order)
        for index in order:
            algorithm, size = cells[index]
            call_us = size / BYTES_PER_US  # roughly, and the same on all ranks
            calls = min(MOST_CALLS, max(LEAST_CALLS, int(LEAST_US / call_us)))
            for _ in range(1 + int(WARM_US / call_us)):
                call(algorithm, size)
            start = time.perf_counter()
            for _ in range(calls):
                call(algorithm, size)
            samples[index].append((time.perf_counter() - start) / calls * 1e6)
    mine = torch.tensor([samples[index] for index in range(len(cells))], dtype=torch.float64)
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(json.dumps([[*cell, times] for cell, times in zip(cells, mine.tolist(), strict=True)]))
    if native is not None:
        native.close()
    dist.destroy_process_group()


def problem(algorithm: str, size: int) -> Problem:
    computes = algorithm != GATHERS
    key = RuleKey(
        backend="torch",
        collective=Collective.ALL_REDUCE if computes else Collective.ALL_GATHER,
        dtype=DType.FLOAT32 if computes else None,
        op_class=OpClass.SUM if computes else None,
        n_ranks=N_HOSTS,
        placement=(1,) * N_HOSTS,
    )
    return Problem(key=key, message_bytes=size)


def report(times_us: dict[tuple[str, int], list[float]], options: argparse.Namespace) -> bool:
    """Print every cell; whether the target is missed."""

    def timed(algorithm: str, size: int, time_us: float) -> Timed:
        config = Config(algorithm=algorithm, segment_bytes=SEGMENT_BYTES[options.executor])
        return Timed(problem=problem(algorithm, size), config=config, time_us=time_us)

    fitted = {
        (algorithm, size): timed(algorithm, size, statistics.median(samples))
        for (algorithm, size), samples in times_us.items()
        if algorithm in FIT_ALGORITHMS and size in FIT_SIZES
    }
    port_gb_per_s = RATE_MBIT / 8e3 * PAYLOAD
    fabric = crossbar(N_HOSTS, gb_per_s=port_gb_per_s, latency_us=50.0)
    model = NetworkModel(fabric=fabric, layout=Layout(order=tuple(range(N_HOSTS))))
    model = fit_network(model, list(fitted.values()))
    print(f"{N_HOSTS} hosts x 1 rank at {RATE_MBIT} Mbit/s, {options.congestion}, the {options.executor} executor")
    print("all_reduce float32, bruck: all_gather; us, median of rounds, slowest rank")
    print(f"{'algorithm':28} {'size':>7} {'measured':>10} {'spread':>7} {'model':>10} {'error':>7}")
    missed, errors = False, []
    for (algorithm, size), samples in times_us.items():
        time_us = statistics.median(samples)
        spread = (max(samples) - min(samples)) / time_us
        words = f"{algorithm:28} {format_bytes(size):>7} {time_us:10.0f} {spread:7.0%}"
        if algorithm == LIBRARY:
            print(words)
            continue
        one = timed(algorithm, size, time_us)
        price_us = model.price(one.problem, one.config).time_us
        error = price_us / time_us - 1
        judged = algorithm in JUDGED and size >= FROM_BYTES and (algorithm, size) not in fitted
        note = "fitted" if (algorithm, size) in fitted else "target 5 %" if judged else ""
        if judged:
            errors.append(abs(error))
            missed |= abs(error) > TARGET
        print(f"{words} {price_us:10.0f} {error:+7.1%}  {note}")
    values = zip(model.parameters.names(), model.parameters.vector(), strict=True)
    print(", ".join(f"{name} {value:.4g}" for name, value in values))
    if errors:
        print(f"held out, from 1 MiB: at most {max(errors):.1%}, median {statistics.median(errors):.1%} (target 5 %)")
    return missed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--congestion", default="cubic", help="how TCP finds its rate: cubic, reno, bbr")
    parser.add_argument("--executor", choices=sorted(SEGMENT_BYTES), default="portable")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
