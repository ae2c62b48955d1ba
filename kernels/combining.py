"""The collectives that combine, as methods of a communicator: arguments in, prepared native calls out.

In:  the caller's buffers. Out: results in them, or a `Handle` where ``async_op=True`` asks for one (asynchronous.py).
May not touch: how a group comes about and where configs come from, which is `Communicator`'s part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, overload

from ..types import Collective, Config, DType, ReduceOp
from .feedback import ErrorFeedback, run_with_feedback
from .issuing import Issuing

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .asynchronous import Handle
    from .buffers import Buffer

    class Moving(TypedDict, total=False):
        """What every collective takes."""

        dtype: DType | str | None
        config: Config | None

    class _Reducing(Moving, total=False):
        out: Buffer | None
        root: int

    class _Correcting(Moving, total=False):
        out: Buffer | None
        feedback: ErrorFeedback | None
        name: str | None


class Combining(Issuing):
    """The methods of `Communicator` that combine elements; see there for what all have in common."""

    @overload
    def all_reduce(
        self, array: Buffer, op: ReduceOp | str = ..., *, async_op: Literal[False] = ..., **rest: Unpack[_Correcting]
    ) -> Buffer: ...
    @overload
    def all_reduce(
        self, array: Buffer, op: ReduceOp | str = ..., *, async_op: Literal[True], **rest: Unpack[_Correcting]
    ) -> Handle[Buffer]: ...
    def all_reduce(
        self,
        array: Buffer,
        op: ReduceOp | str = "sum",
        *,
        out: Buffer | None = None,
        dtype: DType | str | None = None,
        config: Config | None = None,
        feedback: ErrorFeedback | None = None,
        name: str | None = None,
        async_op: bool = False,
    ) -> Buffer | Handle[Buffer]:
        """Combine all ranks' arrays; every rank gets the result, bit for bit the same.

        Args:
            array: this rank's contribution; overwritten with the result unless `out` is given.
            op: ``sum``, ``prod``, ``max``, ``min`` or ``avg``.
            dtype: the element type where the buffer does not say it (``"bfloat16"`` over 16-bit integers).
            feedback: adds what lossy codecs dropped in earlier calls of that `name`, and keeps what this one drops. For
                ``sum`` and ``avg``.
            name: the buffer's, for `feedback`.
            async_op: return a handle at once.

        Returns:
            `out`, or `array`.
        """
        target = array if out is None else out
        if feedback is not None or name is not None:
            call = self._call(Collective.ALL_REDUCE, array, dtype, op, 0, config, None, None)
            return self._do_in_turn(
                lambda: run_with_feedback(self.group, call, array, target, op, dtype, feedback, name), target, async_op
            )
        call = self._call(Collective.ALL_REDUCE, array, dtype, op, 0, config, array, target)
        if self._direct is None or async_op:
            return self._do(Collective.ALL_REDUCE, call, array, target, target, async_op)
        self._direct(call, array, target)
        return target

    @overload
    def reduce_scatter(
        self,
        array: Buffer,
        out: Buffer,
        op: ReduceOp | str = ...,
        *,
        async_op: Literal[False] = ...,
        feedback: ErrorFeedback | None = ...,
        name: str | None = ...,
        **rest: Unpack[Moving],
    ) -> Buffer: ...
    @overload
    def reduce_scatter(
        self,
        array: Buffer,
        out: Buffer,
        op: ReduceOp | str = ...,
        *,
        async_op: Literal[True],
        feedback: ErrorFeedback | None = ...,
        name: str | None = ...,
        **rest: Unpack[Moving],
    ) -> Handle[Buffer]: ...
    def reduce_scatter(
        self,
        array: Buffer,
        out: Buffer,
        op: ReduceOp | str = "sum",
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
        feedback: ErrorFeedback | None = None,
        name: str | None = None,
        async_op: bool = False,
    ) -> Buffer | Handle[Buffer]:
        """Combine all ranks' arrays; rank r gets the r-th part of the result.

        Args:
            array: n_ranks times the size of `out`. In place: `out` is the rank-th part of `array`.
            feedback, name: as for `all_reduce`.
        """
        if feedback is not None or name is not None:
            call = self._call(Collective.REDUCE_SCATTER, out, dtype, op, 0, config, None, None)
            return self._do_in_turn(
                lambda: run_with_feedback(self.group, call, array, out, op, dtype, feedback, name), out, async_op
            )
        call = self._call(Collective.REDUCE_SCATTER, out, dtype, op, 0, config, array, out)
        if self._direct is None or async_op:
            return self._do(Collective.REDUCE_SCATTER, call, array, out, out, async_op)
        self._direct(call, array, out)
        return out

    @overload
    def reduce(
        self, array: Buffer, op: ReduceOp | str = ..., *, async_op: Literal[False] = ..., **rest: Unpack[_Reducing]
    ) -> Buffer: ...
    @overload
    def reduce(
        self, array: Buffer, op: ReduceOp | str = ..., *, async_op: Literal[True], **rest: Unpack[_Reducing]
    ) -> Handle[Buffer]: ...
    def reduce(
        self,
        array: Buffer,
        op: ReduceOp | str = "sum",
        *,
        root: int = 0,
        out: Buffer | None = None,
        dtype: DType | str | None = None,
        config: Config | None = None,
        async_op: bool = False,
    ) -> Buffer | Handle[Buffer]:
        """Combine all ranks' arrays; the root gets the result, in `array` unless it gives `out`.

        In symmetric memory every rank gives `out`, or none does: the others write into the root's.
        """
        target = array if out is None else out
        call = self._call(Collective.REDUCE, array, dtype, op, root, config, array, target)
        written = target if self.rank == root or call.zero_copy else None
        result = target if self.rank == root else array
        return self._do(Collective.REDUCE, call, array, written, result, async_op)
