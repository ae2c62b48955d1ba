"""The questions that may touch many rows, as few statements as they take. Private to db.

In:  a transaction, and what to look for. Out: values of ``types`` and ``records``.

Columns are read, not mapped objects: a store of a million trials is read in a third of the time. Equal problems and
configs of one answer are the same object, which is also most of its memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
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
_TRIAL = tuple(TrialRow.__table__.columns)


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
    for row in db.execute(select(*_TRIAL).where(*chosen).order_by(TrialRow.trial_id)):
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
    # Times alone: to make a trial and a sample of each row would take longer than all the rest.
    timed = (
        select(TrialRow.problem_digest, SampleRow.trial_id, SampleRow.time_us)
        .join(TrialRow, TrialRow.trial_id == SampleRow.trial_id)
        .where(or_(*cells), TrialRow.state == TrialState.OK, SampleRow.kind == SampleKind.FRESH)
    )
    times: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for digest, trial_id, time_us in db.execute(timed):
        times[digest][trial_id].append(time_us)
    fastest = dict(map(_fastest, times.values()))
    rows = db.execute(select(*_TRIAL).where(TrialRow.trial_id.in_(fastest)).order_by(TrialRow.message_bytes))
    return [
        Best(
            problem=to_problem(row),
            config=to_config(row),
            trial_id=row.trial_id,
            session_id=row.session_id,
            n_samples=len(fastest[row.trial_id]),
            median_us=median(fastest[row.trial_id]),
        )
        for row in rows
    ]


def _fastest(times: Mapping[int, Sequence[float]]) -> tuple[int, Sequence[float]]:
    """Of the trials with nine rounds, or else of all: two rounds of luck are no record. Its id and its times."""
    enough = {trial_id: of_one for trial_id, of_one in times.items() if len(of_one) >= MIN_ROUNDS}
    return min((enough or times).items(), key=lambda entry: (median(entry[1]), entry[0]))
