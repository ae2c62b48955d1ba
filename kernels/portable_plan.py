"""What the portable executor carries out, as plain values: one rank's plan of a schedule, and the cut of a message.

In:  nothing; portable_compiler.py builds plans. Out: `Plan`, free of counts and types, and `Cut`.
May not touch: torch, schedules, buffers. Numbers only.

Blocks and slices are cut as the native executor cuts them (`Plan::derive` of csrc/program.cc), so that the same
elements are summed in the same order and a result has the same bits. Here a message goes from one rank to another, so
the largest one, which `segment_bytes` bounds, is that of a pair.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

_LINE_BYTES = 64  # cuts are multiples of a cache line, as natively


class Area(enum.Enum):
    """Where a block lies."""

    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"
    ARRIVED = "arrived"  # in the buffer of this step's messages


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks ``block .. block + width - 1``, side by side in an area from its place ``index`` on."""

    area: Area
    index: int
    block: int
    width: int

    def continues(self, run: Run) -> bool:
        """Whether this run lies right behind another one, and goes on with its blocks."""
        behind = self.index == run.index + run.width and self.block == run.block + run.width
        return self.area is run.area and behind


@dataclass(frozen=True, slots=True)
class Message:
    """What goes to or comes from one rank in a step. What comes is one stretch of memory."""

    peer: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Combine:
    """``target = op(sources)`` in this order, or a copy if there is one source.

    Args:
        completes: every rank's contribution is in the result, so that an average divides here.
    """

    target: Run
    sources: tuple[Run, ...]
    completes: bool


@dataclass(frozen=True, slots=True)
class Encode:
    """A block that leaves encoded; in plans for lossy codecs alone.

    Args:
        source: where it lies.
        target: where what its readers decode has to be kept; None where this rank does not use it any more.
        charged: the place in the input whose residual takes what encoding drops; None where another rank, or an earlier
            step, is charged with it.
        divided: an average was divided already, so that a residual counts n_ranks times.
    """

    source: Run
    target: Run | None
    charged: Run | None
    divided: bool


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One batch of messages, and what is done once they are through.

    Args:
        encodes: of every block that is sent, before anything is; empty in lossless plans. Runs of messages are single
            blocks there, and what arrives is decoded into them.
    """

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    combines: tuple[Combine, ...]
    encodes: tuple[Encode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one rank does for a (collective, algorithm, n, layout, root), for any count, type and segment size.

    Args:
        n_steps: of the schedule; equal on all ranks.
        steps: by number; those in which this rank takes no part are left out.
        kept: (source, target) of what never moves, from input to output.
        largest_blocks: of the largest message of any pair; equal on all ranks.
    """

    n_ranks: int
    vertical: bool
    blocks: int
    n_steps: int
    steps: dict[int, PlanStep]
    kept: tuple[tuple[Run, Run], ...]
    scratch_blocks: int
    arrived_blocks: int
    largest_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a message is cut into slices: of the buffer, or of every rank's block where the plan is vertical.

    Args:
        count: elements that are cut.
        slice_elements: of every slice but the last.
        blocks: into which a slice is cut; 1 where the plan is vertical.
        line: elements of a cache line.
    """

    count: int
    slice_elements: int
    blocks: int
    line: int

    @property
    def slices(self) -> int:
        return -(-self.count // self.slice_elements) if self.count else 0

    def length(self, number: int) -> int:
        """Elements of a slice."""
        return min(self.slice_elements, self.count - number * self.slice_elements)

    def pitch(self, number: int) -> int:
        """Elements from one block of a slice to the next."""
        dense = -(-self.length(number) // self.blocks)
        return _up(dense, self.line) if self.blocks > 1 and dense > self.line else dense


def cut(plan: Plan, count: int, itemsize: int, segment_bytes: int | None) -> Cut:
    """The cut for which no message is larger than `segment_bytes`, or than a cache line; None is one slice."""
    line, blocks = _LINE_BYTES // itemsize, 1 if plan.vertical else plan.blocks
    cuts = 1
    if segment_bytes is not None:
        cap = max(line, segment_bytes // itemsize // plan.largest_blocks // line * line)
        cuts = max(1, -(-count // (cap * blocks)))
    elements = -(-count // cuts)
    return Cut(
        count=count, slice_elements=_up(elements, line * blocks) if cuts > 1 else elements, blocks=blocks, line=line
    )


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
