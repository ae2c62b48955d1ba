"""MoE dispatch and combine: legal ``comm_alg`` and ``comm_quant_mode``, and the least HCCL_BUFFSIZE. Pure.

A buffer that is too small is not found by HCCL: the operator writes beyond it (vllm-ascend#2674). The formulas are
those of CANN ops-transformer, mc2, moe_distribute_dispatch (A2, A3); where there is none, nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError
from .facts import Buffer, MoeAlgorithm, SocFacts

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeShape:
    """What dispatch and combine are called with.

    Args:
        n_ranks: of the expert-parallel group.
        tokens: the most of one rank.
        hidden: elements of a token.
        experts: routed ones, of all ranks.
        shared: experts that every token goes to.
        top_k: experts that a token goes to.
        itemsize: bytes of an element.
    """

    n_ranks: int
    tokens: int
    hidden: int
    experts: int
    top_k: int
    shared: int = 0
    itemsize: int = 2

    def __post_init__(self) -> None:
        least = min(self.n_ranks, self.tokens, self.hidden, self.experts, self.top_k, self.itemsize)
        if least < 1 or self.shared < 0 or self.top_k > self.experts:
            raise ValueError(f"not a MoE layer: {self}")

    @property
    def local_experts(self) -> int:
        """Of one rank, rounded up."""
        return -(-self.experts // self.n_ranks)


def least_buffer_mb(buffer: Buffer, shape: MoeShape) -> int:
    """The least HCCL_BUFFSIZE, in MB of 2^20 bytes."""
    match buffer:
        case Buffer.A2_FULLMESH:
            local = min(shape.local_experts, shape.top_k)
            n_bytes = 2 * (shape.tokens * shape.n_ranks * shape.hidden * local * 2 + 2 * _MIB)
        case Buffer.A2_HIERARCHY:
            token = shape.hidden * shape.itemsize + 4 * _aligned(shape.top_k, 8) * 4
            n_bytes = shape.experts * shape.tokens * token + 104 * _MIB
        case Buffer.A3_FULLMESH:
            sent = _aligned(_aligned(2 * shape.hidden, 32) + 64, 512)
            kept = _aligned(2 * shape.hidden, 512)
            dispatch = shape.local_experts * shape.tokens * shape.n_ranks * sent
            n_bytes = 2 * (dispatch + (shape.top_k + shape.shared) * shape.tokens * kept)
    return -(-n_bytes // _MIB)


def moe_algorithm(facts: SocFacts, comm_alg: str, n_ranks: int, quant_mode: int = 0) -> MoeAlgorithm:
    """A legal choice.

    Raises:
        UsageError: not one of this chip's, or not for so many ranks or this compression.
    """
    known = {one.comm_alg: one for one in facts.moe}
    found = known.get(comm_alg)
    if found is None:
        names = ", ".join(known)
        raise UsageError(
            f"comm_alg {comm_alg!r} is not one of {facts.soc.value}'s",
            remedy=f"use one of {names}" if names else f"nothing is known of comm_alg on {facts.soc.value}",
        )
    if n_ranks not in found.ranks:
        fitting = [one.comm_alg for one in facts.moe if n_ranks in one.ranks]
        raise UsageError(
            f"comm_alg {comm_alg!r} is not for {n_ranks} ranks on {facts.soc.value} ({found.source})",
            remedy=f"use {' or '.join(fitting)}" if fitting else f"use one of {_spans(found.ranks)} ranks",
        )
    if quant_mode not in found.quant_modes:
        raise UsageError(
            f"comm_quant_mode {quant_mode} is not for comm_alg {comm_alg!r} on {facts.soc.value}",
            remedy=f"use one of {', '.join(map(str, found.quant_modes))}",
        )
    return found


def moe_choices(facts: SocFacts, shape: MoeShape, buffer_mb: int) -> list[tuple[str, int]]:
    """(comm_alg, comm_quant_mode) that may be tried: legal for the ranks, and known to fit the buffer."""
    return [
        (one.comm_alg, mode)
        for one in facts.moe
        if shape.n_ranks in one.ranks and one.buffer is not None and least_buffer_mb(one.buffer, shape) <= buffer_mb
        for mode in one.quant_modes
    ]


def _aligned(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _spans(ranks: frozenset[int]) -> str:
    listed = sorted(ranks)
    return ", ".join(map(str, listed)) if len(listed) <= 16 else f"{listed[0]} to {listed[-1]}"
