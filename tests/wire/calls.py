"""What a call with a codec leaves on every rank, by the reference executor: slice by slice, as the message is cut.

In:  a call of tests/ranks. Out: all ranks' outputs. Of the product it uses schedules, and where blocks are stored.
"""

from __future__ import annotations

import numpy as np
from ranks.cases import Call
from spec import Array
from wire.executor import run

from autotune.kernels.codecs import Codec
from autotune.kernels.portable_plan import Cut
from autotune.kernels.schedules import Schedule, build, names
from autotune.kernels.schedules.wire import codec_legality
from autotune.kernels.traffic import storage, traffic_of
from autotune.types import Collective

C = Collective


def legal(collective: Collective, n: int) -> list[str]:
    """The algorithms that may carry a lossy codec."""
    return [name for name in names(collective, n) if codec_legality(collective, build(collective, name, n)) is None]


def cut_of(call: Call, schedule: Schedule, order: tuple[int, ...]) -> Cut:
    """How the message is cut, where the outbox holds what is in flight."""
    line, blocks = 64 // call.dtype.itemsize, 1 if call.collective.splits_by_rank else schedule.blocks
    pieces = traffic_of(call.collective, schedule, order).piece_blocks
    cap = max(line, call.segment_bytes // call.dtype.itemsize // pieces // line * line)
    cuts = max(1, -(-call.count // (cap * blocks)))
    elements = -(-call.count // cuts)
    if cuts > 1:
        elements = -(-elements // (line * blocks)) * line * blocks
    return Cut(count=call.count, slice_elements=elements, blocks=blocks, line=line)


def reference(n: int, call: Call) -> list[Array | None]:
    """All ranks' outputs, slice by slice."""
    order = tuple((position + call.root) % n for position in range(n))
    schedule = build(call.collective, call.algorithm, n)
    in_index, out_index = storage(call.collective, schedule, order)
    inputs = call.inputs(n)
    reads = [call.collective not in (C.BROADCAST, C.SCATTER) or rank == call.root for rank in range(n)]
    writes = [call.collective not in (C.REDUCE, C.GATHER) or rank == call.root for rank in range(n)]
    outputs = [np.zeros(call.elements(n)[1], inputs[0].dtype) if writes[rank] else None for rank in range(n)]
    way = cut_of(call, schedule, order)
    for number in range(way.slices):
        first, length, pitch = number * way.slice_elements, way.length(number), way.pitch(number)

        def part(index: int, first: int = first, length: int = length, pitch: int = pitch) -> slice:
            if call.collective.splits_by_rank:
                return slice(index * call.count + first, index * call.count + first + length)
            return slice(first + min(length, index * pitch), first + min(length, (index + 1) * pitch))

        def block(position: int, b: int) -> Array:
            index = in_index(order[position], b)
            assert index is not None
            assert reads[order[position]]
            return inputs[order[position]][part(index)]

        native = Codec.parse(call.codec).native(call.dtype)
        outcome = run(call.collective, schedule, order, block, native, call.dtype, op=call.op)
        for position, blocks in enumerate(outcome.outputs):
            for b, values in blocks.items():
                output, index = outputs[order[position]], out_index(order[position], b)
                assert output is not None
                assert index is not None
                output[part(index)] = values
    return outputs
