"""Bytes that a split of a model costs, before anything is allocated.

In:  a shape, a split, a step. Out: bytes of one rank. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import DType
from .calls import Phase, Split, Step
from .shape import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCache:
    """The keys and values of a context, on one rank.

    Args:
        has_heads: whether it can be shared out by heads; a latent (MLA) cannot, and every rank keeps the whole.
        own_bytes: of all its layers, its own heads or the latent.
        layer_bytes: of one layer with the heads of all ranks: 2 x N x S x H x D x itemsize, with N ranks that each hold
            S tokens of H heads of width D; what an all_gather of the layer's cache needs at once.
        gathered_bytes: of all its layers, if each were kept gathered.
    """

    has_heads: bool
    own_bytes: int
    layer_bytes: int
    gathered_bytes: int


def kv_cache(shape: ModelShape, split: Split, step: Step, dtype: DType = DType.BFLOAT16) -> KvCache:
    """The cache of the step's whole context: batch x sequence tokens."""
    tokens = step.batch * step.sequence
    layers = -(-shape.layers // split.pipeline)
    if shape.kv_width is not None:
        own = whole = shape.kv_width
    else:
        own_heads = -(-shape.kv_heads // split.tensor)  # fewer heads than ranks: each is kept more than once
        own = 2 * own_heads * shape.head_dim
        whole = own * split.tensor
    return KvCache(
        has_heads=shape.kv_width is None,
        own_bytes=layers * tokens * own * dtype.itemsize,
        layer_bytes=tokens * whole * dtype.itemsize,
        gathered_bytes=layers * tokens * whole * dtype.itemsize,
    )


def activation_bytes(shape: ModelShape, split: Split, step: Step, dtype: DType = DType.BFLOAT16) -> int:
    """What lies between the tensor-parallel blocks of one layer, which only sequence parallelism splits.

    In training that is kept for backward: four states of every token, the inputs of both blocks and of both norms
    (Korthikanti et al. 2022, section 4.1: the 10 s b h that tensor parallelism leaves whole, without the masks of
    dropout, which such models have no more). Otherwise one state.
    """
    states = 4 if step.phase is Phase.TRAIN else 1
    return states * step.tokens * shape.hidden * dtype.itemsize // (split.tensor if split.sequence else 1)
