"""What autotune costs a job: time of one ``select``, and of ``import autotune``.

    python benchmarks/select_cost.py

Prints microseconds of ``autotune.select`` over 10,000 random distinct sizes: each call is timed alone, less the time of
reading the clock, and each size counts with its median over repetitions; beside it the percentile of all single calls,
which also holds the host's noise. Then CPU milliseconds of fresh processes over bare Python (interleaved, medians): for
``import autotune``, for all that ``autotune.select`` loads, and for a first call, which reads a table of 288 rules.
Exits 1 if the 99th percentile over the sizes is above 0.5 us, or loading ``select`` above 50 ms. Wants an idle host.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns

import autotune
from autotune.table import Rule, TuningTable, native_defaults, save_table
from autotune.types import Collective, Config, DType, Evidence, OpClass, RuleKey

CALLS = 10_000
REPETITIONS = 15
PROCESSES = 21
SELECT_TARGET_US = 0.5
IMPORT_TARGET_MS = 50.0
STARTS = (
    "pass",
    "import autotune",
    "import autotune; autotune.select",
    "import autotune; autotune.select('all_reduce', message_bytes=4 << 20, n_ranks=4)",
)


def realistic_table() -> TuningTable:
    """24 ranges from 8 B to 64 MiB for each of 12 keys."""
    edges = [1 << power for power in range(3, 27)] + [(1 << 26) + 1]
    rules = tuple(
        Rule(
            from_bytes=low,
            to_bytes=high,
            config=Config(algorithm=("flat", "direct", "ring")[index % 3], segment_bytes=65536),
            evidence=Evidence.MEASURED,
            is_default=True,
            n_rounds=9,
            median_us=2.0,
            low_us=1.0,
            high_us=3.0,
            trial_ids=(index,),
        )
        for index, (low, high) in enumerate(pairwise(edges))
    )
    keys = [
        RuleKey(
            backend="native",
            collective=Collective.ALL_REDUCE,
            dtype=dtype,
            op_class=OpClass.SUM,
            n_ranks=n_ranks,
            placement=(n_ranks,),
        )
        for dtype in (DType.FLOAT32, DType.BFLOAT16)
        for n_ranks in (2, 3, 4, 6, 8, 16)
    ]
    return TuningTable(
        fingerprint=None,
        environment={},
        created_at="2026-01-31T12:00:00Z",
        test="none",
        rules=dict.fromkeys(keys, rules),
        defaults=native_defaults(),
    )


def call_ns(sizes: list[int]) -> list[int]:
    """Time of one call for each size, with the clock's own."""
    clock, select, times = perf_counter_ns, autotune.select, []
    for size in sizes:
        start = clock()
        select("all_reduce", message_bytes=size, n_ranks=4, dtype="float32")
        times.append(clock() - start)
    return times


def clock_ns() -> float:
    """Time of reading the clock, as ``call_ns`` does."""
    clock, times = perf_counter_ns, []
    for _ in range(CALLS):
        start = clock()
        times.append(clock() - start)
    return statistics.median(times)


def select_us() -> tuple[float, float, float]:
    """50th and 99th percentile over the sizes, and 99th of all single calls."""
    sizes = random.Random(1).sample(range(64 << 20), CALLS)
    call_ns(sizes)
    empty_ns = clock_ns()
    rounds = [call_ns(sizes) for _ in range(REPETITIONS)]
    by_size = [statistics.median(times) for times in zip(*rounds, strict=True)]
    single = [time for times in rounds for time in times]
    found = (percentile(by_size, 50), percentile(by_size, 99), percentile(single, 99))
    half, most, noisy = ((time - empty_ns) / 1e3 for time in found)
    return half, most, noisy


def percentile(times: Sequence[float], percent: int) -> float:
    return sorted(times)[len(times) * percent // 100]


def import_ms() -> list[float]:
    """Medians over bare Python, for each of STARTS but the first."""
    rounds = [[process_ms(code) for code in STARTS] for _ in range(PROCESSES)]
    bare, *others = (statistics.median(times) for times in zip(*rounds, strict=True))
    return [other - bare for other in others]


def process_ms(code: str) -> float:
    """CPU time of a fresh process: imports wait for nothing, and the load of others does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.json"
        save_table(realistic_table(), path)
        os.environ["AUTOTUNE_TABLE"] = str(path)
        half_us, most_us, noisy_us = select_us()
        alone_ms, select_ms, call_ms = import_ms()
    print(f"select, {CALLS} distinct sizes: p50 {half_us:.2f} us, p99 {most_us:.2f} us (target {SELECT_TARGET_US} us)")
    print(f"p99 of all single calls: {noisy_us:.2f} us")
    print(f"import autotune: {alone_ms:.1f} ms, with select {select_ms:.1f} ms (target {IMPORT_TARGET_MS:.0f} ms)")
    print(f"import, table of 288 rules and a first call: {call_ms:.1f} ms")
    return 0 if most_us < SELECT_TARGET_US and select_ms < IMPORT_TARGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
