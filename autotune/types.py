"""The vocabulary: plain frozen values that every room shares. Standard library only; no behaviour beyond invariants.

Units are in the names. Unknown is None. Past the CLI and the parsers, words are enums.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

_NAME_LIMIT = 64


class Collective(enum.Enum):
    """What a call does to the buffers of a group; the names are those of nccl-tests."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SCATTER = "scatter"
    GATHER = "gather"
    ALL_TO_ALL = "all_to_all"

    @property
    def computes(self) -> bool:
        """Whether elements are combined, so that the element type decides speed and legality."""
        return self in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)

    @property
    def has_root(self) -> bool:
        return self in (Collective.BROADCAST, Collective.REDUCE, Collective.SCATTER, Collective.GATHER)

    @property
    def splits_by_rank(self) -> bool:
        """Whether message_bytes holds one part for each rank (and so is a multiple of n_ranks elements)."""
        return self not in (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE)


class DType(enum.Enum):
    """Element types of the native executor."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    UINT8 = "uint8"
    INT32 = "int32"
    INT64 = "int64"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]


_ITEMSIZE = {
    DType.FLOAT32: 4,
    DType.FLOAT64: 8,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.INT8: 1,
    DType.UINT8: 1,
    DType.INT32: 4,
    DType.INT64: 8,
}


class ReduceOp(enum.Enum):
    """How elements are combined. Integers wrap; ``avg`` of integers is the wrapped sum, divided towards zero."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    AVG = "avg"

    @property
    def op_class(self) -> OpClass:
        return _OP_CLASS[self]


class OpClass(enum.Enum):
    """Operations that cost the same and so share rules."""

    SUM = "sum"
    MINMAX = "minmax"
    PROD = "prod"


_OP_CLASS = {
    ReduceOp.SUM: OpClass.SUM,
    ReduceOp.AVG: OpClass.SUM,
    ReduceOp.MAX: OpClass.MINMAX,
    ReduceOp.MIN: OpClass.MINMAX,
    ReduceOp.PROD: OpClass.PROD,
}


class Memory(enum.Enum):
    """Where the user's buffers live: anywhere, or in the segment that all ranks share."""

    PRIVATE = "private"
    SYMMETRIC = "symmetric"


class Spread(enum.Enum):
    """How ranks lie over hosts, as far as an unmeasured choice goes by it.

    Of several hosts, ``ONE_EACH`` has one rank on each, and ``SHARED`` several on some; ``EVEN`` is the part of
    ``SHARED`` with as many on each.
    """

    ONE_HOST = "one_host"
    ONE_EACH = "one_each"
    SHARED = "shared"
    EVEN = "even"

    @classmethod
    def of(cls, placement: tuple[int, ...]) -> tuple[Spread, ...]:
        """What a placement is (ranks on each host, ascending), the narrowest first."""
        if len(placement) == 1:
            return (cls.ONE_HOST,)
        if placement[-1] == 1:
            return (cls.ONE_EACH,)
        return (cls.EVEN, cls.SHARED) if placement[0] == placement[-1] else (cls.SHARED,)


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


KnobValue = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How a collective is carried out: the value that is tuned.

    Args:
        algorithm: a name of the backend's registry, such as ``"ring"``.
        segment_bytes: the most that one message carries; None where the backend has no such knob.
        codec: what goes over the wire; ``"none"`` is lossless.
        knobs: further settings of the backend, sorted by name.
    """

    algorithm: str
    segment_bytes: int | None = None
    codec: str = "none"
    knobs: tuple[tuple[str, KnobValue], ...] = ()

    def __post_init__(self) -> None:
        if not self.algorithm or len(self.algorithm) > _NAME_LIMIT:
            raise ValueError(f"algorithm {self.algorithm!r} is not a name of 1 to {_NAME_LIMIT} characters")
        if self.segment_bytes is not None and self.segment_bytes < 1:
            raise ValueError(f"segment_bytes {self.segment_bytes} is below 1")
        if list(self.knobs) != sorted(set(dict(self.knobs).items())):
            raise ValueError(f"knobs {self.knobs} are not sorted by unique names")

    def __str__(self) -> str:
        """As shown to people and in errors: ``ring/64KiB``, ``direct/256KiB/outbox_store=dual``."""
        from .units import format_bytes

        parts = [self.algorithm]
        if self.segment_bytes is not None:
            parts.append(format_bytes(self.segment_bytes))
        if self.codec != "none":
            parts.append(self.codec)
        parts += [f"{name}={value}" for name, value in self.knobs]
        return "/".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKey:
    """What a list of size rules belongs to: a problem without its size, under a backend.

    Args:
        backend: ``"native"``, ``"torch"``, ``"hccl"``, ``"openmpi"`` ...
        dtype: None where the collective only moves bytes.
        op_class: None where the collective only moves bytes.
        placement: ranks on each host, sorted ascending; its sum is n_ranks.
        max_error: None for lossless; else the allowed error relative to the norm.
    """

    backend: str
    collective: Collective
    dtype: DType | None
    op_class: OpClass | None
    n_ranks: int
    placement: tuple[int, ...]
    memory: Memory = Memory.PRIVATE
    max_error: float | None = None

    def __post_init__(self) -> None:
        if (self.dtype is None) == self.collective.computes or (self.op_class is None) == self.collective.computes:
            raise ValueError(
                f"{self.collective.value}: dtype and op_class are given exactly where elements are combined"
            )
        if min((self.n_ranks, *self.placement)) < 1 or sum(self.placement) != self.n_ranks:
            raise ValueError(f"placement {self.placement} is not a split of {self.n_ranks} ranks")
        if list(self.placement) != sorted(self.placement):
            raise ValueError(f"placement {self.placement} is not ascending")
        if self.max_error is not None and not (0.0 < self.max_error < math.inf):
            raise ValueError(f"max_error {self.max_error} is not above 0")

    def __str__(self) -> str:
        """As shown to people: ``all_reduce float32 sum, 4 ranks (native)``."""
        words = [self.collective.value]
        if self.dtype is not None and self.op_class is not None:
            words += [self.dtype.value, self.op_class.value]
        text = " ".join(words) + f", {self.n_ranks} ranks"
        if len(self.placement) > 1:
            text += " as " + "+".join(map(str, self.placement))
        if self.memory is not Memory.PRIVATE:
            text += f", {self.memory.value} memory"
        if self.max_error is not None:
            text += f", error up to {self.max_error:g}"
        return f"{text} ({self.backend})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A rule key with a size: one cell of a tuning run.

    Args:
        message_bytes: the larger of a rank's input and output buffer, the "size" of nccl-tests.
    """

    key: RuleKey
    message_bytes: int

    def __post_init__(self) -> None:
        if self.message_bytes < 0:
            raise ValueError(f"message_bytes {self.message_bytes} is negative")

    @property
    def timed_dtype(self) -> DType:
        """The element type that a trial uses: the key's, or bytes where elements are only moved."""
        return self.key.dtype or DType.UINT8


def round_up_message(collective: Collective, message_bytes: int, n_ranks: int, itemsize: int) -> int:
    """message_bytes rounded up to a whole number of elements (of every rank, where the collective splits by rank)."""
    unit = itemsize * (n_ranks if collective.splits_by_rank else 1)
    return max(1, -(-message_bytes // unit)) * unit


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a schedule's positions go, as derived from a topology: position p is rank ``order[p]``.

    Args:
        order: a permutation of the ranks.
        groups: ranks that share fast links, for hierarchical schedules; empty when there is one group.
    """

    order: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"order {self.order} is not a permutation")
