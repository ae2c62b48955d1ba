"""The caller's buffers: what they hold, in the words of `autotune.types`.

In:  NumPy arrays or anything with the buffer protocol, words for types and operations. Out: types, counts, new arrays.
May not touch: other ranks, native code.
"""

from __future__ import annotations

import difflib
import enum
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import UsageError
from ..types import DType, ReduceOp

if TYPE_CHECKING:
    from typing_extensions import Buffer as _Buffer

    # NumPy's stubs say that an array is a buffer from Python 3.12 on only. Any: of every shape and type.
    Buffer = np.ndarray[Any, Any] | _Buffer

Kind = TypeVar("Kind", bound=enum.Enum)

_FORMATS = {
    "f": DType.FLOAT32,
    "d": DType.FLOAT64,
    "e": DType.FLOAT16,
    "b": DType.INT8,
    "B": DType.UINT8,
    "c": DType.UINT8,
    "i": DType.INT32,
    "l": DType.INT64,
    "q": DType.INT64,
}


def elements(array: Buffer, dtype: DType | str | None) -> tuple[DType, int]:
    """Element type and number of elements of a buffer, taken as `dtype` if given."""
    if isinstance(array, np.ndarray):
        size, code = array.nbytes, array.dtype.char if array.dtype.isnative else array.dtype.str
    else:
        try:
            with memoryview(array) as view:
                size, code = view.nbytes, view.format.lstrip("@=<")
        except TypeError as err:
            raise UsageError(
                f"an object of type {type(array).__name__} is not a buffer", remedy="pass a NumPy array or memoryview"
            ) from err
    if dtype is not None:
        kind = dtype if isinstance(dtype, DType) else named(DType, dtype)
    elif code in _FORMATS:
        kind = _FORMATS[code]
    else:
        raise UsageError(
            f"elements of format {code!r} are not one of: {', '.join(d.value for d in DType)}",
            remedy="convert the array, or give dtype=",
        )
    if size % kind.itemsize:
        raise UsageError(f"{size} bytes are not whole elements of {kind.value}", remedy="give another dtype")
    return kind, size // kind.itemsize


def size_bytes(array: Buffer) -> int:
    """The size of a buffer."""
    return array.nbytes if isinstance(array, np.ndarray) else memoryview(array).nbytes


def bytes_of(buffer: Buffer) -> memoryview:
    """The bytes of a contiguous buffer, as they are now and later.

    Raises:
        UsageError: it is not contiguous.
    """
    view = memoryview(buffer)  # type: ignore[arg-type,unused-ignore]  # arrays: see Buffer
    if not view.nbytes:
        return memoryview(b"")
    try:
        return view.cast("B")
    except TypeError:
        raise UsageError("the buffer is not contiguous", remedy="pass numpy.ascontiguousarray(...)") from None


def op_of(op: ReduceOp | str) -> ReduceOp:
    """The operation of this name.

    Raises:
        UsageError: there is none, with the nearest name.
    """
    return op if isinstance(op, ReduceOp) else named(ReduceOp, op)


def named(kind: type[Kind], word: str) -> Kind:
    """The member of an enum whose value is this word; UsageError with the nearest one where there is none."""
    try:
        return kind(word)
    except ValueError:
        words = [member.value for member in kind]
        near = difflib.get_close_matches(str(word), words, n=1)
        raise UsageError(
            f"{word!r} is not one of: {', '.join(words)}",
            remedy=f"did you mean {near[0]!r}?" if near else "use one of these",
        ) from None


def like(array: Buffer, lead: tuple[int, ...]) -> Buffer:
    """A new array of the type of `array`, of its shape behind the given one."""
    view = array if isinstance(array, np.ndarray) else np.asarray(memoryview(array))
    return np.empty((*lead, *view.shape), view.dtype)


def n_bytes(buffer: Buffer) -> int:
    """The size of a buffer."""
    if isinstance(buffer, np.ndarray):
        return buffer.nbytes
    with memoryview(buffer) as view:
        return view.nbytes


_NUMPY_NAMES = {DType.BFLOAT16: "uint16"}  # NumPy has no bfloat16: its bits


def numpy_dtype(kind: DType) -> np.dtype[Any]:
    """How NumPy holds elements of a type."""
    return np.dtype(_NUMPY_NAMES.get(kind, kind.value))
