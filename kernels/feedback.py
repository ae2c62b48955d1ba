"""Error feedback: what a lossy codec dropped is added to the next contribution, so that nothing is lost for good.

In:  a name for the buffer, chosen by the caller, and the contribution. Out: the contribution plus what was dropped in
     earlier calls of that name; and the array into which the executor adds what this rank drops in this call.
May not touch: schedules, the table; only `run_with_feedback` touches a group. A residual belongs to elements, not to
messages, so it survives a change of algorithm, segment size or codec.

A call goes like this; in the middle the executor does its part:

    contribution = feedback.corrected("layer 1", gradient)     # gradient + residual; the residual is now about 0
    ... the collective, which adds to feedback.residual("layer 1") at every hop where this rank encodes

Over all calls, the results then sum up to what the exact ones would, but for what is in the residuals at the end. It is
for sums and averages; a maximum has no use for it.

Residuals are float32 (float64 for float64): smaller parts than the elements' type can hold are kept as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..types import DType, ReduceOp
from .buffers import elements, like, op_of
from .codecs import FLOAT_TYPES, Codec, CodecKind
from .residuals import Residuals

if TYPE_CHECKING:
    from . import _native
    from .buffers import Buffer

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Entry:
    dtype: DType
    residual: Array


class ErrorFeedback(Residuals[_Entry]):
    """The residuals of one rank. Not thread-safe: a name belongs to one call at a time."""

    def corrected(self, name: str, values: Buffer, dtype: DType | str | None = None) -> Buffer:
        """A new array like `values`: values plus the residual, rounded. What the rounding leaves becomes the residual.

        Args:
            name: of the buffer; the first call with it begins with a residual of zeros.
            values: this rank's contribution, of any shape; it is not changed.
            dtype: the element type where the buffer does not say it (``"bfloat16"`` over 16-bit integers).

        Raises:
            UsageError: an integer type, or another type or size than the name had before.
        """
        kind, count = elements(values, dtype)
        residual = self.residual(name, count, kind)
        out = like(values, ())
        # Adding and rounding are the same for every codec.
        Codec(kind=CodecKind.INT8).native(kind).correct(values, residual, out)
        return out

    def residual(self, name: str, count: int, dtype: DType) -> Array:
        """What is left over of a name, to be added to: float32 of shape (count,); float64 for float64.

        Raises:
            UsageError: as ``corrected``.
        """
        if dtype not in FLOAT_TYPES:
            raise UsageError(
                f"error feedback for {name!r}: {dtype.value} is not a floating type",
                remedy=f"use it for {', '.join(kind.value for kind in FLOAT_TYPES)}",
            )
        entry = self._entries.get(name)
        if entry is None:
            wide = np.float64 if dtype is DType.FLOAT64 else np.float32
            entry = self._entries[name] = _Entry(dtype, np.zeros(count, wide))
        elif (entry.dtype, entry.residual.size) != (dtype, count):
            raise UsageError(
                f"error feedback for {name!r} was for {entry.residual.size} elements of {entry.dtype.value}, "
                f"and is now asked for {count} of {dtype.value}",
                remedy=f"give the other buffer another name, or call reset({name!r}) first",
            )
        return entry.residual

    def norm(self, name: str) -> float:
        """The Euclidean norm of what is left over of a name, in units of a contribution.

        Raises:
            UsageError: the name is unknown.
        """
        return float(np.linalg.norm(self._known(name).residual.astype(np.float64)))


def run_with_feedback(
    group: _native.Group,
    call: _native.Call,
    array: Buffer,
    out: Buffer,
    op: ReduceOp | str,
    dtype: DType | str | None,
    feedback: ErrorFeedback | None,
    name: str | None,
) -> None:
    """One reduction whose contribution is corrected, and whose residual collects what this rank drops.

    Raises:
        UsageError: feedback without a name or the reverse, another operation than sum and avg, or buffers that the call
            cannot have; the residual is as it was then.
    """
    if feedback is None or name is None:
        raise UsageError("of feedback and name only one is given", remedy="give both, or neither")
    if op_of(op) not in (ReduceOp.SUM, ReduceOp.AVG):
        raise UsageError(f"error feedback for {op_of(op).value}", remedy="use it for sum or avg")
    kind, count = elements(array, dtype)
    group.check(call, array, out)  # from here on the residual is in the contribution, and may not get lost
    contribution = feedback.corrected(name, array, kind)
    group.run_collecting(call, contribution, out, feedback.residual(name, count, kind))
