"""Two questions of the field, answered by the cost model, as numbers and as docs/crossover.svg.

    python benchmarks/plot_crossover.py [--output docs/crossover.svg]

At 8 cards, at which size does tree give way to ring? At 32 cards over four hosts, by how much does the best schedule
win over a fixed ring, and over a fixed tree? Each schedule with its best segment; datasheet figures; all_reduce,
float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

from autotune.report.simulation import Prediction
from autotune.simulate import simulate, subject
from autotune.types import Collective
from autotune.units import format_bytes

SIZES = tuple(1 << k for k in range(10, 31))
EIGHT = (
    ("atlas-800t-a2", "Atlas A2, HCCS mesh"),
    ("atlas-800t-a3", "Atlas A3, switched HCCS"),
    ("dgx-h100", "DGX H100, NVSwitch"),
)
CLUSTER = "atlas-800t-a2"
_COLOURS = {"ring": "#c44e52", "tree": "#4c72b0", "best": "#2f2f2f"}


def predicted(machine: str, n_hosts: int, n_ranks: int) -> list[Prediction]:
    found = subject(machine, n_hosts, staging_bytes=8 << 20)
    return simulate(found, Collective.ALL_REDUCE, SIZES, (n_ranks,))


def time_us(one: Prediction, name: str) -> float:
    found = one.best.time_us if name == "best" else one.time_us(name)
    assert found is not None, f"{name} was not priced"
    return found


def where_ring_wins(predictions: Sequence[Prediction]) -> str:
    """The sizes at which ring is faster than tree, in words."""
    wins = [time_us(one, "ring") < time_us(one, "tree") for one in predictions]
    ranges = []
    for first in (i for i, won in enumerate(wins) if won and not (i and wins[i - 1])):
        last = next((i for i in range(first, len(wins)) if not wins[i]), len(wins)) - 1
        open_ended = last == len(wins) - 1
        ends = format_bytes(SIZES[first]), format_bytes(SIZES[last])
        ranges.append(f"from {ends[0]}" if open_ended else f"{ends[0]} to {ends[1]}")
    return ", ".join(ranges) or "nowhere"


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--output", type=Path, default=Path("docs/crossover.svg"))
    target = options.parse_args().output
    # A file that is the same on every run, with text that stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "crossover", "svg.fonttype": "none", "font.size": 9})
    figure, axes = plt.subplots(1, len(EIGHT) + 1, figsize=(15, 3.8), layout="constrained")
    for axis, (machine, title) in zip(axes, EIGHT, strict=False):
        found = predicted(machine, 1, 8)
        for name in ("ring", "tree", "best"):
            style = "--" if name == "best" else "-"
            axis.plot(SIZES, [time_us(one, name) for one in found], style, color=_COLOURS[name], label=name)
        answer = where_ring_wins(found)
        axis.set(
            title=f"{title}, 8 ranks\nring faster than tree: {answer}", xlabel="message", ylabel="us", yscale="log"
        )
        print(f"{title}, 8 ranks: ring is faster than tree {answer}")
    found = predicted(CLUSTER, 4, 32)
    for name in ("ring", "tree"):
        gains = [time_us(one, name) / one.best.time_us for one in found]
        axes[-1].plot(SIZES, gains, color=_COLOURS[name], label=f"over {name}")
        print(f"32 ranks on 4 hosts of A2: best over {name} {min(gains):.2f}x to {max(gains):.2f}x; by size:")
        print("  " + ", ".join(f"{format_bytes(s)} {g:.2f}x" for s, g in zip(SIZES[::4], gains[::4], strict=True)))
    axes[-1].set(title="Atlas A2, 4 hosts, 32 ranks\ngain of the best schedule", xlabel="message", ylabel="times")
    axes[-1].set_ylim(bottom=1.0)
    ticks = SIZES[::5]
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [format_bytes(size) for size in ticks])
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
