"""What was tried and what came of it: samples, trials, and what stands behind a rule. Plain values."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from .calls import Config, Problem


class Evidence(enum.Enum):
    """What a rule rests on."""

    MEASURED = "measured"
    SIMULATED = "simulated"
    IMPORTED = "imported"


class TrialState(enum.Enum):
    """How a trial ended. ``INVALID``: the backend refused the config. Instability is an attribute, not a state."""

    OK = "ok"
    WRONG_RESULT = "wrong_result"
    INVALID = "invalid"
    TIMEOUT = "timeout"
    CRASHED = "crashed"


class SampleKind(enum.Enum):
    """``FRESH``: inputs were rewritten before the sample; rules come from these. ``STEADY``: the same buffers again."""

    FRESH = "fresh"
    STEADY = "steady"


class Phase(enum.Enum):
    """``RACE`` rounds choose a winner; ``CONFIRM`` rounds, measured afterwards, judge it without selection bias."""

    RACE = "race"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed batch of one config: the slowest rank's time of one call.

    Args:
        round: samples of one round were taken together and are compared as pairs.
        position: place of the config inside its round (rounds are shuffled).
        batch_calls: calls that were timed together; 1 where each was timed alone.
        time_us: microseconds of one call.
    """

    kind: SampleKind
    phase: Phase
    round: int
    position: int
    batch_calls: int
    time_us: float

    def __post_init__(self) -> None:
        if not (0.0 < self.time_us < math.inf) or self.batch_calls < 1 or self.round < 0 or self.position < 0:
            raise ValueError(f"not a sample: {self.time_us} us, {self.batch_calls} calls, round {self.round}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongElement:
    """The first element that a check found wrong."""

    rank: int
    index: int
    got: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """How a config with a lossy codec came out on the data of its trial.

    Args:
        error: the norm of what its result is off from float64, over the norm of the exact result.
        density: share of the contributions' entries that are not zero once encoded.
    """

    error: float
    density: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.error < math.inf and 0.0 <= self.density <= 1.0):
            raise ValueError(f"not a fidelity: error {self.error}, density {self.density}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A config tried on a problem, with every sample; append-only once stored.

    Args:
        trial_id: given by the store; None before.
        session_id: the run that measured it.
        message: why the state is not OK; empty otherwise.
        fidelity: of a lossy config; None for the others.
    """

    trial_id: int | None
    session_id: int
    problem: Problem
    config: Config
    state: TrialState
    samples: tuple[Sample, ...] = ()
    message: str = ""
    wrong: WrongElement | None = None
    fidelity: Fidelity | None = None
