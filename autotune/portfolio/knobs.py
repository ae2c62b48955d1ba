"""The knob of a call, not of its group: in how many pieces a message is carried. Pure; pieces.py carries them."""

from __future__ import annotations

from ..errors import UsageError
from ..types import Collective

PIECES = "pieces"
"""The knob's name."""

MOST = 16
IN_PIECES = (
    Collective.ALL_REDUCE,
    Collective.BROADCAST,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALL_TO_ALL,
)


def check_pieces(collective: Collective, pieces: object) -> int:
    """The number of pieces.

    Raises:
        UsageError: not a whole number from 1, or not for this collective.
    """
    if not isinstance(pieces, int) or not 1 <= pieces <= MOST:
        raise UsageError(f"{PIECES} is {pieces!r}, not from 1 to {MOST}", remedy=f"give {PIECES} from 1 to {MOST}")
    if pieces > 1 and collective not in IN_PIECES:
        raise UsageError(f"{collective.value} is not cut into pieces", remedy=f"leave {PIECES} out")
    return pieces
