"""Where arrays of symmetric memory lie, against a model of pages."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autotune.kernels.symmetric import ALIGNMENT, Heap


class HeapAgainstAModel(RuleBasedStateMachine):
    """First fit on a list of pages."""

    @initialize(pages=st.integers(0, 12), odd=st.integers(0, ALIGNMENT - 1))
    def begin(self, pages: int, odd: int) -> None:
        self.heap = Heap(pages * ALIGNMENT + odd)
        self.pages: list[int | None] = [None] * pages  # the array that has the page
        self.arrays: dict[int, int] = {}  # offset -> pages

    @rule(size=st.integers(0, 5 * ALIGNMENT))
    def reserve(self, size: int) -> None:
        wanted = max(1, -(-size // ALIGNMENT))
        gaps = [at for at in range(len(self.pages)) if self.pages[at : at + wanted] == [None] * wanted]
        offset = self.heap.reserve(size)
        assert offset == (gaps[0] * ALIGNMENT if gaps else None)
        if offset is not None:
            self.pages[gaps[0] : gaps[0] + wanted] = [offset] * wanted
            self.arrays[offset] = wanted

    @precondition(lambda self: self.arrays)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.arrays)))
        assert self.heap.length(offset) == self.arrays.pop(offset) * ALIGNMENT
        self.heap.release(offset)
        self.pages = [None if page == offset else page for page in self.pages]

    @rule(offset=st.integers(-1, 12 * ALIGNMENT) | st.integers(0, 12).map(lambda page: page * ALIGNMENT))
    def ask(self, offset: int) -> None:
        known = self.arrays.get(offset)
        assert self.heap.length(offset) == (None if known is None else known * ALIGNMENT)

    @invariant()
    def sizes(self) -> None:
        assert self.heap.used_bytes == ALIGNMENT * sum(page is not None for page in self.pages)
        assert bool(self.heap) == bool(self.arrays)


TestHeap = HeapAgainstAModel.TestCase
