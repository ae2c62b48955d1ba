"""Lossy codecs by name: what may travel in place of elements, and how far the result is off at most.

In:  the word of a config, such as ``"threshold(0.1)"``. Out: `Codec` values, and the native codec of one.
May not touch: schedules, ranks, buffers. What a codec does byte by byte stands in csrc/codec.h.

How often a value is encoded on its way is the schedule's business (schedules/wire.py); here stands what one encoding
does, as the norm of the error over the norm of what is encoded. Blocks of `BLOCK` elements are encoded by themselves,
so a bound for every block is one for the whole.

- ``threshold(t)`` drops at most all B entries of a block, each at most t times sqrt(sum of squares / B): the norm of
  what is dropped is at most t times the block's, and never above the block's own, as what is dropped is a part of it.
- ``threshold_abs(t)`` drops entries of up to t: no bound relative to the norm but 1, and t for every entry.
- ``int8``, ``int4``: L = 127 or 7. The largest magnitude M is exact, the other B - 1 entries are off by at most h M
  with h = 1 / 2L, and by no more than their own magnitude. With e for the sum of the squares of the errors, the block's
  sum of squares is at least M**2 + e, and e <= (B - 1)(h M)**2; e / (M**2 + e) grows with e. So the bound is sqrt(K /
  (1 + K)), K = (B - 1) h**2. 16-bit types round what is decoded once more: by their roundoff u relative to the decoded
  norm, and among float16's subnormals by 2**-25 an entry, against an M of 2**-14 or more (smaller blocks travel dense).

Arithmetic itself rounds in float32 or float64; the bounds have that much slack.
"""

from __future__ import annotations

import difflib
import enum
import math
import re
from dataclasses import dataclass

from ..errors import UsageError
from ..types import Collective, DType, ReduceOp
from . import _native

BLOCK: int = _native.CODEC_BLOCK
"""Elements that are encoded together; the first block starts at element 0 of a message's piece."""

FLOAT_TYPES = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)

_SLACK = 1 + 2.0**-12
_ROUNDOFF = {DType.FLOAT32: 0.0, DType.FLOAT64: 0.0, DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8}
_TEXT = re.compile(r"(?P<name>[a-z_0-9]+)(?:\((?P<parameter>[^()]*)\))?")
_EXAMPLES = "none, threshold(0.1), threshold_abs(0.001), int8, int4"


class CodecKind(enum.Enum):
    """The kinds by their words; all but ``NONE`` are lossy, and numbered in csrc/codec.h in this order."""

    NONE = "none"
    THRESHOLD = "threshold"
    THRESHOLD_ABS = "threshold_abs"
    INT8 = "int8"
    INT4 = "int4"


_WITH_PARAMETER = (CodecKind.THRESHOLD, CodecKind.THRESHOLD_ABS)
_LEVELS = {CodecKind.INT8: 127, CodecKind.INT4: 7}
_KIND_NUMBER = {kind: number for number, kind in enumerate(list(CodecKind)[1:])}
_DTYPE_NUMBER = {dtype: number for number, dtype in enumerate(DType)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """A kind with its parameter.

    Args:
        parameter: t of the thresholds, at least 0 and finite; 0 for the others.
    """

    kind: CodecKind
    parameter: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.parameter < math.inf or (self.parameter and self.kind not in _WITH_PARAMETER):
            raise ValueError(f"{self.kind.value} has no parameter {self.parameter}")

    @classmethod
    def parse(cls, text: str) -> Codec:
        """The codec of a config's word.

        Raises:
            UsageError: it is none, with the nearest name.
        """
        match = _TEXT.fullmatch(text)
        words = [kind.value for kind in CodecKind]
        if match is None or match["name"] not in words:
            near = difflib.get_close_matches(text.partition("(")[0], words, n=1)
            raise UsageError(
                f"codec {text!r} is not one of: {', '.join(words)}",
                remedy=f"did you mean {near[0]!r}?" if near else f"write it like one of: {_EXAMPLES}",
            )
        kind, parameter = CodecKind(match["name"]), match["parameter"]
        if kind not in _WITH_PARAMETER:
            if parameter is not None:
                raise UsageError(f"codec {text!r}: {kind.value} takes no parameter", remedy=f"write {kind.value}")
            return cls(kind=kind)
        example = f"write it like {kind.value}(0.1)"
        if parameter is None:
            raise UsageError(f"codec {text!r} has no threshold", remedy=example)
        try:
            threshold = float(parameter)
        except ValueError:
            raise UsageError(f"codec {text!r}: {parameter!r} is not a number", remedy=example) from None
        if not 0.0 <= threshold < math.inf:
            raise UsageError(f"codec {text!r}: {parameter} is not a finite number of at least 0", remedy=example)
        return cls(kind=kind, parameter=threshold + 0.0)  # + 0.0: -0.0 is 0.0

    def __str__(self) -> str:
        """As a config holds it: the one text for this value."""
        return f"{self.kind.value}({self.parameter!r})" if self.kind in _WITH_PARAMETER else self.kind.value

    @property
    def lossy(self) -> bool:
        """Whether anything is encoded; ``threshold(0)`` counts, though its results are equal under ``==``."""
        return self.kind is not CodecKind.NONE

    def objection(self, collective: Collective, dtype: DType, op: ReduceOp) -> str | None:
        """Why elements of this type cannot travel so, whatever the algorithm; None if they can."""
        if not self.lossy:
            return None
        if dtype not in FLOAT_TYPES:
            return f"{self} is for {', '.join(kind.value for kind in FLOAT_TYPES)}, not {dtype.value}"
        if collective.computes and op is ReduceOp.PROD:
            return f"{self} has no bound on the error of a product"
        return None

    def relative_error(self, dtype: DType) -> float:
        """The norm of one encoding's error is at most so many times the norm of what is encoded."""
        match self.kind:
            case CodecKind.NONE:
                return 0.0
            case CodecKind.THRESHOLD:
                return min(1.0, self.parameter * _SLACK)
            case CodecKind.THRESHOLD_ABS:
                return 1.0 if self.parameter else 0.0
            case CodecKind.INT8 | CodecKind.INT4:
                k = (BLOCK - 1) * (0.5 / _LEVELS[self.kind]) ** 2
                bound = math.sqrt(k / (1 + k)) * _SLACK
                subnormal = math.sqrt(BLOCK) * 2.0**-11 if dtype is DType.FLOAT16 else 0.0
                return bound + _ROUNDOFF[dtype] * (1 + bound) + subnormal

    def absolute_error(self) -> float | None:
        """No entry is off by more after one encoding; None where only the norm is bounded."""
        match self.kind:
            case CodecKind.NONE:
                return 0.0
            case CodecKind.THRESHOLD_ABS:
                return self.parameter
            case CodecKind.THRESHOLD | CodecKind.INT8 | CodecKind.INT4:
                return None

    def numbers(self) -> tuple[int, float] | None:
        """As the native executor takes it: number of the kind, parameter; None for ``none``."""
        return (_KIND_NUMBER[self.kind], self.parameter) if self.lossy else None

    def native(self, dtype: DType, variant: str | None = None) -> _native.Codec:
        """The native codec for a type.

        Args:
            variant: ``"baseline"``, ``"avx2"`` or ``"avx512"``; None for what this CPU runs best.

        Raises:
            UsageError: an integer type, or a variant that does not run here.
        """
        if not self.lossy:
            raise ValueError("none is no codec: elements travel as they are")
        return _native.Codec(_KIND_NUMBER[self.kind], self.parameter, _DTYPE_NUMBER[dtype], variant)
