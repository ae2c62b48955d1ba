"""A reference executor of schedules with a codec, by the rules of kernels/schedules/wire.py; nothing is shared with it.

In:  a schedule, the order of ranks, every rank's input, a codec. Out: every rank's output, and what it dropped.
Data moves in plain steps over NumPy arrays. Every message is really encoded and decoded; a rank that has an encoding
passes the same bytes on, and the executor objects if encoding anew would give others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spec import STORAGE, Array, combined, widened

from autotune.kernels import _native
from autotune.kernels.schedules import Schedule, holds
from autotune.types import Collective, DType, ReduceOp

Place = tuple[int, int]
Charged = Callable[[int, Place], bool]
"""Whether the position of a place is charged with what it drops there in a plain step."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """By rank: blocks of the output that the collective asks for, and what was dropped, by element of the input."""

    outputs: list[dict[int, Array]]
    dropped: list[NDArray[Any]]


def run(
    collective: Collective,
    schedule: Schedule,
    order: Sequence[int],
    blocks: Callable[[int, int], Array],
    codec: _native.Codec,
    dtype: DType,
    *,
    op: ReduceOp = ReduceOp.SUM,
    charged: Charged = lambda step, place: True,
) -> Outcome:
    """Carry out every step.

    Args:
        order: position p is rank order[p].
        blocks: (position, block) -> what the position contributes, where it holds anything at the start.
        charged: which encodings a position records as dropped; all of them by default.
    """
    before, wanted = holds(collective, schedule.n, schedule.blocks)
    state: dict[Place, Array] = {
        (p, b): blocks(p, b).copy() for p, row in enumerate(before) for b, mask in enumerate(row) if mask
    }
    encodings: dict[Place, bytes] = {}  # of values that are what their encoding is decoded to
    wide = np.float64 if dtype is DType.FLOAT64 else np.float32
    dropped: dict[Place, Array] = {}
    for number, step in enumerate(schedule.expand()):
        messages: dict[Place, bytes] = {}
        for src, _, moved, _ in step:
            for place in ((src, block) for block in moved):
                if place in messages:
                    continue
                messages[place] = _encoded(codec, state[place])
                assert encodings.setdefault(place, messages[place]) == messages[place], "encoding anew is another one"
                kept = _decoded(codec, messages[place], state[place].size, dtype)
                if charged(number, place):
                    left = dropped.setdefault(place, np.zeros(kept.size, wide))
                    codec.collect(state[place], kept, 1.0, left)
                state[place] = kept
        arrivals: dict[Place, list[tuple[int, bool]]] = {}
        for src, dst, moved, reduce in step:
            for block in moved:
                arrivals.setdefault((dst, block), []).append((src, reduce))
        after = {}
        for (dst, block), sources in arrivals.items():
            operands = {order[src]: messages[src, block] for src, _ in sources}
            size = len(state[sources[0][0], block])
            values = {rank: _decoded(codec, wire, size, dtype) for rank, wire in operands.items()}
            if any(reduce for _, reduce in sources):
                values[order[dst]] = state[dst, block]
                after[dst, block] = combined([values[rank] for rank in sorted(values)], op, dtype), None
            else:
                (after[dst, block],) = zip(values.values(), operands.values(), strict=True)
        for place, (value, wire) in after.items():
            state[place] = value
            encodings.pop(place, None)
            if wire is not None:
                encodings[place] = wire
    return Outcome(
        [{b: state[p, b] for b, mask in enumerate(row) if mask} for p, row in enumerate(wanted)],
        [_joined(dropped, p, before[p], blocks, wide) for p in range(schedule.n)],
    )


def norm(values: Sequence[Array], dtype: DType) -> float:
    """The Euclidean norm of all of them together."""
    return float(np.linalg.norm(np.concatenate([widened(v, dtype).astype(np.float64).ravel() for v in values])))


def _encoded(codec: _native.Codec, values: Array) -> bytes:
    wire = np.empty(codec.limit(values.size), np.uint8)
    return wire[: codec.encode(values, wire)].tobytes()


def _decoded(codec: _native.Codec, wire: bytes, size: int, dtype: DType) -> Array:
    out = np.empty(size, STORAGE[dtype])
    assert codec.decode(wire, out) == len(wire)
    return out


def _joined(
    dropped: dict[Place, Array], position: int, held: list[int], blocks: Callable[[int, int], Array], wide: type
) -> NDArray[Any]:
    """What a position dropped, block by block of what it contributed."""
    parts = [
        dropped.get((position, b), np.zeros(blocks(position, b).size, wide)) for b, mask in enumerate(held) if mask
    ]
    return np.concatenate(parts) if parts else np.zeros(0, wide)
