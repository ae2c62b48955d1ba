"""How good and how fast the portfolio solver is on problems of growing size (``python benchmarks/portfolio.py``).

Each problem is made from a fixed seed: each option is best at a size of its own, and sizes have
random weights. Printed are seconds, the loss against the free choice, the bound that no choice goes below, and whether
the answer is proved. Takes about a minute.
"""

from __future__ import annotations

import random
import time

from autotune.portfolio import Cell, Option, solve

SIZES = ((8, 16, 3), (16, 32, 4), (32, 64, 4), (64, 96, 4), (256, 96, 4), (1024, 96, 6))


def made(n_options: int, n_cells: int, seed: int) -> tuple[list[Cell], list[Option]]:
    luck = random.Random(seed)
    peaks = [(luck.uniform(0.0, 1.0), luck.uniform(1.0, 1.4)) for _ in range(n_options)]
    cells = []
    for number in range(n_cells):
        share = number / (n_cells - 1)
        times = [best * (1.0 + 4.0 * abs(share - peak)) * luck.uniform(0.8, 1.25) for peak, best in peaks]
        cells.append(Cell(weight=luck.uniform(0.1, 10.0), free_us=min(times), times_us=tuple(times)))
    options = [Option(memory_bytes=luck.choice((100, 400, 800)) << 20) for _ in range(n_options)]
    return cells, options


def main() -> None:
    print("options  sizes  groups  seconds     loss    bound  proved")
    for n_options, n_cells, groups in SIZES:
        cells, options = made(n_options, n_cells, seed=n_options)
        start = time.perf_counter()
        found = solve(cells, options, max_groups=groups, max_memory_bytes=1600 << 20)
        seconds = time.perf_counter() - start
        print(
            f"{n_options:7}{n_cells:7}{groups:8}{seconds:9.2f}{100 * found.loss:8.2f}%{100 * found.bound:8.2f}%  "
            f"{'yes' if found.proved else 'no'}"
        )


if __name__ == "__main__":
    main()
