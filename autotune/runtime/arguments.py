"""The words of a call checked into values. Pure; every complaint is a UsageError with the nearest right word."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from enum import Enum
from typing import SupportsIndex, TypeVar

from ..errors import UsageError
from ..table.reader import did_you_mean
from ..types import Collective, DType, Evidence, Memory, ReduceOp, RuleKey

Item = TypeVar("Item")
Word = TypeVar("Word", bound=Enum)


def rule_key(
    collective: Collective | str,
    n_ranks: int,
    dtype: DType | str,
    op: ReduceOp | str,
    placement: tuple[int, ...] | None,
    memory: Memory | str,
    max_error: float | None,
    backend: str,
) -> RuleKey:
    """The key under which a table holds rules for a call; numbers were checked before.

    Raises:
        UsageError: an unknown word, or a placement of other than n_ranks ranks.
    """
    what = _word(Collective, "collective", collective)
    element, operation = _word(DType, "dtype", dtype), _word(ReduceOp, "op", op)
    hosts = (n_ranks,) if placement is None else tuple(sorted(placement))
    if sum(hosts) != n_ranks:
        raise UsageError(
            f"placement {placement} holds {sum(hosts)} ranks, but n_ranks is {n_ranks}",
            remedy="give placement as the number of ranks on each host, or leave it out for one host",
        )
    if not isinstance(backend, str):
        raise UsageError(f"backend {_shown(backend)} is not a name", remedy="give it as text, such as 'native'")
    return RuleKey(
        backend=backend,
        collective=what,
        dtype=element if what.computes else None,
        op_class=operation.op_class if what.computes else None,
        n_ranks=n_ranks,
        placement=hosts,
        memory=_word(Memory, "memory", memory),
        max_error=max_error,
    )


def admitted(evidence: Iterable[Evidence | str]) -> frozenset[Evidence]:
    """The kinds of evidence that count.

    Raises:
        UsageError: none, or an unknown one.
    """
    kinds = frozenset(_word(Evidence, "evidence", kind) for kind in evidence)
    if not kinds:
        raise UsageError("evidence is empty, so no rule could count", remedy="give evidence=('measured',), the default")
    return kinds


def ranks_on_hosts(placement: Iterable[int]) -> tuple[int, ...]:
    """The rank count of each host.

    Raises:
        UsageError: not several whole numbers from 1.
    """
    return tuple(whole("placement", ranks, 1) for ranks in several("placement", placement))


def several(name: str, values: Iterable[Item]) -> tuple[Item, ...]:
    """The members of an argument that holds several.

    Raises:
        UsageError: one word, or nothing to go through.
    """
    if not isinstance(values, (str, bytes)):
        try:
            return tuple(values)
        except TypeError:
            pass  # a number, None, an array without a dimension: refused below
    raise UsageError(f"{name} {_shown(values)} is not a tuple", remedy=f"write {name}=({_shown(values)},)")


def whole(name: str, value: SupportsIndex, low: int) -> int:
    """A whole number from low; NumPy's integers are accepted, True and 4.0 are not.

    Raises:
        UsageError: anything else.
    """
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            number = low - 1  # text, a fraction, an array: refused below
        if number >= low:
            return number
    raise UsageError(
        f"{name} {_shown(value)} is not a whole number from {low}", remedy=f"give {name} as an int from {low}"
    )


def error_budget(value: object) -> float:
    """A relative error above 0.

    Raises:
        UsageError: anything else.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 < value < math.inf:
        return float(value)
    raise UsageError(
        f"max_error {_shown(value)} is not a relative error above 0",
        remedy="leave max_error out for lossless collectives",
    )


def _word(kind: type[Word], name: str, value: object) -> Word:
    if isinstance(value, kind):
        return value
    allowed = {str(member.value): member for member in kind}
    near = ""
    if isinstance(value, str):
        if value in allowed:
            return allowed[value]
        near = did_you_mean(value, allowed)
    raise UsageError(f"{name} {_shown(value)} is unknown{near}", remedy=f"use one of: {', '.join(allowed)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
