"""Every search on every recording, several times, on rounds that share nothing with those that judge it.

In:  recordings. Out: tables. The search is the product's own (`autotune.tune.tune`) with a store in memory, from
nothing but the cost model of the recorded topology; its clock is the recorded seconds.

A recording has two halves. Run A races on the first nine rounds of one and confirms on its others; the other half
judges it (`judging`). Run B has the halves the other way round. That pair of runs is repeated with the rounds in other
orders. There are no steady rounds, since none were recorded. Columns:

    mean      regret: time of the choice over the oracle's, less one; the mean of all cells and runs
    cell      the worst cell: the largest mean regret of a cell over the runs
    run       the worst cell of any run, and what of it noise does not explain (99 %)
    time      seconds of the search over those of nine rounds of every config
    agree     cells on which runs A and B chose alike / or differ by less than the noise
    slower    choices, of all runs, that are significantly slower than the default

`budgets` gives every search the same recorded seconds, as shares of the exhaustive ones, and lets it use them as it
likes: as many configs enter as the time allows. A cell that the time did not reach keeps the default.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.db import NewSession, open_store
from autotune.distil import verdicts
from autotune.measure import EXHAUSTIVE, NORMAL, QUICK, THOROUGH, Effort
from autotune.topology.document import from_json
from autotune.tune import Knowledge, Sampler, pricing_of, proposer_for, tune
from autotune.types import Config, Problem
from autotune.units import format_bytes

from .bound import bound
from .judging import Judged, apart, judged
from .recorded import RecordedBackend, confirm_rounds, exhaustive_s
from .recording import HALVES, Recording, load
from .sweeps import STAGING_BYTES, Sweep

FINGERPRINT = "0" * 16
EFFORTS = {effort.name: effort for effort in (QUICK, NORMAL, THOROUGH)}
GROUPS = (("all", 0, 1000), ("25-50", 25, 50), ("over 80", 80, 1000))
"""Cells by their number of configs; the issue of cost is one of cells with many."""
SHARES = (0.05, 0.1)
ORDERS = 3
_HEADS = ("search", "cells", "mean", "cell", "run", "time", "agree", "slower", "own s")


def replay(
    sweeps: Sequence[Sweep], folder: Path, *, samplers: Sequence[str] | None, effort: str, show_cells: bool
) -> int:
    """Print a table for each recording: every search as it ends by itself."""
    for sweep in sweeps:
        recording = load(folder / f"{sweep.name}.npz")
        _print_head(recording)
        print("{:<10} {:<13} {:>7} {:>6} {:>13} {:>6} {:>10} {:>9} {:>6}".format(*_HEADS))
        for sampler in _chosen(samplers):
            began_s = time.perf_counter()
            runs = runs_of(recording, sampler, EFFORTS[effort])
            own_s = time.perf_counter() - began_s
            for title, least, most in GROUPS:
                group = [p for p, configs in recording.cells.items() if least <= len(configs) <= most]
                if group and (title == "all" or len(group) < len(recording.cells)):
                    head = f"{sampler.value:<10} {f'{title} ({len(group)})':<13}"
                    print(f"{head} {_line(recording, runs, group)} {own_s:>6.1f}", flush=True)
            if show_cells:
                _print_cells(recording, runs)
    return 0


def budgets(sweeps: Sequence[Sweep], folder: Path, *, samplers: Sequence[str] | None) -> int:
    """Print a table for each recording: mean and worst regret of every search for the same recorded seconds."""
    for sweep in sweeps:
        recording = load(folder / f"{sweep.name}.npz")
        _print_head(recording)
        print(f"{'search':<10}", *(f"{f'{share:.0%} of the time':>26}" for share in SHARES))
        for sampler in _chosen(samplers):
            if sampler is not Sampler.GRID:
                print(f"{sampler.value:<10}", *(f"{_at_budget(recording, sampler, share):>26}" for share in SHARES))
    return 0


def bounds(sweeps: Sequence[Sweep], folder: Path) -> int:
    """Print a line for each recording: what noise alone costs."""
    for sweep in sweeps:
        print(bound(load(folder / f"{sweep.name}.npz"), ORDERS), flush=True)
    return 0


def _at_budget(recording: Recording, sampler: Sampler, share: float) -> str:
    runs = runs_of(recording, sampler, replace(NORMAL, entrants=None, few_entrants=None), share=share)
    every = [one for run in runs for one in run.values()]
    spent = sum(one.spent_s for one in every) / sum(one.exhaustive_s for one in every)
    return f"{_mean(every):.2%}, cell {_worst_cell(runs):.0%} ({spent:.1%})"


Run = Mapping[Problem, Judged]


def runs_of(recording: Recording, sampler: Sampler, effort: Effort, *, share: float | None = None) -> list[Run]:
    """Pairs of runs that saw different halves, of every order of the rounds.

    Args:
        share: of the exhaustive seconds, that a run may use at most; None for as long as it takes.
    """
    runs: list[Run] = []
    for number in range(ORDERS):
        ordered = recording.reordered(number)
        for half in range(HALVES):
            whole_s = sum(exhaustive_s(ordered, problem, half) for problem in ordered.cells)
            runs.append(run(ordered, sampler, effort, half, budget_s=None if share is None else share * whole_s))
    return runs


def run(recording: Recording, sampler: Sampler, effort: Effort, half: int, *, budget_s: float | None = None) -> Run:
    """One search over a recording, and its judgement."""
    backend = RecordedBackend(recording, half=half)
    base = EXHAUSTIVE if sampler is Sampler.GRID else effort
    most_rounds = min(base.most_rounds, confirm_rounds(recording))
    given = replace(base, most_rounds=most_rounds, steady_rounds=0)
    place = from_json(recording.topology)
    pricing = pricing_of(place, recording.backend, cluster=place, staging_bytes=STAGING_BYTES)
    store = open_store("sqlite://")
    try:
        store.add_topology(FINGERPRINT, "{}")
        session = store.open_session(
            NewSession(
                plan_digest="replay",
                plan_text="",
                fingerprint=FINGERPRINT,
                environment={},
                backend=recording.backend,
                command="replay",
            )
        )
        tune(
            tuple(recording.cells),
            backend=backend,
            store=store,
            session=session,
            effort=given,
            budget_s=budget_s,
            proposer_for=proposer_for(sampler),
            knowledge=Knowledge(pricing, backend.default),
            clock=backend.clock,
            seed=half,
        )
        trials = store.trials(session_id=session.session_id)
    finally:
        store.close()
    decided = verdicts(trials, default=backend.default, reference=backend.reference)
    choices: Mapping[Problem, Config] = {problem: verdict.config for problem, verdict in decided.items()}
    return {
        problem: judged(
            recording,
            problem,
            choices.get(problem, backend.default(problem)),
            spent_s=backend.spent_s[problem],
            seen=half,
        )
        for problem in recording.cells
    }


def _chosen(samplers: Sequence[str] | None) -> list[Sampler]:
    return [sampler for sampler in Sampler if not samplers or sampler.value in samplers]


def _print_head(recording: Recording) -> None:
    counts = [len(configs) for configs in recording.cells.values()]
    facts = ", ".join(f"{name} {value}" for name, value in recording.facts.items())
    print(f"\n{recording.name}: {len(counts)} cells of {min(counts)} to {max(counts)} configs ({facts})")


def _line(recording: Recording, runs: Sequence[Run], group: Sequence[Problem]) -> str:
    own = [{problem: run[problem] for problem in group} for run in runs]
    every = [one for run in own for one in run.values()]
    pairs = [(a[problem], b[problem]) for a, b in zip(own[::2], own[1::2], strict=True) for problem in group]
    alike = sum(a.config == b.config for a, b in pairs) / len(pairs)
    near = sum(a.config == b.config or not apart(recording, a, b) for a, b in pairs) / len(pairs)
    share = sum(one.spent_s for one in every) / sum(one.exhaustive_s for one in every)
    worst = max(every, key=lambda one: one.regret)
    words = (
        f"{_mean(every):.2%}",
        f"{_worst_cell(own):.1%}",
        f"{worst.regret:.0%} ({max(0.0, *(one.low for one in every)):.0%})",
        f"{share:.1%}",
        f"{alike:.0%}/{near:.0%}",
        f"{sum(one.slower for one in every)}/{len(every)}",
    )
    return "{:>7} {:>6} {:>13} {:>6} {:>10} {:>9}".format(*words)


def _mean(every: Sequence[Judged]) -> float:
    return statistics.fmean(one.regret for one in every)


def _worst_cell(runs: Sequence[Run]) -> float:
    return max(_mean([run[problem] for run in runs]) for problem in runs[0])


def _print_cells(recording: Recording, runs: Sequence[Run]) -> None:
    for problem, configs in recording.cells.items():
        own = [run[problem] for run in runs]
        chosen = Counter(str(one.config) for one in own).most_common(3)
        oracles = Counter(str(one.oracle) for one in own).most_common(2)
        spent = sum(one.spent_s for one in own) / sum(one.exhaustive_s for one in own)
        words = [" ".join(f"{count}x {config}" for config, count in found) for found in (chosen, oracles)]
        place = f"{problem.key.collective.value} {problem.key.n_ranks} {format_bytes(problem.message_bytes)}"
        head = f"    {place:<28} {len(configs):>3} {_mean(own):>6.1%} {spent:>5.0%}"
        print(f"{head} default {recording.default(problem)}; chosen {words[0]}; oracle {words[1]}")
