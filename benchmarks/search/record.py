"""Record a sweep of this machine: every listed config of every cell, in interleaved rounds.

In:  the lists in ``configs/``. Out: files in ``recordings/``. Each sample is asked for on its own, so that what it
costs is known: the wall time from asking to the answer, with writing and checking the buffers.

Rounds are outermost: each visits all cells of the sweep in an order of its own, and all configs of a cell one after the
other, in another order each time. Two times 24 rounds are taken: round r belongs to half r mod 2, so that slow phases
of the host fall on both alike.
"""

from __future__ import annotations

import math
import platform
import random
import sys
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from autotune.backends.choice import make_backend
from autotune.measure import Timing
from autotune.probing import probe
from autotune.settings import read
from autotune.topology.document import to_json
from autotune.topology.pairs import pinning_order
from autotune.types import SampleKind

from .recording import RECORDINGS, Recording, save
from .sweeps import Sweep, read_list

HALVES = 2
ROUNDS = 24
"""Of a half: nine to race and 15 to confirm; or twelve to choose the oracle and twelve to compare with it."""


def record(sweep: Sweep, folder: Path = RECORDINGS) -> Path:
    """Measure a sweep and write its file; a config that fails once is not asked for again."""
    settings = read()
    found = probe(settings)
    cells = read_list(sweep)
    luck = random.Random(0)
    n_rounds = HALVES * ROUNDS
    time_us = {p: np.full((len(configs), n_rounds), np.nan, np.float32) for p, configs in cells.items()}
    cost_s = {p: np.zeros((len(configs), n_rounds), np.float32) for p, configs in cells.items()}
    began_s = time.monotonic()
    with ExitStack() as stack:
        cores = pinning_order(found.topology)
        backends = {
            n_ranks: stack.enter_context(closing(make_backend(sweep.backend, cores, settings)))
            for n_ranks in sweep.ranks
        }
        for number in range(n_rounds):
            for problem in luck.sample(list(cells), len(cells)):
                configs = cells[problem]
                for at in luck.sample(range(len(configs)), len(configs)):
                    if number and math.isnan(time_us[problem][at, 0]):
                        continue
                    start_s = time.perf_counter()
                    (outcome,) = backends[problem.key.n_ranks].measure_round(
                        problem, [configs[at]], kind=SampleKind.FRESH, batch=number
                    )
                    cost_s[problem][at, number] = time.perf_counter() - start_s
                    if isinstance(outcome, Timing):
                        time_us[problem][at, number] = outcome.time_us
                    else:
                        print(f"{sweep.name}: {problem} {configs[at]}: {outcome.message}", file=sys.stderr)
            print(
                f"{sweep.name}: round {number + 1} of {n_rounds}, {time.monotonic() - began_s:.0f} s", file=sys.stderr
            )
    facts = {
        "recorded_at": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu": str(found.topology.hosts[0].cpu_model),
        "cpus": str(len(found.topology.allowed_cpus)),
        "kernel": platform.release(),
        "seconds": f"{time.monotonic() - began_s:.0f}",
    }
    path = folder / f"{sweep.name}.npz"
    save(
        Recording(
            name=sweep.name,
            backend=sweep.backend,
            topology=to_json(found.topology),
            facts=facts,
            cells=cells,
            time_us=time_us,
            cost_s=cost_s,
        ),
        path,
    )
    return path
