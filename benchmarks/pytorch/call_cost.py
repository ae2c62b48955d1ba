"""What the process group adds to a call, and what importing it adds to a job.

    python benchmarks/pytorch/call_cost.py

Prints the cost of ``dist.all_reduce`` of 8 bytes over torch's own C++ fake backend (which does nothing), of the native
call (timed in C++), and of ``dist.all_reduce`` over mc2, all in groups of one rank and in turns; then the time of
``import autotune.runtime.torch`` over ``import torch``, in fresh processes, in turns. Exits non-zero if mc2 costs more
than 1 us above the other two together, or the import more than 20 ms. The least of many repetitions is shown: what is
measured is code, not the host's mood. About half a minute.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

import autotune.runtime.torch  # registers mc2
from autotune.kernels import Communicator, Shape
from autotune.types import Collective, DType, ReduceOp

CALLS, REPETITIONS, ROUNDS, IMPORTS = 1000, 40, 5, 9
CALL_LIMIT_NS, IMPORT_LIMIT_MS = 1000.0, 20.0


def least_ns(once: Callable[[], object]) -> float:
    """Nanoseconds of one call."""
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            once()
        best = min(best, (time.perf_counter_ns() - start) / CALLS)
    return best


def over(backend: str) -> tuple[float, float]:
    """Nanoseconds of dist.all_reduce over a backend, and of the native call below it (0 where there is none)."""
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=30))
    try:
        tensor = torch.ones(2)
        cost_ns = least_ns(lambda: dist.all_reduce(tensor))
        comm = getattr(dist.group.WORLD, "communicator", None)
        return cost_ns, 0.0 if comm is None else native_ns(comm)
    finally:
        dist.destroy_process_group()


def native_ns(comm: Communicator) -> float:
    call = comm.prepare(Shape(Collective.ALL_REDUCE, DType.FLOAT32, ReduceOp.SUM, 0, 2))
    array = np.ones(2, np.float32)
    barrier = comm.barrier_call()
    return 1e9 * min(comm.group.time(call, barrier, [array], [array], CALLS) / CALLS for _ in range(REPETITIONS))


def import_ms(module: str) -> float:
    """Milliseconds of one import in a fresh process."""
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    return 1e3 * float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    # Registers the backend "fake", which is for torch's own tests.
    import torch.testing._internal.distributed.fake_pg  # noqa: F401

    fake_ns = native = mc2_ns = float("inf")
    for _ in range(ROUNDS):
        fake_ns = min(fake_ns, over("fake")[0])
        cost_ns, below_ns = over("cpu:mc2")
        mc2_ns, native = min(mc2_ns, cost_ns), min(native, below_ns)
    more_ns = mc2_ns - fake_ns - native
    print(
        f"dist.all_reduce of 8 bytes: fake {fake_ns:.0f} ns, native call {native:.0f} ns, mc2 {mc2_ns:.0f} ns: "
        f"{more_ns:+.0f} ns (limit {CALL_LIMIT_NS:.0f})"
    )
    import_ms("autotune.runtime.torch")  # byte code
    pairs = [(import_ms("torch, torch.distributed"), import_ms("autotune.runtime.torch")) for _ in range(IMPORTS)]
    alone_ms, with_us_ms = (min(times) for times in zip(*pairs, strict=True))
    print(
        f"import torch {alone_ms:.0f} ms, with autotune.runtime.torch {with_us_ms:.0f} ms: "
        f"{with_us_ms - alone_ms:+.1f} ms (limit {IMPORT_LIMIT_MS:.0f})"
    )
    sys.exit(more_ns > CALL_LIMIT_NS or with_us_ms - alone_ms > IMPORT_LIMIT_MS)


if __name__ == "__main__":
    assert "mc2" in dist.Backend.backend_list, autotune.runtime.torch
    main()
