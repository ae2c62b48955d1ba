"""Record a sweep: every listed config of every cell, in interleaved rounds, on this machine or on hosts made on it.

In:  the lists in ``configs/``. Out: files in a machine's folder of ``recordings/``. Each sample is asked for on its
own, so that what it costs is known: the wall time from asking to the answer, with writing and checking the buffers.

Rounds are outermost: each visits all cells of the sweep in an order of its own, and all configs of a cell one after the
other, in another order each time. Two halves of rounds are taken: round r belongs to half r mod 2, so that slow phases
of the host fall on both alike.

A sweep of several hosts is recorded by rank 0 of a job in network namespaces (benchmarks/hosts), with the launcher's
means of `autotune run`: `record_rank` is what each host's process does.
"""

from __future__ import annotations

import math
import os
import platform
import random
import sys
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from hosts.launch import run_ranks
from hosts.network import Network, enter_private, made

from autotune.backends.choice import make_backend
from autotune.backends.launch import start_here
from autotune.launch import Follower, Job, join
from autotune.measure import Timing
from autotune.probing import host_report, keep_own_rate, probe
from autotune.settings import launcher_environment, read
from autotune.topology.document import to_json
from autotune.topology.pairs import pinning_order
from autotune.types import SampleKind

from .recording import HALVES, Recording, load, save
from .sweeps import Sweep, read_list

_WITHIN_S = 900.0
_PROGRAM = (sys.executable, str(Path(__file__).parents[1]), "search")
"""This command, for the processes on other hosts."""


def record(sweep: Sweep, folder: Path, *, within_s: float) -> Path:
    """Measure a sweep and write its file; what is there by the time is kept, and the next call goes on with it.

    Returns:
        The file of the sweep, or that of the part where it is not complete.
    """
    if sweep.n_hosts == 1:
        return _record(sweep, folder, None, within_s)
    enter_private()
    network = Network(n_hosts=sweep.n_hosts, rate_mbit=sweep.rate_mbit, prefix=f"at{os.getpid()}")
    with made(network):
        command = [*_PROGRAM, "record-rank", sweep.name, "--machine", folder.name, "--seconds", str(within_s)]
        run_ranks(network, command, within_s=_WITHIN_S, capture=False)
    return _part(sweep, folder) if _part(sweep, folder).exists() else _path(sweep, folder)


def record_rank(sweep: Sweep, folder: Path, *, within_s: float) -> None:
    """One host's process: rank 0 records, the others follow it."""
    settings = read()

    def report(asked: dict[str, object]) -> object:
        cpus = asked["cpus"]
        assert isinstance(cpus, list)
        return host_report(settings, [int(str(cpu)) for cpu in cpus])

    answers = {"report": report, "keep_rate": lambda asked: keep_own_rate(settings, asked["rates"])}
    job = join(settings, launcher_environment(), answers, lambda words: print(words, file=sys.stderr))
    assert job is not None
    if isinstance(job, Follower):
        return job.follow()
    with job:
        _record(sweep, folder, job, within_s)


def _record(sweep: Sweep, folder: Path, job: Job | None, within_s: float) -> Path:
    """A config that fails once is not asked for again."""
    began_s = time.monotonic()
    settings = read()
    found = probe(settings, job=job)
    cells = read_list(sweep)
    n_rounds = HALVES * sweep.rounds
    time_us = {p: np.full((len(configs), n_rounds), np.nan, np.float32) for p, configs in cells.items()}
    cost_s = {p: np.zeros((len(configs), n_rounds), np.float32) for p, configs in cells.items()}
    before_s, first = 0.0, 0
    path, part_path = _path(sweep, folder), _part(sweep, folder)
    if part_path.exists():
        part = load(part_path)
        if part.cells != cells:
            raise SystemExit(f"{part_path} was begun with another list of configs; remove it")
        first, before_s = part.n_rounds, float(part.facts["seconds"])
        for problem in cells:
            time_us[problem][:, :first], cost_s[problem][:, :first] = part.time_us[problem], part.cost_s[problem]
    done = first
    with ExitStack() as stack:
        cores = pinning_order(found.topology)
        start_ranks = start_here if job is None else job.start
        backends = {
            n_ranks: stack.enter_context(closing(make_backend(sweep.backend, cores, settings, start_ranks=start_ranks)))
            for n_ranks in sweep.ranks
        }
        for n_ranks, backend in backends.items():  # starting the ranks is no cell's cost
            some = next(problem for problem in cells if problem.key.n_ranks == n_ranks)
            backend.measure_round(some, cells[some][:1], kind=SampleKind.FRESH, batch=0)
        if first:  # a config's first sample has been recorded, so that those of new ranks are none
            for problem, configs in cells.items():
                known = [c for at, c in enumerate(configs) if not math.isnan(time_us[problem][at, 0])]
                backends[problem.key.n_ranks].measure_round(problem, known, kind=SampleKind.FRESH, batch=0)
        for number in range(first, n_rounds):
            luck = random.Random(number)
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
            done, spent_s = number + 1, time.monotonic() - began_s
            print(f"{sweep.name}: round {done} of {n_rounds}, {before_s + spent_s:.0f} s", file=sys.stderr)
            if spent_s + spent_s / (done - first) > within_s:
                break
    complete = done == n_rounds
    facts = {
        "recorded_at": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu": str(found.topology.hosts[0].cpu_model),
        "cpus": str(len(found.topology.allowed_cpus)),
        "kernel": platform.release(),
        "seconds": f"{before_s + time.monotonic() - began_s:.0f}",
    }
    if sweep.n_hosts > 1:
        facts |= {"hosts": str(sweep.n_hosts), "Mbit/s": str(sweep.rate_mbit)}
    save(
        Recording(
            name=sweep.name,
            backend=sweep.backend,
            n_hosts=sweep.n_hosts,
            topology=to_json(found.cluster),
            facts=facts,
            cells=cells,
            time_us={problem: times[:, :done] for problem, times in time_us.items()},
            cost_s={problem: costs[:, :done] for problem, costs in cost_s.items()},
        ),
        path if complete else part_path,
    )
    if complete:
        part_path.unlink(missing_ok=True)
    return path if complete else part_path


def _part(sweep: Sweep, folder: Path) -> Path:
    return folder / f"{sweep.name}.part.npz"


def _path(sweep: Sweep, folder: Path) -> Path:
    return folder / f"{sweep.name}.npz"
