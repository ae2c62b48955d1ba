"""Programs without outboxes: right, free of races, and refused where they cannot be.

The machine (tests/zero_copy) judges; `happens_before` has proved the same, by rules of its own, when it compiled them.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from zero_copy.machine import Call, Fault, run

from autotune.kernels.program import BEFORE_POST, TO_OUTPUT, Instruction, Program, Space
from autotune.kernels.programs import single_copy_names, zero_copy_names
from autotune.kernels.schedules.registry import build, names
from autotune.kernels.zero_copy import NotZeroCopy, compile_single_copy, compile_zero_copy
from autotune.types import Collective

C = Collective
ROOTLESS = (C.SCATTER, C.GATHER)  # their buffer is on the root only
SHARING = tuple(c for c in Collective if c not in ROOTLESS)
MOST_RANKS = 9


@functools.lru_cache(maxsize=4096)
def programs(collective: Collective, name: str, n: int, in_place: bool, root: int = 0) -> tuple[Program, ...]:
    order = tuple((position + root) % n for position in range(n))
    return compile_zero_copy(collective, build(collective, name, n), order, in_place=in_place)


def roots(collective: Collective, n: int) -> list[int]:
    return sorted({0, n // 2, n - 1}) if collective.has_root else [0]


def refusal(collective: Collective, name: str, n: int, in_place: bool, root: int = 0) -> str | None:
    """Why there is no such program; None where there is one."""
    try:
        programs(collective, name, n, in_place, root)
    except NotZeroCopy as err:
        return str(err)
    return None


def compiled(collective: Collective, n: int) -> list[tuple[str, bool]]:
    """(algorithm, in place) of every program that there is."""
    both = [(name, in_place) for name in names(collective, n) for in_place in (False, True)]
    return [(name, in_place) for name, in_place in both if refusal(collective, name, n, in_place) is None]


def in_any_order(calls: Sequence[Call], seed: int) -> None:
    """Ranks in random order; now and then one of them goes as far as it can, or is left behind."""
    rng = random.Random(seed)
    favourite, bias = rng.randrange(len(calls[0].programs)), rng.choice((0.0, 0.5, 0.97))

    def choose(ready: Sequence[int]) -> int:
        if rng.random() < bias:
            return favourite if favourite in ready else ready[0]
        return rng.choice([rank for rank in ready if rank != favourite] if bias and len(ready) > 1 else list(ready))

    run(calls, choose)


@pytest.mark.parametrize("n", range(1, MOST_RANKS + 1))
@pytest.mark.parametrize("collective", SHARING)
def test_programs_do_what_their_collective_means_without_a_race(collective: Collective, n: int) -> None:
    """Two calls back to back, the first one cut: its callers overwrite everything as soon as they are back."""
    for name, in_place in compiled(collective, n):
        for root in roots(collective, n):
            ranks = programs(collective, name, n, in_place, root)
            assert [p.rank for p in ranks] == list(range(n))
            in_any_order([Call(ranks, root, slices=2), Call(ranks, root)], seed=n)


@pytest.mark.parametrize("collective", SHARING)
def test_what_must_be_equal_on_all_ranks_is(collective: Collective) -> None:
    for n in range(1, MOST_RANKS + 1):
        for name, in_place in compiled(collective, n):
            same = {
                (len(p.levels), p.blocks, p.piece_blocks, p.synchronising, p.in_place, p.shares_input, p.shares_output)
                for p in programs(collective, name, n, in_place)
            }
            assert len(same) == 1, (collective, name, n)
            assert all(p.zero_copy and p.in_place == in_place for p in programs(collective, name, n, in_place))


@functools.lru_cache(maxsize=4096)
def private_programs(collective: Collective, name: str, n: int, root: int = 0) -> tuple[Program, ...] | None:
    """Programs that read private buffers; None where the algorithm has none."""
    order = tuple((position + root) % n for position in range(n))
    try:
        return compile_single_copy(collective, build(collective, name, n), order)
    except NotZeroCopy:
        return None


@pytest.mark.parametrize("n", range(1, MOST_RANKS + 1))
@pytest.mark.parametrize("collective", Collective)
def test_private_buffers_are_read_without_a_race_whoever_is_in_place(collective: Collective, n: int) -> None:
    rng = random.Random(n)
    everyone = range(0 if collective is C.ALL_TO_ALL else n)
    for name in names(collective, n):
        for root in roots(collective, n):
            ranks = private_programs(collective, name, n, root)
            if ranks is None:
                continue
            assert all(p.single_copy and p.zero_copy and not p.in_place for p in ranks)
            assert not any(op.stores for p in ranks for level in p.levels for op in level)
            for in_place in ((), everyone, [rank for rank in everyone if rng.random() < 0.5]):
                some = frozenset(in_place)
                calls = [Call(ranks, root, slices=2, in_place=some), Call(ranks, root, in_place=some)]
                in_any_order(calls, seed=n)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_every_collective_has_an_algorithm_that_reads_private_buffers(n: int) -> None:
    for collective in Collective:
        simplest = "flat" if collective.has_root else "direct"
        assert private_programs(collective, simplest, n) is not None, collective
        assert simplest in single_copy_names(collective, n, (simplest,))
    assert single_copy_names(C.ALL_REDUCE, 1) == ()


@st.composite
def sequences(draw: st.DrawFn) -> list[Call]:
    """Calls of any programs over the same ranks, cut anyhow."""
    n = draw(st.integers(2, 6))
    calls = []
    for _ in range(draw(st.integers(1, 4))):
        collective = draw(st.sampled_from(SHARING))
        name, in_place = draw(st.sampled_from(compiled(collective, n)))
        root = draw(st.integers(0, n - 1)) if collective.has_root else 0
        ranks = programs(collective, name, n, in_place, root)
        spacing = draw(st.integers(1, len(ranks[0].levels)))
        calls.append(Call(ranks, root, slices=draw(st.integers(1, 4)), spacing=spacing))
    return calls


@settings(max_examples=60, deadline=None)
@given(sequences(), st.integers(0, 1 << 30))
def test_calls_that_follow_each_other_do_not_meet(calls: list[Call], seed: int) -> None:
    in_any_order(calls, seed)


def changed(ranks: Sequence[Program], rank: int, level: int, number: int, ops: Sequence[Instruction]) -> list[Program]:
    """The programs with one instruction replaced."""
    program = ranks[rank]
    levels = list(program.levels)
    levels[level] = (*levels[level][:number], *ops, *levels[level][number + 1 :])
    return [*ranks[:rank], replace(program, levels=tuple(levels)), *ranks[rank + 1 :]]


def without(values: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return (values[:i] + values[i + 1 :] for i in range(len(values)))


def mutants(ranks: Sequence[Program]) -> Iterator[tuple[str, list[Program]]]:
    """(what is broken, the programs), all of them wrong."""
    for rank, program in enumerate(ranks):

        def of_rank(rank: int = rank, program: Program = program, **fields: object) -> list[Program]:
            return [*ranks[:rank], replace(program, **fields), *ranks[rank + 1 :]]  # type: ignore[arg-type]

        for at, posts in enumerate(program.posts):
            if posts:
                yield "post", of_rank(posts=(*program.posts[:at], False, *program.posts[at + 1 :]))
        if program.final_waits:  # one of them may tell of the others' ends
            yield "final waits", of_rank(final_waits=())
        for fewer in without(program.readers):
            yield "reader", of_rank(readers=fewer)
        for level, ops in enumerate(program.levels):
            peers = {source.rank for op in ops for source in op.sources if source.space >= Space.PEER}  # awaited anyway
            announcing = [number for number, op in enumerate(ops) if op.destinations & BEFORE_POST]
            if announcing and program.posts[level]:  # its message goes out after the last of them
                op = ops[announcing[-1]]
                early = replace(op, destinations=op.destinations ^ BEFORE_POST)
                yield "message before the data", changed(ranks, rank, level, announcing[-1], [early])
            for number, op in enumerate(ops):
                change = functools.partial(changed, ranks, rank, level, number)
                for other in op.waits:
                    if other not in peers:
                        yield "wait", change([replace(op, waits=tuple(w for w in op.waits if w != other))])
                for i in range(len(op.stores)):
                    yield "store", change([replace(op, stores=op.stores[:i] + op.stores[i + 1 :])])
                if op.destinations & TO_OUTPUT:
                    yield "output", change([replace(op, destinations=op.destinations ^ TO_OUTPUT)])
                if len(op.sources) > 1:
                    yield "operand", change([replace(op, sources=op.sources[1:])])
                    yield "order of operands", change([replace(op, sources=op.sources[::-1])])
                    yield "completes", change([replace(op, completes=not op.completes)])


CLASSES = [  # pull or push, copy or reduce, through scratch, in place, with a root
    (C.ALL_REDUCE, "direct", 4, False, 0),
    (C.ALL_REDUCE, "direct", 4, True, 0),
    (C.ALL_REDUCE, "ring", 3, True, 0),
    (C.ALL_REDUCE, "flat", 3, False, 0),
    (C.ALL_REDUCE, "recursive_doubling", 2, False, 0),
    (C.ALL_REDUCE, "recursive_halving_doubling", 4, True, 0),
    (C.ALL_GATHER, "direct", 4, True, 0),
    (C.ALL_GATHER, "ring", 4, False, 0),
    (C.REDUCE_SCATTER, "direct", 4, True, 0),
    (C.REDUCE_SCATTER, "direct", 3, False, 0),
    (C.BROADCAST, "tree", 5, True, 2),
    (C.BROADCAST, "direct", 4, False, 1),
    (C.REDUCE, "direct", 4, True, 1),
    (C.REDUCE, "direct", 3, False, 2),
    (C.ALL_TO_ALL, "direct", 4, False, 0),
]
PRIVATE = [
    (C.ALL_REDUCE, "direct", 4, 0),
    (C.ALL_GATHER, "ring", 3, 0),
    (C.REDUCE_SCATTER, "direct", 3, 0),
    (C.BROADCAST, "tree", 5, 2),
    (C.GATHER, "flat", 3, 1),
]


@pytest.mark.parametrize(("collective", "name", "n", "in_place", "root"), CLASSES)
def test_the_machine_sees_every_mutant(collective: Collective, name: str, n: int, in_place: bool, root: int) -> None:
    ranks = programs(collective, name, n, in_place, root)
    kinds = set()
    for what, mutant in mutants(ranks):
        kinds.add(what)
        with pytest.raises(Fault):
            in_any_order([Call(mutant, root, slices=2), Call(mutant, root)], seed=1)
    assert {"post", "reader"} < kinds


@pytest.mark.parametrize(("collective", "name", "n", "root"), PRIVATE)
def test_the_machine_sees_every_mutant_of_a_program_that_reads_private_buffers(
    collective: Collective, name: str, n: int, root: int
) -> None:
    ranks = private_programs(collective, name, n, root)
    assert ranks is not None

    def in_place_and_not(programs: list[Program]) -> None:
        for in_place in (frozenset(range(n)), frozenset[int]()):
            calls = [Call(programs, root, slices=2, in_place=in_place), Call(programs, root, in_place=in_place)]
            in_any_order(calls, seed=1)

    for _, mutant in mutants(ranks):
        with pytest.raises(Fault):
            in_place_and_not(mutant)


def test_every_kind_of_mutant_occurs() -> None:
    kinds = {what for case in CLASSES for what, _ in mutants(programs(*case))}
    assert kinds == {
        *("post", "reader", "wait", "final waits", "message before the data"),
        *("store", "output", "operand", "order of operands", "completes"),
    }


def test_the_root_decides_nothing() -> None:
    for collective in SHARING:
        for n in range(2, MOST_RANKS + 1):
            for name in names(collective, n):
                for in_place in (False, True):
                    refused = {refusal(collective, name, n, in_place, r) is None for r in roots(collective, n)}
                    assert len(refused) == 1, (collective, name, n, in_place)


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("name", ["flat", "recursive_doubling"])
def test_what_peers_still_read_is_not_overwritten(name: str, n: int) -> None:
    """Partners exchange whole buffers: each would store its sum over what the other one reads in the same step."""
    reason = "rank 0 overwrites block 0 of rank 0's output at step 1 while rank 1 may use it"
    assert refusal(C.ALL_REDUCE, name, n, in_place=True) == reason


def test_out_of_place_the_first_exchange_reads_inputs_which_nobody_overwrites() -> None:
    assert refusal(C.ALL_REDUCE, "flat", 4, in_place=False) is None
    assert refusal(C.ALL_REDUCE, "recursive_doubling", 2, in_place=False) is None
    reason = "rank 0 overwrites block 0 of rank 0's output at step 2 while rank 2 may use it"
    assert refusal(C.ALL_REDUCE, "recursive_doubling", 4, in_place=False) == reason


def test_what_a_rank_passes_on_must_not_lie_in_its_scratch() -> None:
    """A reduce-scatter's output has room for one block; a ring sums other blocks on the way."""
    reason = "rank 3 keeps block 1 in scratch, where rank 0 cannot read it"
    assert refusal(C.REDUCE_SCATTER, "ring", 4, in_place=False) == reason


def test_collectives_without_a_buffer_on_every_rank_are_refused() -> None:
    for collective in ROOTLESS:
        for n in range(1, MOST_RANKS + 1):
            assert zero_copy_names(collective, n) == ()
            for name in names(collective, n):
                assert "root only" in (refusal(collective, name, n, in_place=False) or "")
    assert refusal(C.ALL_TO_ALL, "direct", 3, in_place=True) == "all_to_all is never in place"


@pytest.mark.parametrize("collective", SHARING)
def test_the_names_that_are_offered_run_in_place_and_not(collective: Collective) -> None:
    for n in range(2, MOST_RANKS + 1):
        offered = zero_copy_names(collective, n)
        assert "direct" in offered or n == 2, "the default of symmetric memory"
        for name in offered:
            assert refusal(collective, name, n, in_place=False) is None
            assert collective is C.ALL_TO_ALL or refusal(collective, name, n, in_place=True) is None
