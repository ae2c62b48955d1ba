"""Every search on every recording, twice, on rounds that share nothing with those that judge it.

In:  recordings. Out: a table. The search is the product's own (`autotune.tune.tune`) with a store in memory, from
nothing but the cost model of the recorded topology; its clock is the recorded seconds.

A recording has two halves of 24 rounds. Run A races on the first nine of one and confirms on its other 15. It is judged
by the other half: the oracle is the config with the lowest median in twelve of its rounds, and both are compared on the
other twelve, in pairs. Run B has the halves the other way round. No decision gets more than 15 confirm rounds, since
there are no more. Columns:

    regret mean, worst   time of the choice over the oracle's, less one, as the median of paired log ratios
    time                 seconds of the search over those of nine rounds of every config
    agree                cells on which runs A and B chose alike; or differ by less than the noise (p >= 0.01)
    slower               cells, of both runs, in which the choice is significantly slower than the default
    regret/s             mean regret times the time share: what a search loses, for what it costs; lower is better
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.db import NewSession, open_store
from autotune.distil import verdicts
from autotune.measure import EXHAUSTIVE, NORMAL, QUICK, THOROUGH, Effort
from autotune.topology.document import from_json
from autotune.tune import Knowledge, Sampler, pricing_of, proposer_for, tune
from autotune.types import Config, Problem

from .record import HALVES
from .recorded import CONFIRM_ROUNDS, RACE_ROUNDS, RecordedBackend
from .recording import RECORDINGS, Recording, load
from .sweeps import STAGING_BYTES, Sweep, default_of

FINGERPRINT = "0" * 16
EFFORTS = {effort.name: effort for effort in (QUICK, NORMAL, THOROUGH)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One cell of one run.

    Args:
        regret: time over the oracle's, less one.
        share: of the exhaustive seconds; None where the seconds of single cells are not known.
        slower: whether the choice is significantly slower than the default.
    """

    problem: Problem
    config: Config
    oracle: Config
    regret: float
    spent_s: float
    exhaustive_s: float
    slower: bool


def replay(sweeps: Sequence[Sweep], *, samplers: Sequence[str] | None, effort: str, show_cells: bool) -> int:
    """Print the tables."""
    for sweep in sweeps:
        recording = load(RECORDINGS / f"{sweep.name}.npz")
        counts = [len(configs) for configs in recording.cells.values()]
        facts = ", ".join(f"{name} {value}" for name, value in recording.facts.items())
        print(f"\n{sweep.name}: {len(counts)} cells of {min(counts)} to {max(counts)} configs ({facts})")
        heads = ("search", "cells", "regret mean", "worst", "time", "agree", "slower", "regret x time", "own s")
        print("{:<10} {:<11} {:>11} {:>7} {:>6} {:>12} {:>6} {:>13} {:>6}".format(*heads))
        for sampler in Sampler:
            if samplers and sampler.value not in samplers:
                continue
            began_s = time.perf_counter()
            runs = [run(recording, sampler, EFFORTS[effort], half) for half in range(HALVES)]
            own_s = time.perf_counter() - began_s
            for title, least in (("all", 0), (">= 25", 25)):
                chosen = [[one for one in cells if len(recording.cells[one.problem]) >= least] for cells in runs]
                if chosen[0] and not (least and len(chosen[0]) == len(runs[0])):
                    print(_line(sampler.value, f"{title} ({len(chosen[0])})", recording, chosen, own_s))
            if show_cells:
                _print_cells(recording, runs)
    return 0


