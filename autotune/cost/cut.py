"""How the native executor cuts a call: slices, waves, slots of the outbox. Plan::derive of kernels/csrc/program.cc.

In:  a program's shape, a message, a segment size. Out: a ``Cut``. May not touch: the native module (the cost model is
pure); a test holds both equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError

_LINE_BYTES = 64
_INLINE_BYTES = 56  # travel in the cache line of the message's word
_SLOTS = 32
_WINDOW = 3
_FEW_LEVELS = 8
_ROTATED_FROM_BYTES = 4 << 10  # messages of this size on go round the outbox, call by call (csrc/outbox_places.cc)
_PAIR_ROTATION_BYTES, _ROTATION_BYTES = 1 << 20, 256 << 10
"""So much of each half, between two ranks (on the CPUs that the model knows: csrc/segment.cc) and among more."""
SLICES_IN_FLIGHT = 4  # the native executor's default (kernels/knobs.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One call's slices.

    Args:
        slices: of the message.
        waves: supersteps of all slices together.
        spacing: waves between the starts of two slices.
        in_flight: slices under way together.
        window: waves until a slot is used again.
        outbox_bytes: of the slots that one call uses.
        bulk: messages are large enough to go round the outbox, call by call, where they do not swap it.
        calls: until one uses the same slots again.
        share_bytes: of one block of one slice, on average.
        reused: share of the slices that find a slot used before in the same call.
    """

    slices: int
    waves: int
    spacing: int
    in_flight: int
    window: int
    outbox_bytes: int
    bulk: bool
    calls: int
    share_bytes: float
    reused: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a cut needs to know of a program.

    Args:
        vertical: a slice is the same part of every block; else it is a piece of the buffer, with all blocks in it.
        piece_blocks: blocks of the largest message.
        exchanges: two ranks that answer each other's messages, and so swap their outboxes.
    """

    levels: int
    blocks: int
    piece_blocks: int
    vertical: bool
    n_ranks: int
    exchanges: bool


def cut(shape: Shape, count: int, itemsize: int, segment_bytes: int, staging_bytes: int) -> Cut:
    """The cut of a message.

    Args:
        count: elements of the buffer; of one rank's block where the program is vertical.
        segment_bytes: the most that one message carries; lowered until the outbox holds what is in flight.

    Raises:
        UsageError: not even the smallest segment fits.
    """
    line = _LINE_BYTES // itemsize
    limit = max(segment_bytes, itemsize)
    while True:
        cap = max(line, limit // itemsize // shape.piece_blocks // line * line)
        slice_elements, pitch = _slice(shape, count, cap, line)
        slices = -(-count // slice_elements) if count else 1
        spacing = in_flight = 1
        if slices > 1:
            spacing = -(-shape.levels // min(SLICES_IN_FLIGHT, shape.levels))
            in_flight = -(-shape.levels // spacing)
        message_bytes = shape.piece_blocks * pitch * itemsize
        slot_bytes = _up(message_bytes, _LINE_BYTES)
        for window in (shape.levels, _WINDOW) if slices == 1 and shape.levels <= _FEW_LEVELS else (_WINDOW,):
            cycle = slot_bytes * window * in_flight
            if window * in_flight <= _SLOTS and (message_bytes <= _INLINE_BYTES or cycle <= staging_bytes // 2):
                cut_blocks = 1 if shape.vertical else shape.blocks
                waves, bulk = shape.levels + spacing * (slices - 1), slot_bytes >= _ROTATED_FROM_BYTES
                filled = slot_bytes * max(1, waves - 1) if slices == 1 and window == waves else cycle
                return Cut(
                    slices=slices,
                    waves=waves,
                    spacing=spacing,
                    in_flight=in_flight,
                    window=window,
                    outbox_bytes=cycle,
                    bulk=bulk,
                    calls=1 if shape.exchanges else 2 * _turns(shape, filled if bulk else None, staging_bytes),
                    share_bytes=count * itemsize / slices / cut_blocks,
                    reused=max(0.0, 1 - max(1, window // spacing) / slices),
                )
        if cap == line:
            raise UsageError(f"an outbox of {staging_bytes // 2} bytes is too small", remedy="raise AUTOTUNE_STAGING")
        limit //= 2


def _turns(shape: Shape, filled_bytes: int | None, staging_bytes: int) -> int:
    """Calls that a half of the outbox has different places for; None for messages that all have the same."""
    most = _PAIR_ROTATION_BYTES if shape.n_ranks == 2 else _ROTATION_BYTES
    return 1 if filled_bytes is None else max(1, min(most, staging_bytes // 2) // filled_bytes)


def _slice(shape: Shape, count: int, cap: int, line: int) -> tuple[int, int]:
    """(elements of a slice, elements from one block of a message to the next)."""
    blocks = 1 if shape.vertical else shape.blocks
    cuts = max(1, -(-count // (cap * blocks)))
    elements = -(-count // cuts)
    if cuts > 1:
        elements = _up(elements, line * blocks)
    if shape.vertical:
        return elements, elements
    dense = -(-elements // blocks)
    return elements, _up(dense, line) if dense > line else dense


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
