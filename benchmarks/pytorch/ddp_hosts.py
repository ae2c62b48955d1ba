"""DistributedDataParallel training over two hosts at 1 Gbit/s: mc2 lossless and compressed against gloo, interleaved.

    python benchmarks/pytorch/ddp_hosts.py [--hosts 2] [--per-host 2] [--rate 1000] [--rounds 9] [--codecs int8,...]
                                           [--topo ring] [--table FILE] [--loss-steps 40]

Network namespaces with one shaped interface each (benchmarks/hosts). The transformer of ddp.py (about 10 million
parameters), one thread a rank, one sequence of 8 tokens a rank and step, so that gloo's step is communication for the
most part; how much is measured, as a step's time less that of the same step without exchange (``no_sync``) in the same
round. ``gloo`` and ``mc2`` run plain DistributedDataParallel, mc2 with the table's configs, or shipped defaults where
--table names none; ``none`` and the codecs are MC2DistributedDataParallel over mc2 with that codec (and --topo) forced,
error feedback, and 3 lossless steps first, which are not timed.

Then every contender trains the model from equal parameters for --loss-steps steps on batches that repeat, so that there
is something to learn; compared is the mean loss of the last five steps.
Prints milliseconds a step (median over the rounds, quartiles in brackets), the share of communication, the paired
ratios, and the losses. Four minutes with the defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hosts.launch import run_ranks
from hosts.network import Network, enter_private, made

from autotune.errors import AutotuneError

LOSSLESS_STEPS = 3
WARM_STEPS = LOSSLESS_STEPS + 1
REPEATED = 4
"""Batches of the training for losses."""


def main() -> int:
    options = _options()
    if options.rank_of is not None:
        rank(json.loads(options.rank_of))
        return 0
    request = {name: getattr(options, name) for name in ("rounds", "steps", "loss_steps", "codecs", "topo")}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--rank-of", json.dumps(request)]
    if options.table:
        os.environ["AUTOTUNE_TABLE"] = str(Path(options.table).resolve())
    try:
        enter_private()
        with made(Network(n_hosts=options.hosts, rate_mbit=options.rate or None, prefix=f"ad{os.getpid()}")) as network:
            text = run_ranks(network, command, within_s=900, per_host=(options.per_host,) * options.hosts)
    except AutotuneError as err:
        print(f"error: {err.message}\ntry: {err.remedy}", file=sys.stderr)
        return err.exit_code
    report(json.loads(text), options)
    return 0


def rank(request: dict[str, Any]) -> None:
    """One rank; rank 0 writes times and losses."""
    import torch
    import torch.distributed as dist
    from ddp import Contender

    from autotune.runtime.torch.ddp import MC2DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("cpu:mc2", timeout=timedelta(seconds=120))
    gloo = dist.new_group(backend="gloo")
    codecs = [word for word in request["codecs"].split(",") if word]

    def contender(name: str, lr: float = 1e-3) -> Contender:
        if name in ("gloo", "mc2"):
            return Contender(gloo if name == "gloo" else None, lr=lr)
        words = {"compression": name, "topo": request["topo"] or None, "lossless_steps": LOSSLESS_STEPS}
        return Contender(None, MC2DistributedDataParallel, lr, **words)

    names = ["gloo", "mc2", "none", *codecs]
    contenders = {name: contender(name) for name in names}
    for one in contenders.values():
        one.steps(WARM_STEPS, 1, 0)
    taken: dict[str, list[float]] = {name: [] for name in (*names, "alone")}
    for number in range(request["rounds"]):
        order = [*names, "alone"]
        order = order[number % len(order) :] + order[: number % len(order)]
        for name in order:
            one = contenders["gloo" if name == "alone" else name]
            taken[name].append(one.steps(request["steps"], 1, number, exchange=name != "alone")[0])
    losses = {}
    for name in names:
        one, found = contender(name, lr=0.05), []
        for step in range(request["loss_steps"]):
            mine = torch.tensor(one.steps(1, 8, step % REPEATED)[1])
            dist.all_reduce(mine)
            found.append(float(mine) / dist.get_world_size())
        losses[name] = found
    if dist.get_rank() == 0:
        parameters = sum(p.numel() for p in contenders["gloo"].model.parameters())
        print(json.dumps({"taken": taken, "losses": losses, "parameters": parameters}))
    dist.barrier()
    dist.destroy_process_group()


def report(found: dict[str, Any], options: argparse.Namespace) -> None:
    from ranks import spread

    taken, losses = found["taken"], found["losses"]
    print(
        f"{found['parameters'] / 1e6:.1f} million parameters, {options.hosts} hosts x {options.per_host} ranks at "
        f"{options.rate} Mbit/s, {options.rounds} rounds of {options.steps} steps, "
        f"table: {options.table or 'shipped defaults'}, topo: {options.topo or 'as tuned'}"
    )
    last = {name: statistics.mean(values[-5:]) for name, values in losses.items()}
    for name in losses:
        shares = [100 * (a - b) / a for a, b in zip(taken[name], taken["alone"], strict=True)]
        ratios = [a / b for a, b in zip(taken["gloo"], taken[name], strict=True)]
        print(
            f"{name:>16}: {spread([1e3 * t for t in taken[name]])} ms a step, communication {spread(shares)} %, "
            f"{spread(ratios)} times the steps of gloo; loss {losses[name][0]:.4f} -> {last[name]:.4f} "
            f"({100 * (last[name] / last['gloo'] - 1):+.2f} % of gloo's)"
        )
    print(f"{'alone':>16}: {spread([1e3 * t for t in taken['alone']])} ms a step")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--per-host", type=int, default=2)
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of each host's interface; 0: not shaped")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--loss-steps", type=int, default=40)
    parser.add_argument("--codecs", default="int8,threshold(1.0)")
    parser.add_argument("--topo", default="", help="forced for none and the codecs; default: as tuned")
    parser.add_argument("--table", help="of rank 0; default: AUTOTUNE_TABLE, else shipped defaults")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
