"""What a run says at its end: the heat map, what failed, what is missing, where the table is, what to do next. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..distil import Verdict
from ..types import Memory, Problem, RuleKey, Trial
from ..units import format_bytes, format_duration
from .figures import (
    comparison_fields,
    config_fields,
    group_text,
    interval_fields,
    kind_text,
    problem_fields,
    problem_text,
)
from .grid import grid, listing
from .heat_map import heat_map

_MOST_FAILURES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run leaves behind, in plain values.

    Args:
        sizes: message_bytes as planned.
        keys: what was to be measured, rank counts included.
        verdicts: by cell, as far as decided.
        failed: cells on which no decision was possible.
        not_measured: cells that the time did not reach.
        failures: trials that ended in another state than OK.
        table: its file; None where nothing was decided.
    """

    fingerprint: str
    session_id: int
    resumed: bool
    interrupted: bool
    elapsed_s: float
    database: str
    table: str | None
    table_digest: str
    sizes: Sequence[int]
    keys: Sequence[RuleKey]
    verdicts: Mapping[Problem, Verdict]
    failed: Sequence[Problem]
    not_measured: Sequence[Problem]
    failures: Sequence[Trial]


def outcome_view(outcome: Outcome, width: int) -> RenderableType:
    """As text for a terminal of so many columns."""
    parts: list[RenderableType] = []
    if outcome.verdicts:
        failed = set(outcome.failed)
        parts += [
            heat_map(outcome.verdicts, keys=outcome.keys, sizes=outcome.sizes, failed=failed, width=width),
            Text(),
        ]
    if outcome.failures:
        parts += [_failures(outcome.failures), Text()]
    if outcome.failed:
        parts += [_cells("no decision possible, since the default gave no right answer", outcome.failed), Text()]
    if outcome.not_measured:
        parts += [_cells("not measured", outcome.not_measured), Text()]
    better = sum(not verdict.is_default for verdict in outcome.verdicts.values())
    decided = f"{_count(len(outcome.verdicts), 'cell')} decided, {better} better than the default"
    session = f"session {outcome.session_id}{', continued' if outcome.resumed else ''}"
    facts = [("trials", f"{outcome.database}, {session}, {format_duration(outcome.elapsed_s)}")]
    if outcome.table is not None:
        facts.append(("table", f"{outcome.table} ({decided})"))
    facts.append(("next", _next_step(outcome)))
    return Group(*parts, listing(facts))


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """As JSON."""
    return {
        "fingerprint": outcome.fingerprint,
        "session_id": outcome.session_id,
        "resumed": outcome.resumed,
        "interrupted": outcome.interrupted,
        "elapsed_s": outcome.elapsed_s,
        "database": outcome.database,
        "table": outcome.table,
        "table_digest": outcome.table_digest,
        "cells": [_cell_fields(verdict) for verdict in outcome.verdicts.values()],
        "cells_failed": [problem_fields(problem) for problem in outcome.failed],
        "cells_not_measured": [problem_fields(problem) for problem in outcome.not_measured],
        "failures": [_failure_fields(trial) for trial in outcome.failures],
    }


def _next_step(outcome: Outcome) -> str:
    if outcome.interrupted:
        return "the same command goes on where this one stopped"
    if outcome.not_measured:
        return "the same command goes on with the cells not measured; a longer --budget takes it further"
    if not outcome.verdicts:
        return "autotune doctor says what on this host may be wrong"
    problem = max(outcome.verdicts.values(), key=_gain).problem
    ranks = "+".join(map(str, problem.key.placement))
    call = f"{problem.key.collective.value} {format_bytes(problem.message_bytes)} --ranks {ranks}"
    if problem.key.dtype is not None:
        call += f" --dtype {problem.key.dtype.value}"
    if problem.key.memory is not Memory.PRIVATE:
        call += f" --memory {problem.key.memory.value}"
    if problem.key.max_error is not None:
        call += f" --max-error {problem.key.max_error:g}"
    return f"call autotune.select() in the job, which finds this table; ask why with: autotune explain {call}"


def _gain(verdict: Verdict) -> float:
    return 1.0 if verdict.is_default or verdict.gain is None else verdict.gain.median


def _failures(trials: Sequence[Trial]) -> RenderableType:
    """The first of them, where there are many."""
    rows = [
        (str(trial.trial_id), trial.state.value, problem_text(trial.problem), str(trial.config), trial.message)
        for trial in trials[:_MOST_FAILURES]
    ]
    states = Counter(trial.state.value for trial in trials)
    title = f"{_count(len(trials), 'failed trial')}: " + ", ".join(
        f"{count} {state}" for state, count in states.items()
    )
    table = grid((">trial", "state", "call", "config", "message"), rows, folds={"message": 20})
    more = [Text(f"and {len(trials) - _MOST_FAILURES} more; --json lists all")] if len(trials) > _MOST_FAILURES else []
    return Group(Text(title, style="bold red"), table, *more)


def _cells(title: str, problems: Sequence[Problem]) -> RenderableType:
    """Cells by collective and rank count."""
    sizes: dict[str, list[str]] = {}
    for problem in problems:
        kind = f"  {kind_text(problem.key)}, {group_text(problem.key)}"
        sizes.setdefault(kind, []).append(format_bytes(problem.message_bytes))
    rows = [(kind, ", ".join(of_kind)) for kind, of_kind in sizes.items()]
    return Group(Text(f"{title}: {_count(len(problems), 'cell')}", style="bold yellow"), listing(rows))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _cell_fields(verdict: Verdict) -> dict[str, Any]:
    return {
        **problem_fields(verdict.problem),
        "config": config_fields(verdict.config),
        "is_default": verdict.is_default,
        "n_rounds": verdict.time_us.n_values,
        **interval_fields(verdict.time_us),
        **comparison_fields("gain", None if verdict.is_default else verdict.gain),
        **comparison_fields("ring_gain", verdict.reference_gain),
        "trial_ids": list(verdict.trial_ids),
    }


def _failure_fields(trial: Trial) -> dict[str, Any]:
    return {
        "trial_id": trial.trial_id,
        **problem_fields(trial.problem),
        "config": config_fields(trial.config),
        "state": trial.state.value,
        "message": trial.message,
    }
