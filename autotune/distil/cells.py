"""Every cell, decided once: by the newest session that got as far. Pure.

In:  trials of any sessions, all at once or cell by cell as a store gives them. Out: a `Verdict` for each problem that
could be decided. Samples of different sessions are never mixed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from ..types import Config, Problem, RuleKey, Trial
from .ranges import merged
from .verdict import Verdict, judge


def decide(
    cells: Iterable[tuple[Problem, Iterable[list[Trial]]]],
    *,
    default: Callable[[Problem], Config],
    reference: Callable[[Problem], Config | None],
) -> dict[Problem, Verdict]:
    """Decide every cell. Where neighbouring sizes chose different configs that are equals at one of them, both get the
    same one.

    Args:
        cells: problems, each once, with the trials of each session, newest first, as a store gives them. Those of
            sessions before the one that decides are not asked for, and no trial is kept: a store may be larger than
            memory.
    """
    by_key: defaultdict[RuleKey, list[Verdict]] = defaultdict(list)
    for problem, newest_first in cells:
        judged = (judge(trials, default=default(problem), reference=reference(problem)) for trials in newest_first)
        verdict = next((found for found in judged if found is not None), None)
        if verdict is not None:
            by_key[problem.key].append(verdict)
    return {verdict.problem: verdict for of_key in by_key.values() for verdict in merged(of_key)}


def verdicts(
    trials: Iterable[Trial],
    *,
    default: Callable[[Problem], Config],
    reference: Callable[[Problem], Config | None],
) -> dict[Problem, Verdict]:
    """`decide` for trials in any order, all of them in memory."""
    cells: defaultdict[Problem, defaultdict[int, list[Trial]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        cells[trial.problem][trial.session_id].append(trial)
    newest_first = (
        (problem, [by_session[session_id] for session_id in sorted(by_session, reverse=True)])
        for problem, by_session in cells.items()
    )
    return decide(newest_first, default=default, reference=reference)
