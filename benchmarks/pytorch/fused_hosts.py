"""How much of the communication a fused product hides between two hosts at 1 Gbit/s, and from which shape on it pays.

    python benchmarks/pytorch/fused_hosts.py [--rounds 15] [--shapes 2048x1536x1024,...] [--rate 1000] [--backend mc2]
                                             [--call matmul_all_reduce]

Two network namespaces with one shaped interface each (benchmarks/hosts), one rank in each, one thread a rank, over
mc2 or gloo's sockets. A fused call on x (m, k) and w (k, p) of each rank, float32, in interleaved rounds shuffled anew
in each, slowest rank: the product alone, the collective alone, one after the other (1 tile), and 2, 4, 8 and 16 tiles.
The first five rounds choose the number of tiles, the others judge it. Hidden is

    (time of one after the other - time of those tiles) / time of the collective alone

with the median and the quartiles over rounds. "pays" is as tune_tiles decides, on the rounds that judge: 1 % one-sided
signed-rank test and a gain of 2 %. "half" is the p-value of the same test that half of the collective is not hidden:
(one after the other - tiles) - collective / 2 in each round is as often below 0 as above. About two minutes.
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
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hosts.launch import run_ranks
from hosts.network import Network, enter_private, made
from scipy.stats import wilcoxon

from autotune.errors import AutotuneError
from autotune.measure import ALPHA, MIN_GAIN, paired_ratio
from autotune.types import Phase, Sample, SampleKind

SHAPES = "16x256x512,128x512x1024,512x2048x1024,1024x1536x1024,2048x1536x1024,4096x1536x1024"
TILES = (1, 2, 4, 8, 16)
CHOOSING = 5


def main() -> int:
    options = _options()
    if options.rank_of is not None:
        rank(json.loads(options.rank_of))
        return 0
    shapes = [tuple(map(int, words.split("x"))) for words in options.shapes.split(",")]
    request = json.dumps(
        {"shapes": shapes, "rounds": CHOOSING + options.rounds, "backend": options.backend, "call": options.call}
    )
    command = [sys.executable, str(Path(__file__).resolve()), "--rank-of", request]
    try:
        enter_private()
        with made(Network(n_hosts=2, rate_mbit=options.rate or None, prefix=f"af{os.getpid()}")) as network:
            text = run_ranks(network, command, within_s=900)
    except AutotuneError as err:
        print(f"error: {err.message}\ntry: {err.remedy}", file=sys.stderr)
        return err.exit_code
    report(json.loads(text), options)
    return 0


def rank(request: dict[str, Any]) -> None:
    """One rank: all shapes in rounds; rank 0 writes the slowest rank's times."""
    import torch
    import torch.distributed as dist

    from autotune import mc2_all_gather, mc2_all_reduce, mc2_reduce_scatter
    from autotune.runtime.torch.fused import carried_out
    from autotune.runtime.torch.tiles import Way
    from autotune.table.tiles import Fusion

    fusion = Fusion(request["call"])
    torch.set_num_threads(1)
    dist.init_process_group(f"cpu:{request['backend']}", timeout=timedelta(seconds=120))
    found = []
    for m, k, p in request["shapes"]:
        x, w, sums = torch.rand(m, k), torch.rand(k, p), torch.zeros(m, p)
        gathers = fusion is Fusion.ALL_GATHER_MATMUL
        factor = torch.rand(m * dist.get_world_size(), k) if gathers else x
        collective: Callable[[], object] = {
            Fusion.MATMUL_ALL_REDUCE: lambda sums=sums: mc2_all_reduce(sums),
            Fusion.ALL_GATHER_MATMUL: lambda x=x: mc2_all_gather(x),
            Fusion.MATMUL_REDUCE_SCATTER: lambda sums=sums: mc2_reduce_scatter(sums),
        }[fusion]
        calls: dict[str, Callable[[], object]] = {
            "product": lambda factor=factor, w=w: factor @ w,
            "collective": collective,
            **{str(n): lambda x=x, w=w, n=n: carried_out(fusion, Way(tiles=n), x, w, None) for n in TILES},
        }
        for call in calls.values():
            call()
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(request["rounds"]):
            order = sorted(calls)
            random.Random(number).shuffle(order)
            for name in order:
                dist.barrier()
                start = time.perf_counter()
                calls[name]()
                samples[name].append((time.perf_counter() - start) * 1e6)
        slowest = torch.tensor([samples[name] for name in sorted(samples)], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        found.append({"shape": [m, k, p], "times": dict(zip(sorted(samples), slowest.tolist(), strict=True))})
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def report(found: list[dict[str, Any]], options: argparse.Namespace) -> None:
    print(
        f"{options.call} float32, 2 hosts x 1 rank at {options.rate} Mbit/s over {options.backend}; ms, medians of "
        f"{options.rounds} rounds, slowest rank"
    )
    print(
        f"{'m x k x p':>16} {'product':>8} {'sum':>8} {'unfused':>8} {'fused':>8} {'tiles':>5}  "
        "hidden, quartiles  gain  pays  half"
    )
    for entry in found:
        every: dict[str, list[float]] = entry["times"]
        best = min((n for n in TILES if n > 1), key=lambda n: statistics.median(every[str(n)][:CHOOSING]))
        times = {name: values[CHOOSING:] for name, values in every.items()}
        median = {name: statistics.median(values) / 1e3 for name, values in times.items()}
        rounds = list(zip(times["1"], times[str(best)], times["collective"], strict=True))
        low, middle, high = statistics.quantiles(((one - tiled) / alone for one, tiled, alone in rounds), n=4)
        half = wilcoxon([one - tiled - alone / 2 for one, tiled, alone in rounds], alternative="greater").pvalue
        gain = paired_ratio(_samples(times["1"]), _samples(times[str(best)]))
        pays = gain.p_value < ALPHA and gain.median >= MIN_GAIN
        print(
            f"{'x'.join(map(str, entry['shape'])):>16} {median['product']:8.1f} {median['collective']:8.1f} "
            f"{median['1']:8.1f} {median[str(best)]:8.1f} {best:5}  {middle:4.0%} {low:4.0%} to {high:4.0%}  "
            f"{gain.median:4.2f}  {'yes' if pays else 'no':>4}  {half:.2g}"
        )


def _samples(times_us: list[float]) -> list[Sample]:
    return [
        Sample(kind=SampleKind.STEADY, phase=Phase.CONFIRM, round=n, position=0, batch_calls=1, time_us=time_us)
        for n, time_us in enumerate(times_us)
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--call", default="matmul_all_reduce", help="or all_gather_matmul, matmul_reduce_scatter")
    parser.add_argument("--backend", choices=["gloo", "mc2"], default="mc2")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of each host's interface; 0: not shaped")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
