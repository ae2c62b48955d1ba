"""Tensor-parallel inference of a decoder over mc2 and over gloo, in interleaved rounds.

    python benchmarks/pytorch/tensor_parallel.py [--ranks 2 4] [--batches 1 8] [--rounds 9] [--tokens 16]

8 layers, width 512, 8 heads, a KV cache; each layer's attention and feed-forward part are split over the ranks and end
in an all_reduce each (two a layer), as Megatron-LM splits them (Shoeybi et al. 2019). A prompt of 32 tokens, then
greedy decoding. Prints, per number of ranks and batch: tokens per second of the whole batch, latency of the first
token, the share of communication (time in all_reduce of the slowest rank), before (gloo) and after (mc2), and the
paired ratio of tokens per second; and whether both produce the same tokens. Two to four minutes.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from ranks import Result, run, slowest_s, spread

LAYERS, WIDTH, HEADS, WORDS, PROMPT = 8, 512, 8, 1000, 32


class Decoder:
    """One rank's part of the weights, over a group.

    Args:
        room: tokens that a sequence may have.
    """

    def __init__(self, group: Result, batch: int, room: int) -> None:
        n, rank = dist.get_world_size(), dist.get_rank()
        self.group, self.heads, self.depth = group, HEADS // n, WIDTH // HEADS
        generator = torch.Generator().manual_seed(3)

        def weights(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, generator=generator) / columns**0.5

        self.words = weights(WORDS, WIDTH)
        self.layers = []
        for _ in range(LAYERS):
            qkv = weights(3 * WIDTH, WIDTH).view(3, n, WIDTH // n, WIDTH)[:, rank].reshape(-1, WIDTH).t().contiguous()
            out = weights(WIDTH, WIDTH).view(WIDTH, n, WIDTH // n)[:, rank].t().contiguous()
            up = weights(4 * WIDTH, WIDTH).view(n, 4 * WIDTH // n, WIDTH)[rank].t().contiguous()
            down = weights(WIDTH, 4 * WIDTH).view(WIDTH, n, 4 * WIDTH // n)[:, rank].t().contiguous()
            self.layers.append((qkv, out, up, down))
        self.caches = [torch.zeros(2, batch, self.heads, room, self.depth) for _ in range(LAYERS)]
        self.communication_s = 0.0

    def _sum(self, tensor: torch.Tensor) -> torch.Tensor:
        start = time.perf_counter()
        dist.all_reduce(tensor, group=self.group)
        self.communication_s += time.perf_counter() - start
        return tensor

    def step(self, tokens: torch.Tensor, at: int) -> torch.Tensor:
        """The next token of each sequence.

        Args:
            tokens: (batch, new tokens).
            at: how many came before.
        """
        batch, new = tokens.shape
        x = self.words[tokens]
        for (qkv, out, up, down), cache in zip(self.layers, self.caches, strict=True):
            y = torch.nn.functional.layer_norm(x, (WIDTH,)) @ qkv
            q, k, v = y.view(batch, new, 3, self.heads, self.depth).permute(2, 0, 3, 1, 4)
            cache[0, :, :, at : at + new], cache[1, :, :, at : at + new] = k, v
            keys, values = cache[:, :, :, : at + new]
            y = torch.nn.functional.scaled_dot_product_attention(q, keys, values, is_causal=new > 1)
            x = x + self._sum(y.transpose(1, 2).reshape(batch, new, -1) @ out)
            y = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (WIDTH,)) @ up)
            x = x + self._sum(y @ down)
        return (torch.nn.functional.layer_norm(x[:, -1], (WIDTH,)) @ self.words.t()).argmax(-1)

    def generate(self, prompt: torch.Tensor, count: int) -> tuple[float, float, float, torch.Tensor]:
        """Seconds to the first token, seconds of all, seconds in all_reduce; the tokens. Of the slowest rank."""
        self.communication_s = 0.0
        dist.barrier()
        start = time.perf_counter()
        found = [self.step(prompt, 0)]
        first_s = time.perf_counter() - start
        for number in range(1, count):
            found.append(self.step(found[-1][:, None], prompt.shape[1] + number - 1))
        all_s, communication_s = time.perf_counter() - start, self.communication_s
        return slowest_s(first_s), slowest_s(all_s), slowest_s(communication_s), torch.stack(found, 1)


@torch.inference_mode()
def measure(batch: int, rounds: int, count: int) -> Result:
    """As one rank; (first, all, communication) in seconds, by group and round."""
    groups = {"gloo": dist.new_group(backend="gloo"), "mc2": dist.group.WORLD}
    decoders = {name: Decoder(group, batch, PROMPT + count) for name, group in groups.items()}
    prompt = torch.randint(WORDS, (batch, PROMPT), generator=torch.Generator().manual_seed(9))
    tokens = {name: decoder.generate(prompt, count)[3] for name, decoder in decoders.items()}
    taken: dict[str, list[list[float]]] = {name: [] for name in groups}
    for number in range(rounds):
        for name in sorted(groups, reverse=bool(number % 2)):
            taken[name].append(list(decoders[name].generate(prompt, count)[:3]))
    return {"taken": taken, "same": bool(torch.equal(tokens["gloo"], tokens["mc2"]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=16)
    given = parser.parse_args()
    print(f"{LAYERS} layers, width {WIDTH}, prompt {PROMPT}, {given.tokens} tokens, {given.rounds} rounds")
    for n in given.ranks:
        for batch in given.batches:
            found = run(measure, n, batch, given.rounds, given.tokens)
            taken = found["taken"]
            print(f"{n} ranks, batch {batch}: tokens {'equal' if found['same'] else 'DIFFER'}")
            for name, when in (("gloo", "before"), ("mc2", "after")):
                first, whole, talk = zip(*taken[name], strict=True)
                print(
                    f"  {when:>6} ({name}): {spread([batch * given.tokens / t for t in whole])} tokens/s, "
                    f"first token {spread([1e3 * t for t in first])} ms, "
                    f"communication {spread([100 * c / t for c, t in zip(talk, whole, strict=True)])} %"
                )
            ratios = [a[1] / b[1] for a, b in zip(taken["gloo"], taken["mc2"], strict=True)]
            print(f"  mc2 / gloo: {spread(ratios)} times the tokens per second; target 2")


if __name__ == "__main__":
    main()
