"""Storing rounds: what a run does thousands of times, so it asks for nothing twice, and past the ORM. Private to db.

In:  a transaction, a session, results of one round or of many, marks of its cells. Out: the trials of the results, new
ones made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select, update

from ..errors import StoreError
from ..types import Problem, Sample, TrialState
from .bulk import Row, insert_samples, insert_trials, put_cells
from .models import SampleRow, SessionRow, TrialRow
from .one_statement import store_at_once
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


def store_held(
    connection: Connection,
    session_id: int,
    results: Sequence[RoundResult],
    marks: Mapping[Problem, CellState],
    *,
    known: Mapping[TrialKey, int],
    shown: str,
) -> dict[TrialKey, int]:
    """Insert the results of rounds, in their order, and marks of cells; return the ids of the results' trials.

    The session is RUNNING afterwards. Trials that nobody remembers begin as OK, unless a run that this one continues
    had them already.

    Args:
        known: ids of trials that an earlier call returned.
        shown: where the store is, for people.

    Raises:
        IntegrityError: a sample of the same round is there already.
        StoreError: the session is finished, or not there.
    """
    keys = [(session_id, problem_digest(r.problem), config_digest(r.config)) for r in results]
    ids = {key: known[key] for key in keys if key in known}
    new: dict[TrialKey, RoundResult] = {}
    for key, result in zip(keys, results, strict=True):
        if key not in ids:
            new.setdefault(key, result)  # of several rounds of a new trial, the first
    trials = [_trial(result) for result in new.values()]
    cells = [{"state": state} | problem_columns(problem) for problem, state in marks.items()]
    samples = [(key, r.sample) for key, r in zip(keys, results, strict=True) if r.sample is not None]
    held = _Held(trials, cells, samples, ids)
    if connection.dialect.name == "sqlite":
        go_on(connection, session_id, shown)
        ids |= _row_by_row(connection, session_id, held)
    else:
        ids |= _at_once(connection, session_id, held, shown)
    for key, result in zip(keys, results, strict=True):
        if result.state is not TrialState.OK:
            failed = update(TrialRow).where(TrialRow.trial_id == ids[key], TrialRow.state == TrialState.OK)
            connection.execute(failed.values(failure_columns(result)))
    return {key: ids[key] for key in keys}


def _trial(result: RoundResult) -> dict[str, object]:
    about = problem_columns(result.problem) | config_columns(result.config) | fidelity_columns(result.fidelity)
    return {"state": TrialState.OK, "message": ""} | about


class _Held(NamedTuple):
    """New trials, marks of cells and samples, and the ids of the trials that are known."""

    trials: Sequence[Row]
    cells: Sequence[Row]
    samples: Sequence[tuple[TrialKey, Sample]]
    known: Mapping[TrialKey, int]


def _row_by_row(connection: Connection, session_id: int, held: _Held) -> dict[TrialKey, int]:
    made: dict[TrialKey, int] = {}
    if held.trials:
        # Two statements: with RETURNING, one would be made anew for every number of rows.
        insert_trials(connection, [{"session_id": session_id, **row} for row in held.trials])
        made = _looked_up(connection, session_id, {str(row["problem_digest"]) for row in held.trials})
    ids = {**held.known, **made}
    insert_samples(connection, ((ids[key], sample) for key, sample in held.samples))
    put_cells(connection, [{"session_id": session_id, **row} for row in held.cells])
    return made


def _at_once(connection: Connection, session_id: int, held: _Held, shown: str) -> dict[TrialKey, int]:
    """On a server. A session that does not run is rare, so that it is looked at only where nothing was stored."""
    named = [(held.known.get(key, key[1:]), sample) for key, sample in held.samples]
    while (made := store_at_once(connection, session_id, trials=held.trials, cells=held.cells, samples=named)) is None:
        go_on(connection, session_id, shown)
    return {(session_id, *digests): trial_id for digests, trial_id in made.items()}


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
