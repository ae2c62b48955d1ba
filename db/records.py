"""What goes into the store and comes out of it, beside the vocabulary of ``types``. Standard library only.

Plain values: they know neither tables nor SQL. Times are ISO 8601 in UTC, given by the store.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from ..types import Config, Fidelity, Problem, Sample, TrialState, WrongElement


class SessionState(enum.Enum):
    """``RUNNING`` is also what a killed run leaves behind; ``INTERRUPTED`` says that it was stopped in order."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


class CellState(enum.Enum):
    """Why a session is through with a problem: it has its rounds, or no config gave a right answer."""

    DONE = "done"
    FAILED = "failed"


def environment_digest(environment: Mapping[str, str]) -> str:
    """16 hexadecimal digits over names and values, whatever their order: equal environments, equal digests."""
    return hashlib.sha256(json.dumps(sorted(environment.items())).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A tuning run that is about to start.

    Args:
        plan_digest: digest of the plan, by which the same command finds its session again.
        plan_text: the plan as the user wrote it.
        fingerprint: of a topology that the store already has.
        environment: versions and settings that may change the figures, by name.
        command: the command line, for people.
    """

    plan_digest: str
    plan_text: str
    fingerprint: str
    environment: Mapping[str, str]
    backend: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A tuning run as stored; the fields of NewSession mean the same here.

    Args:
        schema_version: the store's schema when the session was opened.
        finished_at: None until the session is finished.
    """

    session_id: int
    state: SessionState
    plan_digest: str
    plan_text: str
    fingerprint: str
    environment: Mapping[str, str]
    backend: str
    command: str
    schema_version: int
    created_at: str
    finished_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """What one config did in one round: it was timed, or it failed.

    Args:
        sample: the timing; None exactly where the state is not OK.
        message: why the state is not OK; empty exactly where it is.
        wrong: the first wrong element of a WRONG_RESULT, where it is known.
        fidelity: of a lossy config that was timed; kept from its first round.
    """

    problem: Problem
    config: Config
    sample: Sample | None = None
    state: TrialState = TrialState.OK
    message: str = ""
    wrong: WrongElement | None = None
    fidelity: Fidelity | None = None

    def __post_init__(self) -> None:
        ok = self.state is TrialState.OK
        if (self.sample is not None) != ok or (self.message == "") != ok:
            raise ValueError(f"{self.config}: OK has a sample and no message, any other state a message and no sample")
        if self.wrong is not None and self.state is not TrialState.WRONG_RESULT:
            raise ValueError(f"{self.config}: a wrong element belongs to WRONG_RESULT, not to {self.state.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """One version of a tuning table, without its text.

    Args:
        version: counts all tables of this store upwards; never used again.
        session_id: the run it was distilled from; None for a table from elsewhere.
        backend: whose decisions it holds; None where an old store did not say, and its text cannot be read.
        digest: of the table's decisions.
    """

    version: int
    session_id: int | None
    fingerprint: str
    backend: str | None
    digest: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable(TableInfo):
    """One version of a tuning table.

    Args:
        table_json: the table file's text, byte for byte.
    """

    table_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMachine:
    """A machine with runs or tables in the store.

    Args:
        description: what add_topology was last given; None where it never was.
        last_session_at: when its newest run began; None without runs.
        tables: the newest of each backend, by backend.
    """

    fingerprint: str
    description: str | None
    n_sessions: int
    last_session_at: str | None
    tables: tuple[TableInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The fastest config that one session found for a problem; a record, and no proof that it beats the default.

    Args:
        n_samples: fresh ones, of all phases.
        median_us: over these.
    """

    problem: Problem
    config: Config
    trial_id: int
    session_id: int
    n_samples: int
    median_us: float
