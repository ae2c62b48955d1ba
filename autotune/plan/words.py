"""The words of plans and command lines -> values of the vocabulary. Each says what is allowed, and what is nearest."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from ..errors import UsageError
from ..measure import EFFORTS, MIN_ROUNDS, Effort
from ..types import Collective, DType, Memory, ReduceOp

MAX_ROUNDS = 1000

Word = TypeVar("Word")


def parse_collective(text: str) -> Collective:
    """``"all_reduce"`` -> Collective.ALL_REDUCE.

    Raises:
        UsageError: an unknown word; names the nearest right one.
    """
    return named("collective", text, {c.value: c for c in Collective})


def parse_dtype(text: str) -> DType:
    """``"float32"`` -> DType.FLOAT32; raises like `parse_collective`."""
    return named("dtype", text, {d.value: d for d in DType})


def parse_op(text: str) -> ReduceOp:
    """``"sum"`` -> ReduceOp.SUM; raises like `parse_collective`."""
    return named("op", text, {op.value: op for op in ReduceOp})


def parse_memory(text: str) -> Memory:
    """``"symmetric"`` -> Memory.SYMMETRIC; raises like `parse_collective`."""
    return named("memory", text, {memory.value: memory for memory in Memory})


def parse_effort(text: str) -> Effort:
    """``"normal"`` -> NORMAL; raises like `parse_collective`."""
    return named("effort", text, EFFORTS)


def parse_rounds(text: str) -> int:
    """``"15"`` -> 15 paired rounds.

    Raises:
        UsageError: not a whole number from 9 to 1000.
    """
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0
    if not MIN_ROUNDS <= value <= MAX_ROUNDS:
        raise UsageError(
            f"rounds {text!r} is not a whole number from {MIN_ROUNDS} to {MAX_ROUNDS}",
            remedy=f"write rounds: {MIN_ROUNDS} or more; fewer cannot tell a winner from noise",
        )
    return value


def named(kind: str, word: str, allowed: Mapping[str, Word]) -> Word:
    """The value called `word`.

    Raises:
        UsageError: there is none; lists the words, and the remedy names the nearest.
    """
    if word in allowed:
        return allowed[word]
    nearest = difflib.get_close_matches(word.lower(), allowed, n=1, cutoff=0.5)
    words = ", ".join(allowed)
    remedy = f"write {nearest[0]}" if nearest else f"write one of {words}"
    raise UsageError(f"unknown {kind} {word!r}; the words are {words}", remedy=remedy)
