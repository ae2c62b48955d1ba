"""Every schedule does its collective, and whatever does not is caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from schedules.cases import cases
from schedules.simulator import fault

from autotune.kernels.schedules import Schedule, ScheduleError, Step, check, holds, names
from autotune.types import Collective


@pytest.mark.parametrize("collective", Collective)
@pytest.mark.parametrize("n", range(1, 34))
def test_every_schedule_does_its_collective(collective: Collective, n: int) -> None:
    checked = 0
    for case in cases([n]):
        if case.collective is collective:
            check(collective, case.build())
            checked += 1
    assert checked >= len(names(collective, n)) >= 2


def test_the_judge_of_the_mutants_agrees_on_the_originals() -> None:
    for case in cases((1, 2, 3, 4, 7)):
        assert fault(case.collective, case.build()) is None, case


def mutants(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """Every schedule that differs in one transfer (or, for a flipped reduce, one step)."""
    written_out = schedule.renamed(np.arange(schedule.blocks))
    for k, step in enumerate(written_out.steps):

        def with_step(new: Step, k: int = k) -> Schedule:
            return replace(written_out, steps=(*written_out.steps[:k], new, *written_out.steps[k + 1 :]))

        yield "reduce flipped", with_step(replace(step, reduce=not step.reduce))
        for i in range(step.src.size):
            yield "dropped", with_step(step.only(np.arange(step.src.size) != i))
            for name, size in (("src", schedule.n), ("dst", schedule.n), ("lo", schedule.blocks)):
                original = getattr(step, name)
                for by in range(1, size):
                    if name == "lo" and step.count[i] == schedule.blocks:
                        continue  # all blocks, from another one on, are still all blocks
                    changed = original.copy()
                    changed[i] = (changed[i] + by) % size
                    yield f"{name} changed", with_step(replace(step, **{name: changed}))


def verdict(collective: Collective, schedule: Schedule) -> str | None:
    try:
        check(collective, schedule)
    except ScheduleError as error:
        return str(error)
    return None


def test_check_rejects_exactly_the_mutants_that_the_simulator_finds_wrong() -> None:
    random = np.random.default_rng(20260101)
    killed: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    for case in cases((2, 3, 4, 5, 6)):
        every = list(mutants(case.build()))
        for index in random.permutation(len(every))[:60]:
            kind, mutant = every[index]
            judged, wrong = verdict(case.collective, mutant), fault(case.collective, mutant)
            assert (judged is None) == (wrong is None), f"{case}, {kind}: check says {judged}, the simulator {wrong}"
            (survived if judged is None else killed)[kind] += 1
    assert set(killed) == {"reduce flipped", "dropped", "src changed", "dst changed", "lo changed"}
    assert min(killed.values()) > 100, killed
    # A block may come from another position that has it as well: such a mutant is a right schedule.
    assert survived.total() < 0.1 * killed.total(), (killed, survived)


@pytest.mark.parametrize(
    ("collective", "blocks", "steps", "complaint"),
    [
        (Collective.BROADCAST, 1, [Step.of(0, 0)], "step 0: position 0 sends to itself"),
        (Collective.BROADCAST, 1, [Step.of(1, 2)], "position 1 sends block 0, which it does not hold"),
        (Collective.BROADCAST, 1, [Step.of([0, 1], [1, 2])], "position 1 sends block 0, which it does not hold"),
        (Collective.BROADCAST, 1, [Step.of(0, 1), Step.of(0, 2, reduce=True)], "step 1: position 2 reduces .* nothing"),
        (Collective.BROADCAST, 1, [Step.of(0, 1)], "position 2 ends with contributions 0b0 in block 0, not 0b1"),
        (
            Collective.REDUCE,
            1,
            [Step.of(1, 0, reduce=True)] * 2,
            "step 1: block 0 from 1 is counted twice",
        ),
        (Collective.REDUCE, 1, [Step.of([1, 1], 0, reduce=True)], "step 0: block 0 from 1 is counted twice"),
        (Collective.REDUCE, 1, [Step.of([1, 2], 0)], "block 0 of position 0 is written twice"),
        (Collective.REDUCE, 1, [Step.of(1, 0), Step.of(2, 0, reduce=True)], "ends with contributions 0b110"),
        (Collective.SCATTER, 3, [Step.of(0, [1, 2], [2, 1])], "position 1 ends with contributions 0b0 in block 1"),
    ],
)
def test_each_rule_of_check(collective: Collective, blocks: int, steps: list[Step], complaint: str) -> None:
    with pytest.raises(ScheduleError, match=complaint):
        check(collective, Schedule(n=3, blocks=blocks, steps=tuple(steps)))


def test_a_step_reads_the_state_before_it() -> None:
    exchange = Step.of([0, 1], [1, 0], reduce=True)
    check(Collective.ALL_REDUCE, Schedule(n=2, blocks=1, steps=(exchange,)))


def test_the_number_of_blocks_must_fit_the_collective() -> None:
    for collective, blocks in ((Collective.ALL_GATHER, 4), (Collective.ALL_TO_ALL, 3)):
        with pytest.raises(ScheduleError, match=f"{collective.value} over 3 positions needs a multiple of"):
            holds(collective, 3, blocks)
    assert holds(Collective.ALL_REDUCE, 3, 5)[1] == [[7] * 5] * 3


def test_who_holds_what() -> None:
    assert holds(Collective.ALL_GATHER, 2, 2) == ([[1, 0], [0, 2]], [[1, 2], [1, 2]])
    assert holds(Collective.REDUCE_SCATTER, 2, 2) == ([[1, 1], [2, 2]], [[3, 0], [0, 3]])
    assert holds(Collective.SCATTER, 2, 2) == ([[1, 1], [0, 0]], [[1, 0], [0, 1]])
    assert holds(Collective.GATHER, 2, 2) == ([[1, 0], [0, 2]], [[1, 2], [0, 0]])
    assert holds(Collective.ALL_TO_ALL, 2, 4) == ([[1, 1, 0, 0], [0, 0, 2, 2]], [[1, 0, 2, 0], [0, 1, 0, 2]])
    assert holds(Collective.REDUCE, 2, 1) == ([[1], [2]], [[3], [0]])
    assert holds(Collective.BROADCAST, 2, 1) == ([[1], [0]], [[1], [1]])
    assert holds(Collective.ALL_GATHER, 2, 4)[0] == [[1, 1, 0, 0], [0, 0, 2, 2]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_all_reduce_ends_with_the_same_bits_everywhere(dtype: type[np.floating]) -> None:
    """As the executors do it: arrivals of one block in one step are summed in order of position, own value in place."""
    random = np.random.default_rng(1)
    for case in cases(range(1, 10)):
        if case.collective is not Collective.ALL_REDUCE:
            continue
        schedule = case.build()
        values = random.standard_normal((case.n, schedule.blocks, 16)).astype(dtype)
        for step in schedule.expand():
            old = values.copy()
            arrivals: dict[tuple[int, int], list[int]] = {}
            for src, dst, blocks, reduce in step:
                for block in blocks:
                    arrivals.setdefault((dst, block), [dst] if reduce else []).append(src)
            for (dst, block), sources in arrivals.items():
                total = old[min(sources), block].copy()
                for source in sorted(sources)[1:]:
                    total += old[source, block]
                values[dst, block] = total
        assert all(values[p].tobytes() == values[0].tobytes() for p in range(case.n)), case
