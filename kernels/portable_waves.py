"""A call of the portable executor: its slices under way in waves, the newest first, in one order on all ranks.

In:  a prepared call, the vectors of input and output, a group. Out: results in the output.
May not touch: arguments (checked in portable.py), what a slice does in a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..errors import UsageError
from ..types import Config, KnobValue, ReduceOp
from .knobs import SLICES_IN_FLIGHT
from .portable_codecs import TensorCodec
from .portable_encoded import EncodedSlice
from .portable_plan import Cut, Plan
from .portable_slices import Slice, Transport


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call without its buffers and its operation.

    Args:
        in_flight: slices under way at once, at most.
        codec: of its messages; None where elements travel as they are.
    """

    plan: Plan
    way: Cut
    in_flight: int
    codec: TensorCodec | None


def carry_out(
    call: Prepared,
    op: ReduceOp,
    source: torch.Tensor | None,
    target: torch.Tensor | None,
    transport: Transport,
    residual: torch.Tensor | None = None,
) -> None:
    """Do all of a call; every batch has been waited for when it returns.

    Args:
        source, target: vectors; None where this rank has no input or output.
        residual: as of `EncodedSlice`; for calls with a codec.
    """
    plan, way = call.plan, call.way
    if not way.slices:
        return
    levels = plan.n_steps + 1
    spacing = -(-levels // min(call.in_flight, levels))
    slots = min(way.slices, -(-levels // spacing))
    like = target if target is not None else source
    assert like is not None, "every rank reads or writes"
    own_elements = (plan.scratch_blocks + plan.arrived_blocks) * way.pitch(0)
    memory = like.new_empty(slots * own_elements)
    under_way: dict[int, Slice] = {}
    for wave in range(levels + spacing * (way.slices - 1)):
        newest = min(wave // spacing, way.slices - 1)
        oldest = max(0, -(-(wave - plan.n_steps) // spacing))
        for number in range(newest, oldest - 1, -1):
            step = wave - spacing * number
            if step == 0:
                own = memory[number % slots * own_elements :][:own_elements]
                parts = (plan, way, number, op, source, target, own, transport)
                under_way[number] = Slice(*parts) if call.codec is None else EncodedSlice(*parts, call.codec, residual)
            under_way[number].advance(step)
            if step == plan.n_steps:
                del under_way[number]


def slices_in_flight(config: Config) -> int:
    """How many slices a config wants in flight.

    Raises:
        UsageError: knobs that this executor does not have.
    """
    knobs: dict[str, KnobValue] = dict(config.knobs)
    in_flight = knobs.pop("slices_in_flight", SLICES_IN_FLIGHT)
    if knobs:
        raise UsageError(
            f"config {config} has the unknown knob {min(knobs)!r}", remedy="the portable knob: slices_in_flight"
        )
    if not isinstance(in_flight, int) or not 1 <= in_flight <= 8:
        raise UsageError(f"slices_in_flight is {in_flight!r}, not 1 to 8", remedy="give a number from 1 to 8")
    return in_flight
