"""Values to columns and back, and the digests by which the store knows equal problems and configs. Private to db.

The digests are part of the schema: whoever changes how they are made writes a migration that makes them anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Row

from ..types import Config, Fidelity, KnobValue, Phase, Problem, RuleKey, Sample, SampleKind, Trial, WrongElement
from .models import CellRow, SessionRow, TrialRow
from .records import RoundResult, Session

_PHASES = {phase: place for place, phase in enumerate(Phase)}
_KINDS = {kind: place for place, kind in enumerate(SampleKind)}


def storable(text: str) -> str:
    """The text with U+FFFD for what a database refuses: NUL, and lone surrogates from undecodable bytes."""
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@lru_cache(maxsize=4096)  # a run asks for the same one in every round
def problem_digest(problem: Problem) -> str:
    """32 hexadecimal digits; equal exactly for equal problems."""
    key = problem.key
    return _digest(
        key.backend,
        key.collective.value,
        key.dtype and key.dtype.value,
        key.op_class and key.op_class.value,
        key.n_ranks,
        key.placement,
        key.memory.value,
        None if key.max_error is None else float(key.max_error),
        problem.message_bytes,
    )


@lru_cache(maxsize=4096)
def config_digest(config: Config) -> str:
    """32 hexadecimal digits; equal exactly for equal configs."""
    return _digest(config.algorithm, config.segment_bytes, config.codec, config.knobs)


def _digest(*fields: object) -> str:
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()[:32]


def problem_columns(problem: Problem) -> dict[str, object]:
    """ProblemColumns for an insert."""
    key = problem.key
    return {
        "problem_digest": problem_digest(problem),
        "backend": key.backend,
        "collective": key.collective,
        "dtype": key.dtype,
        "op_class": key.op_class,
        "message_bytes": problem.message_bytes,
        "n_ranks": key.n_ranks,
        "placement": list(key.placement),
        "memory": key.memory,
        "max_error": key.max_error,
    }


def config_columns(config: Config) -> dict[str, object]:
    """The config's part of a trial, for an insert."""
    knobs: dict[str, KnobValue] = dict(config.knobs)
    return {
        "config_digest": config_digest(config),
        "algorithm": config.algorithm,
        "segment_bytes": config.segment_bytes,
        "codec": config.codec,
        "knobs": knobs,
    }


def fidelity_columns(fidelity: Fidelity | None) -> dict[str, object]:
    """The fidelity's part of a trial, for an insert."""
    return {"error": fidelity and fidelity.error, "density": fidelity and fidelity.density}


def failure_columns(result: RoundResult) -> dict[str, object]:
    """What a failure changes in its trial."""
    wrong = result.wrong
    return {
        "state": result.state,
        "message": storable(result.message),
        "wrong_rank": wrong and wrong.rank,
        "wrong_index": wrong and wrong.index,
        "wrong_got": wrong and storable(wrong.got),
        "wrong_expected": wrong and storable(wrong.expected),
    }


def sample_columns(trial_id: int, sample: Sample) -> dict[str, object]:
    """The columns of a SampleRow."""
    return {
        "trial_id": trial_id,
        "phase": sample.phase,
        "kind": sample.kind,
        "round": sample.round,
        "position": sample.position,
        "batch_calls": sample.batch_calls,
        "time_us": sample.time_us,
    }


def to_problem(row: TrialRow | CellRow | Row[Any]) -> Problem:
    """The problem of a trial or cell, or of their columns."""
    key = RuleKey(
        backend=row.backend,
        collective=row.collective,
        dtype=row.dtype,
        op_class=row.op_class,
        n_ranks=row.n_ranks,
        placement=tuple(row.placement),
        memory=row.memory,
        max_error=row.max_error,
    )
    return Problem(key=key, message_bytes=row.message_bytes)


def to_config(row: TrialRow | Row[Any]) -> Config:
    """The config of a trial, or of its columns."""
    return Config(
        algorithm=row.algorithm,
        segment_bytes=row.segment_bytes,
        codec=row.codec,
        knobs=tuple(sorted(row.knobs.items())),
    )


def to_trial(row: TrialRow | Row[Any], problem: Problem, config: Config, samples: Sequence[Sample]) -> Trial:
    """A trial with its samples, put in order: RACE before CONFIRM, by round, FRESH before STEADY."""
    return Trial(
        trial_id=row.trial_id,
        session_id=row.session_id,
        problem=problem,
        config=config,
        state=row.state,
        samples=tuple(sorted(samples, key=lambda sample: (_PHASES[sample.phase], sample.round, _KINDS[sample.kind]))),
        message=row.message,
        wrong=_to_wrong(row),
        fidelity=None if row.error is None or row.density is None else Fidelity(error=row.error, density=row.density),
    )


def _to_wrong(row: TrialRow | Row[Any]) -> WrongElement | None:
    if row.wrong_rank is None or row.wrong_index is None or row.wrong_got is None or row.wrong_expected is None:
        return None
    return WrongElement(rank=row.wrong_rank, index=row.wrong_index, got=row.wrong_got, expected=row.wrong_expected)


def to_session(row: SessionRow) -> Session:
    """A session without its trials."""
    return Session(
        session_id=row.session_id,
        state=row.state,
        plan_digest=row.plan_digest,
        plan_text=row.plan_text,
        fingerprint=row.fingerprint,
        environment=dict(row.environment),
        backend=row.backend,
        command=row.command,
        schema_version=row.schema_version,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )
