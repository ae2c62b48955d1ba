"""Decisions in words: the card of a cell, what was kept and why, what failed, the summary. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...measure import busbw_gb_per_s
from ...table import Rule
from ...types import Memory, Problem, Trial, TrialState
from ...units import format_bytes, format_us
from ..explanation import Candidate
from ..figures import (
    UNKNOWN,
    comparison_text,
    config_text,
    gain_text,
    kind_text,
    problem_text,
    range_text,
    ranks_text,
    sizes_text,
    times_text,
)
from .cells import Cell, Kind

_RUNNERS = 5
_FAILURES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One line of a card: a config that was tried, and how it did against the chosen one."""

    config: str
    time: str
    against: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a cell says when it is looked at.

    Args:
        facts: names with their values.
        runners: the chosen config, then the next best.
        command: that shows all of the evidence.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    runners: tuple[Runner, ...]
    why: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Sizes of one rank count at which the default stayed for one reason."""

    ranks: str
    sizes: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A trial that gave no time."""

    number: str
    state: str
    call: str
    config: str
    message: str


def card(cell: Cell) -> Card:
    """Of a cell with a rule, or with a failure."""
    title = problem_text(cell.problem)
    if cell.rule is None:
        assert cell.failure is not None, "a cell has a rule or a failure"
        why = f"{cell.failure.config}: {cell.failure.state.value}: {cell.failure.message}"
        return Card(title=title, facts=(), runners=(), why=f"No decision was possible. {why}", command="")
    rule, candidates = cell.rule, () if cell.proof is None else cell.proof.candidates
    return Card(
        title=title,
        facts=tuple(_facts(cell, rule)),
        runners=tuple(_runner(candidate, cell.message_bytes) for candidate in candidates[: 1 + _RUNNERS]),
        why=_why(cell) or _evidence(rule),
        command=explain_command(cell.problem),
    )


def _facts(cell: Cell, rule: Rule) -> Iterator[tuple[str, str]]:
    key = cell.key
    yield "config", config_text(rule.config, cell.message_bytes)
    yield "time", f"{format_us(rule.median_us)} us {times_text(rule.low_us, rule.high_us)}"
    busbw = busbw_gb_per_s(key.collective, key.n_ranks, cell.message_bytes, rule.median_us)
    yield "busbw", f"{busbw:.3g} GB/s"
    if rule.is_default:
        yield "gain", "none: the default stays"
    elif rule.gain is not None:
        yield "gain", f"{gain_text(rule.gain)} {range_text(rule.gain_low, rule.gain_high)} over the default"
    if rule.ring_gain is not None:
        yield "over ring", gain_text(rule.ring_gain)
    yield "sizes", sizes_text(rule)
    yield "evidence", f"{rule.evidence.value}, {rule.n_rounds} rounds"


def _runner(candidate: Candidate, message_bytes: int) -> Runner:
    time_us, state = candidate.time_us, candidate.trial.state
    if state is not TrialState.OK:
        against = state.value.replace("_", " ")
    elif "chosen" in candidate.roles:
        against = "chosen"
    else:
        against = UNKNOWN if candidate.slower is None else comparison_text(candidate.slower)
    return Runner(
        config=config_text(candidate.trial.config, message_bytes),
        time=UNKNOWN if time_us is None else f"{format_us(time_us.median)} {times_text(time_us.low, time_us.high)}",
        against=against,
        role=", ".join(role for role in candidate.roles if role != "chosen"),
    )


def _why(cell: Cell) -> str:
    """The reason without the test, which the page says once."""
    return "" if cell.proof is None else cell.proof.why_default.partition(". The test:")[0]


def _evidence(rule: Rule) -> str:
    return f"The trials behind this {rule.evidence.value} rule are not at hand."


def explain_command(problem: Problem) -> str:
    """What shows all of the evidence."""
    key = problem.key
    words = ["autotune explain", key.collective.value, format_bytes(problem.message_bytes), f"--ranks {key.n_ranks}"]
    if key.dtype is not None:
        words.append(f"--dtype {key.dtype.value}")
    if key.memory is not Memory.PRIVATE:
        words.append(f"--memory {key.memory.value}")
    if key.max_error is not None:
        words.append(f"--max-error {key.max_error:g}")
    if key.backend != "native":
        words.append(f"--backend {key.backend}")
    return " ".join(words)


def kept(kind: Kind) -> tuple[Kept, ...]:
    """Why the default stayed, for each rank count and reason."""
    found: list[Kept] = []
    for column in kind.columns:
        reasons: dict[str, list[str]] = {}
        for cell in column.cells:
            if cell.rule is not None and cell.rule.is_default:
                reasons.setdefault(_why(cell) or _evidence(cell.rule), []).append(format_bytes(cell.message_bytes))
        ranks = ranks_text(column.key.n_ranks)
        found += [Kept(ranks=ranks, sizes=", ".join(sizes), why=why) for why, sizes in reasons.items()]
    return tuple(found)


def failures(trials: Iterable[Trial]) -> tuple[tuple[Failed, ...], str]:
    """The first trials that failed, and how many there are of each state; empty words for none.

    A lossy config that was off by more than the budget is no failure: finding that out is what it was tried for.
    """
    found = [t for t in trials if t.state is not TrialState.OK and not _over_budget(t)]
    counts = Counter(trial.state.value.replace("_", " ") for trial in found)
    rows = tuple(
        Failed(
            number=UNKNOWN if trial.trial_id is None else str(trial.trial_id),
            state=trial.state.value.replace("_", " "),
            call=problem_text(trial.problem),
            config=str(trial.config),
            message=trial.message,
        )
        for trial in found[:_FAILURES]
    )
    return rows, ", ".join(f"{count} {state}" for state, count in counts.items())


def _over_budget(trial: Trial) -> bool:
    lossy = trial.problem.key.max_error is not None and trial.config.codec != "none"
    return lossy and trial.state is TrialState.INVALID


def summary(kinds: Sequence[Kind]) -> tuple[tuple[str, str], ...]:
    """Figures and what they count, the first being the most important."""
    cells = [cell for kind in kinds for column in kind.columns for cell in column.cells if cell.rule is not None]
    if not cells:
        return ()
    gains = [(_gain(cell), cell) for cell in cells]
    better = sum(gain > 1.0 for gain, _ in gains)
    best, where = max(gains, key=lambda pair: pair[0])
    mean = math.exp(sum(math.log(gain) for gain, _ in gains) / len(gains))
    found = [
        (f"{better} of {len(cells)}", "cells are faster than the default, significantly"),
        (gain_text(mean), "geometric mean of the gain, kept defaults counted as 1"),
    ]
    if better:
        found.append((gain_text(best), f"largest gain: {problem_text(where.problem)}"))
    rings = [cell.rule.ring_gain for cell in cells if cell.rule is not None and cell.rule.ring_gain is not None]
    if rings:
        over_ring = math.exp(sum(math.log(gain) for gain in rings) / len(rings))
        found.append((gain_text(over_ring), "geometric mean over ring/64KiB"))
    return tuple(found)


def _gain(cell: Cell) -> float:
    return 1.0 if cell.rule is None or cell.rule.gain is None else cell.rule.gain


def kind_title(kind: Kind) -> str:
    """``all_reduce float32 sum``."""
    return kind_text(kind.key)
