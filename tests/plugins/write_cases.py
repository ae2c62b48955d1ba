"""Cases for the C harness: random tables, and what the exporters' Python decides by them.

Usage, in tests/: python -m plugins.write_cases FOLDER

The format is that of autotune/plugins/csrc/tests/harness.c. The same tables every time.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from plugins.expected import hccl_decision, nccl_decision
from plugins.hosts import HCCL_CALLS, HCCL_TYPES, NCCL_ALGORITHMS, NCCL_FUNCTIONS, NCCL_PROTOCOLS
from plugins.test_decisions import borders, tables

from autotune.exchange import Request
from autotune.table import TuningTable, save_table
from autotune.types import DType

N_CASES = 60


def asked(table: TuningTable) -> Iterator[str]:
    """Lines for both libraries."""
    for key in table.rules:
        hosts = len(key.placement)
        for n_bytes in borders(table, key):
            function = NCCL_FUNCTIONS[key.collective]
            chosen = nccl_decision(
                table, Request(), collective=key.collective, n_ranks=key.n_ranks, n_nodes=hosts, n_bytes=n_bytes
            )
            algorithm, protocol, channels = (None, None, 0) if chosen is None else chosen
            numbers = (
                -1 if algorithm is None else NCCL_ALGORITHMS.index(algorithm),
                -1 if protocol is None else NCCL_PROTOCOLS.index(protocol),
                channels,
            )
            yield " ".join(map(str, ("nccl", key.n_ranks, hosts, function, n_bytes, *numbers)))
            for dtype in (DType.FLOAT32, DType.BFLOAT16) if key.collective in HCCL_CALLS else ():
                words = hccl_decision(
                    table,
                    Request(),
                    collective=key.collective,
                    n_ranks=key.n_ranks,
                    n_servers=hosts,
                    dtype=dtype,
                    n_bytes=n_bytes,
                ) or ("-", "-", "-")
                call = (HCCL_CALLS[key.collective], HCCL_TYPES[dtype])
                yield " ".join(map(str, ("hccl", key.n_ranks, hosts, *call, n_bytes, *words)))


def write(folder: Path) -> None:
    """N_CASES tables with their calls."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = itertools.count()

    @settings(
        derandomize=True, database=None, max_examples=N_CASES, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(table=tables())
    def each(table: TuningTable) -> None:
        lines = list(asked(table))
        if lines:
            number = next(numbers)
            save_table(table, folder / f"{number}.json")
            (folder / f"{number}.asked").write_text("\n".join(lines) + "\n", encoding="utf-8")

    each()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