def run(recording: Recording, sampler: Sampler, effort: Effort, half: int) -> list[Judged]:
    """One search over a recording, and its judgement."""
    backend = RecordedBackend(recording, half=half)
    base = EXHAUSTIVE if sampler is Sampler.GRID else effort
    given = replace(base, most_rounds=CONFIRM_ROUNDS, steady_rounds=0)
    pricing = pricing_of(from_json(recording.topology), recording.backend, staging_bytes=STAGING_BYTES)
    spent_s: dict[Problem, float] = {}
    marks: list[tuple[Problem, float]] = []
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
            proposer_for=proposer_for(sampler),
            knowledge=Knowledge(pricing, backend.default),
            clock=backend.clock,
            progress=lambda progress: marks.append((progress.problem, backend.clock())),
            seed=half,
        )
        trials = store.trials(session_id=session.session_id)
    finally:
        store.close()
    for (problem, start_s), (_, end_s) in zip(marks, [*marks[1:], (None, backend.clock())], strict=True):
        spent_s[problem] = spent_s.get(problem, 0.0) + end_s - start_s
    decided = verdicts(trials, default=backend.default, reference=backend.reference)
    return [judged(recording, problem, verdict.config, spent_s[problem], half) for problem, verdict in decided.items()]


def judged(recording: Recording, problem: Problem, config: Config, spent_s: float, seen: int) -> Judged:
    """Judge a choice on rounds that the search has not seen."""
    configs, times = recording.cells[problem], recording.time_us[problem]
    other = times[:, 1 - seen :: HALVES]
    medians = np.median(other[:, ::2], axis=1)
    oracle = configs[int(np.nanargmin(medians))]
    against = other[:, 1::2]
    over = log_ratios(against, configs, config, oracle)
    beyond = log_ratios(against, configs, config, default_of(problem))
    return Judged(
        problem=problem,
        config=config,
        oracle=oracle,
        regret=math.exp(walsh_median(over)) - 1,
        spent_s=spent_s,
        exhaustive_s=float(np.nansum(recording.cost_s[problem][:, seen::HALVES][:, :RACE_ROUNDS])),
        slower=_significant(beyond) and walsh_median(beyond) > math.log(1.02),
    )


def log_ratios(times: npt.NDArray[np.float32], configs: Sequence[Config], one: Config, other: Config) -> list[float]:
    """The logs of one config's times over another's, round by round."""
    own, base = times[configs.index(one)], times[configs.index(other)]
    return [float(x) for x in np.log(own / base)]


def walsh_median(logs: Sequence[float]) -> float:
    """Hodges and Lehmann's estimate, as in measure.paired."""
    return statistics.median((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])


def _significant(logs: Sequence[float]) -> bool:
    from scipy import stats

    return any(logs) and float(stats.wilcoxon(logs, alternative="greater", method="exact").pvalue) < 0.01


def _line(name: str, title: str, recording: Recording, runs: Sequence[Sequence[Judged]], own_s: float) -> str:
    every = [one for cells in runs for one in cells]
    mean = statistics.fmean(one.regret for one in every)
    worst = max(one.regret for one in every)
    share = sum(one.spent_s for one in every) / sum(one.exhaustive_s for one in every)
    pairs = list(zip(*runs, strict=True))
    alike = sum(a.config == b.config for a, b in pairs)
    near = sum(a.config == b.config or not _apart(recording, a, b) for a, b in pairs)
    agree = f"{alike / len(pairs):.0%}/{near / len(pairs):.0%}"
    slower = sum(one.slower for one in every)
    return (
        f"{name:<10} {title:<11} {mean:>10.2%} {worst:>7.1%} {share:>6.1%} {agree:>12} {slower:>6}"
        f" {100 * mean * share:>13.3f} {own_s:>6.1f}"
    )


def _apart(recording: Recording, one: Judged, other: Judged) -> bool:
    """Whether two choices for a cell differ by more than noise, on all rounds."""
    logs = log_ratios(recording.time_us[one.problem], recording.cells[one.problem], one.config, other.config)
    return (_significant(logs) or _significant([-x for x in logs])) and abs(walsh_median(logs)) > math.log(1.02)


def _print_cells(recording: Recording, runs: Sequence[Sequence[Judged]]) -> None:
    for cells in zip(*runs, strict=True):
        key = cells[0].problem.key
        texts = [
            f"{one.config!s:<34} {one.regret:>6.1%} of {one.oracle!s:<30} {one.spent_s / one.exhaustive_s:>5.0%}"
            for one in cells
        ]
        n_configs = len(recording.cells[cells[0].problem])
        place = f"    {key.collective.value} {key.n_ranks} {cells[0].problem.message_bytes:>8} {n_configs:>3}"
        print(place, *texts, sep="  ")
