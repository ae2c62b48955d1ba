"""Steps and schedules: which logical block goes from which position to which, and in which order.

In: arrays of transfers from the pattern files. Out: plain steps for the checker, the compiler and the portable
executor, and the arrays themselves for pricing. numpy only; knows no collective, no rank, no byte and no buffer.

A *block* is a logical piece of data with the same name on every position; where it is stored is the compiler's
business. A *position* is 0 .. n-1 with the root at 0; the caller maps positions to ranks. A *step* reads the state
before it: all its transfers happen together, and a position may send a block that it receives anew in the same step.

A step is a closed form, so that a ring over 16,384 positions is two stored steps. Enumerate (``expand``) for small n
only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int32]
_COLUMNS = ("src", "dst", "lo", "count")


class Transfer(NamedTuple):
    """Blocks that go from one position to another in a plain step, reduced into what is there or copied over it."""

    src: int
    dst: int
    blocks: tuple[int, ...]
    reduce: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """Transfers that happen together; entry i moves blocks [lo, lo+count) from src to dst.

    Args:
        src: positions, int32, one entry a transfer; a pair of positions may occur more than once.
        dst: positions, as src.
        lo: first block. Ranges are cyclic inside the aligned window that holds lo.
        count: blocks, at least 1 and at most a window.
        reduce: the reader combines what arrives with what it has; otherwise it overwrites.
        times: the step is done so often, one after the other.
        shift: every time, all ranges move on by so many blocks, cyclic inside their windows.
        window: blocks of a window; 0 for one window of all blocks.

    Raises:
        ValueError: arrays of another type or of unequal length, or a negative times or window.
    """

    src: IntArray
    dst: IntArray
    lo: IntArray
    count: IntArray
    reduce: bool = False
    times: int = 1
    shift: int = 0
    window: int = 0

    def __post_init__(self) -> None:
        for name in _COLUMNS:
            array = getattr(self, name)
            if array.dtype != np.int32 or array.ndim != 1 or array.shape != self.src.shape:
                raise ValueError(f"{name} has {array.dtype} {array.shape}, not int32 {self.src.shape}")
            fixed = array.view()
            fixed.setflags(write=False)
            object.__setattr__(self, name, fixed)
        if self.times < 0 or self.window < 0:
            raise ValueError(f"times {self.times} or window {self.window} is negative")

    @classmethod
    def of(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        lo: ArrayLike = 0,
        count: ArrayLike = 1,
        *,
        reduce: bool = False,
        times: int = 1,
        shift: int = 0,
    ) -> Step:
        """A step from anything that broadcasts to one dimension."""
        arrays = (np.atleast_1d(np.asarray(part, np.int32)) for part in (src, dst, lo, count))
        full = np.broadcast_arrays(*arrays)
        return cls(src=full[0], dst=full[1], lo=full[2], count=full[3], reduce=reduce, times=times, shift=shift)

    def only(self, keep: NDArray[np.bool_]) -> Step:
        """The same step with only the transfers where ``keep`` holds."""
        return replace(self, src=self.src[keep], dst=self.dst[keep], lo=self.lo[keep], count=self.count[keep])

    def split(self, blocks: int) -> tuple[IntArray, IntArray, int]:
        """(first block of each range's window, offset of lo in it, blocks of a window), in a schedule of ``blocks``."""
        window = self.window or blocks
        offset = self.lo % window
        return self.lo - offset, offset, window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Steps, one after the other, over n positions and so many blocks. Steps that move nothing are left out.

    Two schedules are compared by what they expand to, not by ``==``.

    Raises:
        ValueError: a position, block or count out of range, or a window that does not divide the blocks.
    """

    n: int
    blocks: int
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        steps = tuple(step for step in self.steps if step.times and step.src.size)
        object.__setattr__(self, "steps", steps)
        if self.n < 1 or self.blocks < 1:
            raise ValueError(f"{self.n} positions and {self.blocks} blocks are not a schedule")
        if not steps:
            return
        # All steps at once: a chain has as many steps as positions, and numpy's cost is by the call.
        src, dst, lo, count = (np.concatenate([getattr(step, name) for step in steps]) for name in _COLUMNS)
        windows = [step.window or self.blocks for step in steps]
        if any(self.blocks % window for window in set(windows)):
            raise ValueError(f"windows {sorted(set(windows))} do not all divide {self.blocks} blocks")
        if min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= self.n:
            raise ValueError(f"a position is outside 0 .. {self.n - 1}")
        if lo.min() < 0 or lo.max() >= self.blocks:
            raise ValueError(f"a block is outside 0 .. {self.blocks - 1}")
        if count.min() < 1 or np.any(count > np.repeat(windows, [step.src.size for step in steps])):
            raise ValueError("a transfer moves no block, or more than its window has")

    @property
    def n_steps(self) -> int:
        """Steps when carried out, repetitions counted."""
        return sum(step.times for step in self.steps)

    def __add__(self, other: Schedule) -> Schedule:
        """This schedule, then the other."""
        self._same_shape(other)
        return replace(self, steps=self.steps + other.steps)

    def __or__(self, other: Schedule) -> Schedule:
        """Both at the same time: step k of one beside step k of the other.

        Raises:
            ValueError: steps that meet differ in reduce, times, shift or window, which one step cannot say.
        """
        self._same_shape(other)
        pairs = zip_longest(self.steps, other.steps)
        return replace(self, steps=tuple(b if a is None else a if b is None else _beside(a, b) for a, b in pairs))

    def _same_shape(self, other: Schedule) -> None:
        if (self.n, self.blocks) != (other.n, other.blocks):
            raise ValueError(
                f"schedules of {self.n} positions, {self.blocks} blocks and of {other.n}, {other.blocks} do not join"
            )

    def reversed(self) -> Schedule:
        """Backwards, with copies and reductions exchanged: all_gather becomes reduce_scatter, broadcast becomes reduce.

        Right where every position receives each block at most once (Chan et al. 2007, on dual collectives).
        """
        return replace(self, steps=tuple(self._backwards(step, not step.reduce) for step in self.steps[::-1]))

    def mirrored(self) -> Schedule:
        """Backwards, still copying: scatter becomes gather.

        Raises:
            ValueError: the schedule reduces, and a sum cannot be taken apart.
        """
        if any(step.reduce for step in self.steps):
            raise ValueError("a schedule that reduces has no mirror image that copies")
        return replace(self, steps=tuple(self._backwards(step, False) for step in self.steps[::-1]))

    def _backwards(self, step: Step, reduce: bool) -> Step:
        base, offset, window = step.split(self.blocks)
        lo = base + (offset + step.shift * (step.times - 1) % window) % window
        return replace(step, src=step.dst, dst=step.src, lo=lo, shift=-step.shift, reduce=reduce)

    def refine(self, k: int) -> Schedule:
        """Every block cut into k blocks; the same data moves in the same steps."""
        steps = (
            replace(s, lo=s.lo * k, count=s.count * k, shift=s.shift * k, window=(s.window or self.blocks) * k)
            for s in self.steps
        )
        return Schedule(n=self.n, blocks=self.blocks * k, steps=tuple(steps))

    def place(self, ranks: ArrayLike, n: int, base: ArrayLike = 0, blocks: int | None = None) -> Schedule:
        """Copies of this schedule, side by side, on other positions and blocks.

        Args:
            ranks: shape (copies, self.n) or (self.n,): copy i's position p becomes position ranks[i, p].
            n: positions of the result.
            base: shape (copies,) or one number: copy i's block b becomes block base[i] + b. A multiple of self.blocks.
            blocks: blocks of the result; self.blocks if None.
        """
        where = np.atleast_2d(np.asarray(ranks, np.int32))
        bases = np.broadcast_to(np.asarray(base, np.int32), len(where))[:, None]
        if where.shape[1:] != (self.n,) or np.any(bases % self.blocks):
            raise ValueError(
                f"ranks {where.shape}, bases {bases.ravel()} do not fit {self.n} positions, {self.blocks} blocks"
            )
        steps = (
            replace(
                s,
                src=where[:, s.src].ravel(),
                dst=where[:, s.dst].ravel(),
                lo=(bases + s.lo).ravel(),
                count=np.tile(s.count, len(where)),
                window=s.window or self.blocks,
            )
            for s in self.steps
        )
        return Schedule(n=n, blocks=self.blocks if blocks is None else blocks, steps=tuple(steps))

    def renamed(self, names: ArrayLike) -> Schedule:
        """The same moves with block b called names[b] (a permutation), in as few ranges as the new names allow.

        Repeated steps are written out, and ranges too where the names scatter them: up to one entry for a block moved.
        """
        new = np.asarray(names, np.int32)
        steps = []
        for step in self.steps:
            base, offset, window = step.split(self.blocks)
            nth = np.arange(step.count.sum()) - np.repeat(np.cumsum(step.count) - step.count, step.count)
            src, dst, base, offset = (np.repeat(part, step.count) for part in (step.src, step.dst, base, offset))
            for t in range(step.times):
                block = new[base + (offset + nth + t * step.shift % window) % window]
                order = np.lexsort((block, dst, src))
                moves = np.stack([src, dst, block])[:, order]
                follows = np.all(np.diff(moves) == [[0], [0], [1]], axis=0)
                first = np.flatnonzero(np.append(True, ~follows))
                count = np.diff(np.append(first, len(order)))
                steps.append(Step.of(moves[0, first], moves[1, first], moves[2, first], count, reduce=step.reduce))
        return replace(self, steps=tuple(steps))

    def expand(self) -> Iterator[list[Transfer]]:
        """The plain steps, repetitions written out."""
        for step in self.steps:
            base, offset, window = step.split(self.blocks)
            fixed = list(zip(*(part.tolist() for part in (step.src, step.dst, base, step.count)), strict=True))
            for t in range(step.times):
                at = ((offset + t * step.shift % window) % window).tolist()
                yield [
                    Transfer(src, dst, _cyclic(first, lo, count, window), step.reduce)
                    for (src, dst, first, count), lo in zip(fixed, at, strict=True)
                ]


def _beside(a: Step, b: Step) -> Step:
    if (a.reduce, a.times, a.shift, a.window) != (b.reduce, b.times, b.shift, b.window):
        raise ValueError("steps that differ in reduce, times, shift or window cannot run as one step")
    src, dst, lo, count = (np.concatenate([getattr(a, name), getattr(b, name)]) for name in _COLUMNS)
    return replace(a, src=src, dst=dst, lo=lo, count=count)


def _cyclic(first: int, lo: int, count: int, window: int) -> tuple[int, ...]:
    """Blocks lo .. lo+count-1 of the window that starts at block ``first``, ascending from lo and around."""
    end = first + window
    blocks = range(first + lo, min(first + lo + count, end))
    return (*blocks, *range(first, first + lo + count - window))
