"""DistributedDataParallel training of a transformer over mc2 and over gloo, in interleaved rounds.

    python benchmarks/pytorch/ddp.py [--ranks 2] [--rounds 15] [--steps 2] [--batch N]

A transformer of about 10 million parameters (6 layers, width 368), SGD, one thread a rank. The batch (sequences of 8
tokens) is the one of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 at which communication is nearest to half of gloo's step, unless
--batch sets it. Communication is a step's time less that of the same step without exchange (``no_sync``) in the same
round, so it counts what is not hidden. A last run from equal parameters compares the losses. Prints steps per second
(median over the rounds, quartiles in brackets), the share of communication, the paired ratio, and the largest
difference between the losses. About two minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from ranks import Result, run, slowest_s, spread
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS, TOKENS, WORDS = 368, 6, 8, 1000
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
LOSS_STEPS = 10


class Decoder(torch.nn.Module):
    """A language model: embedding, transformer layers, words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.out = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.layers(self.words(tokens)))


class Contender:
    """The model over one group, wrapped in a class like DistributedDataParallel with further words."""

    def __init__(
        self,
        group: Result,
        wrap: Callable[..., torch.nn.Module] = DistributedDataParallel,
        lr: float = 1e-3,
        **words: object,
    ) -> None:
        torch.manual_seed(1)
        self.model = wrap(Decoder(), process_group=group, **words)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def steps(self, count: int, batch: int, seed: int, *, exchange: bool = True) -> tuple[float, list[float]]:
        """Seconds of a step on the slowest rank, and this rank's losses."""
        generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
        losses = []
        dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            tokens = torch.randint(WORDS, (batch, TOKENS + 1), generator=generator)
            with contextlib.nullcontext() if exchange else self.model.no_sync():
                words = self.model(tokens[:, :-1])
                loss = torch.nn.functional.cross_entropy(words.flatten(0, 1), tokens[:, 1:].flatten())
                loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.item())
        return slowest_s((time.perf_counter() - start) / count), losses


def share(with_s: float, without_s: float) -> float:
    """Per cent of a step that is communication."""
    return 100 * (with_s - without_s) / with_s


def measure(rounds: int, steps: int, batch: int | None) -> Result:
    """As one rank."""
    contenders = {"gloo": Contender(dist.new_group(backend="gloo")), "mc2": Contender(None)}
    for contender in contenders.values():
        contender.steps(2, 2, 0)  # buckets are rebuilt after the first step
    if batch is None:
        distances = []
        for candidate in BATCHES:
            pairs = [
                share(*(contenders["gloo"].steps(1, candidate, 1, exchange=e)[0] for e in (True, False)))
                for _ in range(3)
            ]
            distances.append((abs(statistics.median(pairs) - 50), candidate))
        batch = min(distances)[1]
    taken: dict[str, list[float]] = {"gloo": [], "mc2": [], "alone": []}
    for number in range(rounds):
        order = ["gloo", "mc2", "alone"]
        order = order[number % 3 :] + order[: number % 3]
        for name in order:
            contender = contenders["gloo" if name == "alone" else name]
            taken[name].append(contender.steps(steps, batch, number, exchange=name != "alone")[0])
    losses = {}
    for name, group in (("gloo", contenders["gloo"].model.process_group), ("mc2", None)):
        losses[name] = Contender(group).steps(LOSS_STEPS, batch, 7)[1]
    off = max(abs(a - b) / abs(b) for a, b in zip(losses["mc2"], losses["gloo"], strict=True))
    parameters = sum(p.numel() for p in contenders["mc2"].model.parameters())
    return {"batch": batch, "taken": taken, "off": off, "parameters": parameters}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int)
    given = parser.parse_args()
    found = run(measure, given.ranks, given.rounds, given.steps, given.batch)
    taken = found["taken"]
    print(
        f"{found['parameters'] / 1e6:.1f} million parameters, {given.ranks} ranks, batch {found['batch']} x {TOKENS} "
        f"tokens a rank, {given.rounds} rounds of {given.steps} steps"
    )
    for name in ("gloo", "mc2"):
        pairs = zip(taken[name], taken["alone"], strict=True)
        print(
            f"{name:>5}: {spread([1 / t for t in taken[name]])} steps/s, "
            f"communication {spread([share(*pair) for pair in pairs])} % of a step"
        )
    ratios = [a / b for a, b in zip(taken["gloo"], taken["mc2"], strict=True)]
    print(f"mc2 makes {spread(ratios)} times the steps of gloo (paired rounds); target 1.4")
    print(f"losses over {LOSS_STEPS} steps differ by at most {found['off']:.1e} of their value")


if __name__ == "__main__":
    main()
