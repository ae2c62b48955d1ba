"""Offsets and counts beyond 2**31 bytes, and beyond 2**31 elements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ranks.cases import Call
from ranks.pool import Ranks

from autotune.types import Collective, DType

LIMIT = 1 << 31


def _available_bytes() -> int:
    """Memory that this machine, and the control group of this process, would still give."""
    meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    free = int(meminfo.split("MemAvailable:")[1].split()[0]) << 10
    for group, limit, used in (
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        most, now = Path("/sys/fs/cgroup", group, limit), Path("/sys/fs/cgroup", group, used)
        if most.is_file() and now.is_file() and (text := most.read_text(encoding="ascii").strip()) != "max":
            free = min(free, int(text) - int(now.read_text(encoding="ascii")))
    return free


SUM = Call(collective=Collective.ALL_REDUCE, algorithm="direct", dtype=DType.UINT8, count=LIMIT + 61)
CALLS = {
    "all_gather": Call(collective=Collective.ALL_GATHER, algorithm="ring", dtype=DType.UINT8, count=LIMIT // 2 + 7),
    "broadcast": Call(collective=Collective.BROADCAST, algorithm="chain", dtype=DType.UINT8, count=LIMIT + 3),
    "all_reduce": replace(SUM, stores="streamed"),
    "all_reduce by single copy": replace(SUM, exchange="single_copy"),
    "all_reduce without copies": replace(SUM, exchange="zero_copy", symmetric=True),
    "broadcast by single copy": Call(
        collective=Collective.BROADCAST, algorithm="flat", dtype=DType.UINT8, count=LIMIT + 3, exchange="single_copy"
    ),
    "reduce_scatter": Call(
        collective=Collective.REDUCE_SCATTER, algorithm="bruck", dtype=DType.INT64, count=LIMIT // 16 + 1
    ),
}


@pytest.mark.parametrize(
    "name", ["broadcast", *(pytest.param(name, marks=pytest.mark.slow) for name in CALLS if name != "broadcast")]
)
def test_beyond_two_to_the_31(name: str) -> None:
    call = replace(CALLS[name], segment_bytes=1 << 20 if CALLS[name].exchange == "staged" else 4 << 30)
    per_rank = call.count * call.dtype.itemsize * (3 if call.collective.splits_by_rank else 2)
    needed = 2 * per_rank + (1 << 30)
    if (available := _available_bytes()) < needed:
        pytest.skip(f"needs {needed >> 20} MiB of memory, {available >> 20} MiB are available")
    step = {"do": "large", "group": "g", "call": call.to_json()}
    with Ranks(2) as ranks:
        ranks.join(timeout_s=60.0, symmetric_bytes=per_rank + (1 << 20))
        for answer in ranks.ask({0: [step], 1: [step]}, within_s=200.0):
            assert answer.errors == []
            assert set(answer.results[0]["wrong"]) == {-1}
            assert answer.results[0]["bytes"] > LIMIT
