"""Models that people run: their published shapes, and what a step of them sends between ranks. Pure.

shape   a model's dimensions, by name or in words
calls   the collectives of a step, layer by layer, for a split over ranks
memory  bytes of caches and activations, before anything is allocated

Knows no machine and no times; `autotune.advise` brings those together.
"""

from __future__ import annotations

from .calls import ModelCall, Phase, Split, Step, calls_of
from .memory import KvCache, activation_bytes, kv_cache
from .shape import ModelShape, model_shape, shape_names

__all__ = [
    "KvCache",
    "ModelCall",
    "ModelShape",
    "Phase",
    "Split",
    "Step",
    "activation_bytes",
    "calls_of",
    "kv_cache",
    "model_shape",
    "shape_names",
]
