"""What a library means by the size of a call, against our message_bytes. Pure.

In:  a size or a half-open range of sizes in one convention. Out: the same in another.
May not touch: tables, files.

``message_bytes`` is the larger of a rank's input and output buffer (autotune.types). Where a library counts one rank's
part of it, a range of ours becomes the parts whose whole lies in it; so adjoining ranges stay adjoining.
"""

from __future__ import annotations

import enum


class Counted(enum.Enum):
    """What the library's number of bytes is.

    ``MESSAGE``: our message_bytes. ``PER_RANK``: one rank's part, message_bytes / n_ranks.
    """

    MESSAGE = "message"
    PER_RANK = "per_rank"


def inclusive(counted: Counted, from_bytes: int, to_bytes: int, n_ranks: int) -> tuple[int, int] | None:
    """Lowest and highest size, both inclusive, as the library counts them; None where no whole size lies between.

    Args:
        from_bytes: first message_bytes of the range.
        to_bytes: first message_bytes after it.
    """
    unit = n_ranks if counted is Counted.PER_RANK else 1
    low, after = -(-from_bytes // unit), -(-to_bytes // unit)
    return None if low == after else (low, after - 1)


def message_bytes_of(counted: Counted, size_bytes: int, n_ranks: int) -> int:
    """Our message_bytes of a size that somebody else counted."""
    return size_bytes * n_ranks if counted is Counted.PER_RANK else size_bytes
