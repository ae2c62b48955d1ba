"""Every search on every recording, twice, on rounds that share nothing with those that judge it.

In:  recordings. Out: tables. The search is the product's own (`autotune.tune.tune`) with a store in memory, from
nothing but the cost model of the recorded topology; its clock is the recorded seconds.

A recording has two halves of 24 rounds. Run A races on the first nine of one and confirms on its other 15; the other
half judges it (`judging`). Run B has the halves the other way round. No decision gets more than 15 confirm rounds,
since there are no more, and no steady rounds, since none were recorded. Columns:

    regret mean, worst   time of the choice over the oracle's, less one; after "worst" what of it is no noise (99 %)
    time                 seconds of the search over those of nine rounds of every config
    agree                cells on which runs A and B chose alike / or differ by less than the noise
    slower               cells, of both runs, in which the choice is significantly slower than the default

`budgets` gives every search the same recorded seconds, as shares of the exhaustive ones, and lets it use them as it
likes: as many configs enter as the time allows. A cell that the time did not reach keeps the default.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.db import NewSession, open_store
from autotune.distil import verdicts
from autotune.measure import EXHAUSTIVE, NORMAL, QUICK, THOROUGH, Effort
from autotune.topology.document import from_json
from autotune.tune import Knowledge, Sampler, pricing_of, proposer_for, tune
from autotune.types import Config, Problem

from .judging import Judged, apart, judged
from .recorded import CONFIRM_ROUNDS, RecordedBackend, exhaustive_s
from .recording import HALVES, RECORDINGS, Recording, load
from .sweeps import STAGING_BYTES, Sweep, default_of

FINGERPRINT = "0" * 16
EFFORTS = {effort.name: effort for effort in (QUICK, NORMAL, THOROUGH)}
GROUPS = (("all", 0, 1000), ("25-50", 25, 50), ("over 80", 80, 1000))
"""Cells by their number of configs; the issue of cost is one of cells with many."""
SHARES = (0.05, 0.1, 0.2)


def replay(sweeps: Sequence[Sweep], *, samplers: Sequence[str] | None, effort: str, show_cells: bool) -> int:
    """Print a table for each recording: every search as it ends by itself."""
    for sweep in sweeps:
        recording = load(RECORDINGS / f"{sweep.name}.npz")
        _print_head(recording)
        heads = ("search", "cells", "regret mean", "worst", "sure", "time", "agree", "slower", "own s")
        print("{:<10} {:<13} {:>11} {:>7} {:>6} {:>6} {:>10} {:>6} {:>6}".format(*heads))
        for sampler in _chosen(samplers):
            began_s = time.perf_counter()
            runs = [run(recording, sampler, EFFORTS[effort], half) for half in range(HALVES)]
            own_s = time.perf_counter() - began_s
            for title, least, most in GROUPS:
                chosen = [[one for one in run if least <= len(recording.cells[one.problem]) <= most] for run in runs]
                if chosen[0] and not (least and len(chosen[0]) == len(runs[0])):
                    print(_line(sampler.value, f"{title} ({len(chosen[0])})", recording, chosen, own_s))
            if show_cells:
                _print_cells(recording, runs)
    return 0


def budgets(sweeps: Sequence[Sweep], *, samplers: Sequence[str] | None) -> int:
    """Print a table for each recording: mean and worst regret of every search for the same recorded seconds."""
    for sweep in sweeps:
        recording = load(RECORDINGS / f"{sweep.name}.npz")
        _print_head(recording)
        print(f"{'search':<10}", *(f"{f'{share:.0%} of the time':>26}" for share in SHARES))
        for sampler in _chosen(samplers):
            if sampler is Sampler.GRID:
                continue
            print(f"{sampler.value:<10}", *(f"{_at_budget(recording, sampler, share):>26}" for share in SHARES))
    return 0


def _at_budget(recording: Recording, sampler: Sampler, share: float) -> str:
    unlimited = replace(NORMAL, entrants=None)
    cells: list[Judged] = []
    for half in range(HALVES):
        budget_s = share * sum(exhaustive_s(recording, problem, half) for problem in recording.cells)
        cells += run(recording, sampler, unlimited, half, budget_s=budget_s)
    spent = sum(one.spent_s for one in cells) / sum(one.exhaustive_s for one in cells)
    mean = statistics.fmean(one.regret for one in cells)
    return f"{mean:.2%}, worst {max(one.regret for one in cells):.0%} ({spent:.1%})"


def run(
    recording: Recording, sampler: Sampler, effort: Effort, half: int, *, budget_s: float | None = None
) -> list[Judged]:
    """One search over a recording, and its judgement."""
    backend = RecordedBackend(recording, half=half)
    base = EXHAUSTIVE if sampler is Sampler.GRID else effort
    given = replace(base, most_rounds=CONFIRM_ROUNDS, steady_rounds=0)
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
    return [
        judged(
            recording,
            problem,
            choices.get(problem, default_of(problem)),
            spent_s=backend.spent_s[problem],
            seen=half,
        )
        for problem in recording.cells
    ]


def _chosen(samplers: Sequence[str] | None) -> list[Sampler]:
    return [sampler for sampler in Sampler if not samplers or sampler.value in samplers]


def _print_head(recording: Recording) -> None:
    counts = [len(configs) for configs in recording.cells.values()]
    facts = ", ".join(f"{name} {value}" for name, value in recording.facts.items())
    print(f"\n{recording.name}: {len(counts)} cells of {min(counts)} to {max(counts)} configs ({facts})")


def _line(name: str, title: str, recording: Recording, runs: Sequence[Sequence[Judged]], own_s: float) -> str:
    every = [one for cells in runs for one in cells]
    mean = statistics.fmean(one.regret for one in every)
    worst = max(every, key=lambda one: one.regret)
    share = sum(one.spent_s for one in every) / sum(one.exhaustive_s for one in every)
    pairs = list(zip(*runs, strict=True))
    alike = sum(a.config == b.config for a, b in pairs)
    near = sum(a.config == b.config or not apart(recording, a, b) for a, b in pairs)
    agree = f"{alike / len(pairs):.0%}/{near / len(pairs):.0%}"
    slower = sum(one.slower for one in every)
    sure = max(0.0, max(one.low for one in every))
    return (
        f"{name:<10} {title:<13} {mean:>10.2%} {worst.regret:>7.1%} {sure:>6.1%} {share:>6.1%} {agree:>10} {slower:>6}"
        f" {own_s:>6.1f}"
    )


def _print_cells(recording: Recording, runs: Sequence[Sequence[Judged]]) -> None:
    for cells in zip(*runs, strict=True):
        key = cells[0].problem.key
        texts = [
            f"{one.config!s:<32} {one.regret:>6.1%} ({one.low:>6.1%}) of {one.oracle!s:<30}"
            f" {one.spent_s / one.exhaustive_s:>5.0%}"
            for one in cells
        ]
        n_configs = len(recording.cells[cells[0].problem])
        place = f"    {key.collective.value} {key.n_ranks} {cells[0].problem.message_bytes:>8} {n_configs:>3}"
        print(place, *texts, sep="  ")
