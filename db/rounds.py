"""Storing rounds: what a run does thousands of times, so it asks for nothing twice, and past the ORM. Private to db.

In:  a transaction, a session, results of one round or of many, marks of its cells. Out: the trials of the results, new
ones made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, select, update

from ..errors import StoreError
from ..types import Problem, TrialState
from .bulk import insert_samples, insert_trials, put_cells
from .models import SampleRow, SessionRow, TrialRow
from .records import CellState, RoundResult, SessionState
from .rows import (
    config_columns,
    config_digest,
    failure_columns,
    fidelity_columns,
    problem_columns,
    problem_digest,
    sample_columns,
)

# Made once: to build them would take as long as all the rest.
_STATE = select(SessionRow.state).where(SessionRow.session_id == bindparam("session_id"))

_TRIALS = select(TrialRow.problem_digest, TrialRow.config_digest, TrialRow.trial_id).where(
    TrialRow.session_id == bindparam("of_session"),
    TrialRow.problem_digest.in_(bindparam("of_problems", expanding=True)),
)

TrialKey = tuple[int, str, str]
"""Session id, problem digest, config digest: what a trial is known by."""


def state_of(connection: Connection, session_id: int) -> SessionState | None:
    """The state of a session; None where there is no such session."""
    return connection.scalar(_STATE, {"session_id": session_id})


def go_on(connection: Connection, session_id: int, shown: str) -> None:
    """Leave the session RUNNING.

    Args:
        shown: where the store is, for people.

    Raises:
        StoreError: it is finished, or not there.
    """
    state = state_of(connection, session_id)
    if state is None:
        raise no_session(session_id, shown)
    if state is SessionState.FINISHED:
        raise StoreError(
            f"session {session_id} of {shown} is finished, so nothing is added to it",
            remedy="autotune run opens a new session",
        )
    if state is not SessionState.RUNNING:
        goes_on = update(SessionRow).where(SessionRow.session_id == session_id)
        connection.execute(goes_on.values(state=SessionState.RUNNING))


def no_session(session_id: int, shown: str) -> StoreError:
    """The error for an id that no session has."""
    return StoreError(f"{shown} has no session {session_id}", remedy="autotune run opens a new session")


def mark(connection: Connection, session_id: int, marks: Mapping[Problem, CellState]) -> None:
    """Say that the session is through with problems, for the first time or again."""
    rows = [{"session_id": session_id, "state": state} | problem_columns(p) for p, state in marks.items()]
    put_cells(connection, rows)


def store_results(
    connection: Connection, session_id: int, results: Sequence[RoundResult], known: Mapping[TrialKey, int]
) -> dict[TrialKey, int]:
    """Insert the results of rounds, in their order, and return the ids of their trials.

    Args:
        known: ids of trials that an earlier round returned.

    Raises:
        IntegrityError: a sample of the same round is there already.
    """
    keys = [(session_id, problem_digest(r.problem), config_digest(r.config)) for r in results]
    ids = {key: known[key] for key in keys if key in known}
    new: dict[TrialKey, RoundResult] = {}
    for key, result in zip(keys, results, strict=True):
        if key not in ids:
            new.setdefault(key, result)  # of several rounds of a new trial, the first
    ids |= _made(connection, session_id, new)
    pairs = [(ids[key], result) for key, result in zip(keys, results, strict=True)]
    insert_samples(connection, ((trial_id, r.sample) for trial_id, r in pairs if r.sample is not None))
    for trial_id, result in pairs:
        if result.state is not TrialState.OK:
            failed = update(TrialRow).where(TrialRow.trial_id == trial_id, TrialRow.state == TrialState.OK)
            connection.execute(failed.values(failure_columns(result)))
    return {key: ids[key] for key in keys}


def has_round(connection: Connection, session_id: int, results: Sequence[RoundResult]) -> bool:
    """Whether exactly these results are stored: what a run asks that did not see its COMMIT end."""
    ids = _looked_up(connection, session_id, {problem_digest(result.problem) for result in results})
    for result in results:
        trial_id = ids.get((session_id, problem_digest(result.problem), config_digest(result.config)))
        if trial_id is None:
            return False
        if result.sample is None:
            stored = connection.scalar(select(TrialRow.state).where(TrialRow.trial_id == trial_id)) is not TrialState.OK
        else:
            wanted = sample_columns(trial_id, result.sample)
            same = [getattr(SampleRow, name) == value for name, value in wanted.items()]
            stored = connection.scalar(select(SampleRow.trial_id).where(*same)) is not None
        if not stored:
            return False
    return True


def _looked_up(connection: Connection, session_id: int, problem_digests: set[str]) -> dict[TrialKey, int]:
    found = connection.execute(_TRIALS, {"of_session": session_id, "of_problems": sorted(problem_digests)})
    return {(session_id, problem, config): trial_id for problem, config, trial_id in found}


def _made(connection: Connection, session_id: int, new: Mapping[TrialKey, RoundResult]) -> dict[TrialKey, int]:
    """Ids of trials that nobody remembers. They begin as OK, unless a run that this one continues had them already."""
    if not new:
        return {}
    rows = [
        {"session_id": session_id, "state": TrialState.OK, "message": ""}
        | problem_columns(result.problem)
        | config_columns(result.config)
        | fidelity_columns(result.fidelity)
        for result in new.values()
    ]
    # Two statements: with RETURNING, one would be made anew for every number of rows.
    insert_trials(connection, rows)
    return _looked_up(connection, session_id, {digest for _, digest, _ in new})
