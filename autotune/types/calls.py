"""What is asked and what may answer: a problem, its key in a table, a config, where ranks go. Plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .words import Collective, DType, Memory, OpClass

KnobValue = int | str
_NAME_LIMIT = 64
SHARED_CORES = "shared_cores"
"""The knob that names another algorithm for ranks that share cores (kernels/shared_cores.py)."""


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

    @property
    def tuned_algorithm(self) -> str:
        """The algorithm that a measurement of this config is of: that for shared cores, where it names one."""
        return str(dict(self.knobs).get(SHARED_CORES, self.algorithm))

    def __str__(self) -> str:
        """As shown to people and in errors: ``ring/64KiB``, ``direct/256KiB/outbox_store=dual``."""
        from ..units import format_bytes

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
