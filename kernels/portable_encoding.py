"""What becomes of a rank's blocks where messages are encoded: which are changed by that, and who is charged with it.

In:  a schedule, the steps in which a position takes part. Out: answers for the compiler, which asks step by step.
May not touch: places, torch. The rules are those of schedules/wire.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Collective
from .schedules.ir import Schedule, Transfer
from .schedules.wire import follow


class Encoding:
    """What becomes of one rank's blocks where messages are encoded."""

    def __init__(
        self,
        collective: Collective,
        schedule: Schedule,
        position: int,
        own_steps: Sequence[tuple[int, Sequence[Transfer]]],
    ) -> None:
        self._position = position
        self._charged = follow(collective, schedule).charged
        self._own_steps = own_steps
        self._decoded: set[int] = set()  # what encoding would not change
        self._complete: set[int] = set()

    def changes(self, block: int, number: int, lives: bool) -> bool:
        """Whether sending a block in a step changes it, and this rank uses it afterwards, other than to send it again.

        Args:
            lives: it has a place in the output.
        """
        known = block in self._decoded
        self._decoded.add(block)
        if known:
            return False
        for step, transfers in self._own_steps:
            if step < number:
                continue
            for _, dst, blocks, reduce in transfers:
                if dst == self._position and block in blocks:
                    return reduce
        return lives

    def charged(self, block: int, number: int) -> bool:
        """Whether this rank is charged with what the encoding drops."""
        return (self._position, block) in self._charged[number]

    def complete(self, block: int) -> bool:
        """Whether every rank's contribution is in the block."""
        return block in self._complete

    def completed(self, block: int) -> None:
        self._complete.add(block)

    def arrived(self, blocks: set[int], *, reduced: bool) -> None:
        """Other values of these blocks are here."""
        if reduced:
            self._decoded -= blocks
        else:
            self._decoded |= blocks
