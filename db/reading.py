"""The questions that may touch many rows, as few statements as they take. Private to db.

In:  a transaction, and what to look for. Out: values of ``types`` and ``records``.

Columns are read, not mapped objects: a store of a million trials is read in a third of the time. Equal problems and
configs of one answer are the same object, which is also most of its memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from statistics import median

from sqlalchemy import ColumnElement, and_, func, or_, orm, select

from ..measure import MIN_ROUNDS
from ..types import Config, Problem, RuleKey, Sample, SampleKind, Trial, TrialState
from .models import CellRow, SampleRow, SessionRow, TrialRow
from .records import Best, CellState
from .rows import problem_digest, to_config, to_problem, to_trial

_SAMPLE = (
    SampleRow.trial_id,
    SampleRow.kind,
    SampleRow.phase,
    SampleRow.round,
    SampleRow.position,
    SampleRow.batch_calls,
    SampleRow.time_us,
)


def read_trials(db: orm.Session, *chosen: ColumnElement[bool]) -> list[Trial]:
    """The trials that all the conditions on TrialRow hold for, by id."""
    samples: dict[int, list[Sample]] = defaultdict(list)
    # Two statements: a join would repeat the trial with every sample.
    for trial_id, kind, phase, round_, position, batch_calls, time_us in db.execute(
        select(*_SAMPLE).join(TrialRow, TrialRow.trial_id == SampleRow.trial_id).where(*chosen)
    ):
        samples[trial_id].append(
            Sample(kind=kind, phase=phase, round=round_, position=position, batch_calls=batch_calls, time_us=time_us)
        )
    problems: dict[str, Problem] = {}
    configs: dict[str, Config] = {}
    found: list[Trial] = []
    for row in db.execute(select(*TrialRow.__table__.columns).where(*chosen).order_by(TrialRow.trial_id)):
        problem = problems.get(row.problem_digest) or problems.setdefault(row.problem_digest, to_problem(row))
        config = configs.get(row.config_digest) or configs.setdefault(row.config_digest, to_config(row))
        found.append(to_trial(row, problem, config, samples.pop(row.trial_id, ())))
    return found


def sessions_of_problems(db: orm.Session, session_ids: Collection[int]) -> dict[str, list[int]]:
    """Which of the sessions tried a problem, by its digest; the newest first."""
    tried = select(TrialRow.problem_digest, TrialRow.session_id).where(TrialRow.session_id.in_(session_ids)).distinct()
    found: defaultdict[str, list[int]] = defaultdict(list)
    for digest, session_id in db.execute(tried):
        found[digest].append(session_id)
    return {digest: sorted(found[digest], reverse=True) for digest in sorted(found)}


def best_of(db: orm.Session, key: RuleKey, fingerprint: str | None) -> list[Best]:
    """The fastest config of each size, by size; see ``TrialStore.best``."""
    newest = (
        select(CellRow.message_bytes, CellRow.problem_digest, func.max(CellRow.session_id))
        .where(
            CellRow.backend == key.backend,
            CellRow.collective == key.collective,
            CellRow.n_ranks == key.n_ranks,
            CellRow.state == CellState.DONE,
        )
        .group_by(CellRow.message_bytes, CellRow.problem_digest)
    )
    if fingerprint is not None:
        newest = newest.join(SessionRow).where(SessionRow.fingerprint == fingerprint)
    # The digest tells the rest of the key, so that the index need not.
    cells = [
        and_(TrialRow.session_id == session_id, TrialRow.problem_digest == digest)
        for size, digest, session_id in db.execute(newest)
        if digest == problem_digest(Problem(key=key, message_bytes=size))
    ]
    if not cells:
        return []
    by_problem: defaultdict[Problem, list[Trial]] = defaultdict(list)
    for trial in read_trials(db, or_(*cells), TrialRow.state == TrialState.OK):
        by_problem[trial.problem].append(trial)
    found = [_fastest(by_problem[problem]) for problem in sorted(by_problem, key=lambda p: p.message_bytes)]
    return [best for best in found if best is not None]


def _fastest(trials: Sequence[Trial]) -> Best | None:
    """Of the trials with nine rounds, or else of all: two rounds of luck are no record."""
    timed = [(trial, [s.time_us for s in trial.samples if s.kind is SampleKind.FRESH]) for trial in trials]
    enough = [(trial, times) for trial, times in timed if len(times) >= MIN_ROUNDS]
    ranked = [(median(times), trial.trial_id, trial, len(times)) for trial, times in enough or timed if times]
    if not ranked:
        return None
    median_us, trial_id, trial, n_samples = min(ranked, key=lambda entry: entry[:2])
    assert trial_id is not None, "it was read from the store"
    return Best(
        problem=trial.problem,
        config=trial.config,
        trial_id=trial_id,
        session_id=trial.session_id,
        n_samples=n_samples,
        median_us=median_us,
    )
