"""The words of a call and of a rule: enums, and what follows from each alone."""

from __future__ import annotations

import enum


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
