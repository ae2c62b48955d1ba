"""Compiled programs, carried out by an interpreter of its own on sets of contributions instead of numbers.

A block is the set of (rank, input block) that went into it. Reducing two sets that overlap counts something twice;
reading what was never written, or a message of another step, is a fault, and so is a message that nobody reads. So is
everything that the executor relies on: readers, sizes, the order of operands, the bits `completes` and `synchronising`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from autotune.kernels.compiler import compile_program
from autotune.kernels.program import TO_OUTBOX, TO_OUTPUT, TO_SCRATCH, Instruction, Program, RemoteReader, Space
from autotune.kernels.schedules.registry import build, names
from autotune.kernels.zero_copy import compile_zero_copy
from autotune.types import Collective

Block = frozenset[tuple[int, int]]
Memory = dict[tuple[Space, int], Block]
Message = dict[int, Block]


class Fault(AssertionError):
    """A program that does what it must not."""


def programs(collective: Collective, name: str, n: int, root: int) -> list[Program]:
    order = tuple((position + root) % n for position in range(n))
    schedule = build(collective, name, n)
    return [compile_program(collective, schedule, rank, order) for rank in range(n)]


def inputs(collective: Collective, n: int, blocks: int, root: int) -> list[Memory]:
    """Every rank's input buffer, block by block."""
    width = {
        Collective.ALL_GATHER: 1,
        Collective.GATHER: 1,
        Collective.REDUCE_SCATTER: n,
        Collective.SCATTER: n,
        Collective.ALL_TO_ALL: n,
    }.get(collective, blocks)
    owners = [root] if collective in (Collective.BROADCAST, Collective.SCATTER) else range(n)
    return [
        {(Space.INPUT, b): frozenset({(rank, b)}) for b in range(width)} if rank in owners else {} for rank in range(n)
    ]


def wanted(collective: Collective, n: int, blocks: int, root: int) -> list[list[Block] | None]:
    """Every rank's output buffer; None where it has none."""

    def of_all(b: int) -> Block:
        return frozenset((rank, b) for rank in range(n))

    def one(rank: int, b: int) -> Block:
        return frozenset({(rank, b)})

    everyone = range(n)
    match collective:
        case Collective.ALL_REDUCE:
            return [[of_all(b) for b in range(blocks)]] * n
        case Collective.REDUCE:
            return [[of_all(b) for b in range(blocks)] if rank == root else None for rank in everyone]
        case Collective.REDUCE_SCATTER:
            return [[of_all(rank)] for rank in everyone]
        case Collective.BROADCAST:
            return [[one(root, b) for b in range(blocks)]] * n
        case Collective.SCATTER:
            return [[one(root, rank)] for rank in everyone]
        case Collective.ALL_GATHER:
            return [[one(source, 0) for source in everyone]] * n
        case Collective.GATHER:
            return [[one(source, 0) for source in everyone] if rank == root else None for rank in everyone]
        case Collective.ALL_TO_ALL:
            return [[one(source, rank) for source in everyone] for rank in everyone]


def run(ranks: Sequence[Program], memories: list[Memory]) -> list[Memory]:
    """All ranks, superstep by superstep.

    Raises:
        Fault: naming rank, level and what is wrong.
    """
    n = len(ranks)
    heard = [{rank} for rank in range(n)]
    published: list[Message] = [{} for _ in range(n)]
    if len({(len(p.levels), p.blocks, p.piece_blocks, p.synchronising) for p in ranks}) > 1:
        raise Fault("ranks differ in what must be equal")
    for level in range(len(ranks[0].levels)):
        sent: list[Message] = [{} for _ in range(n)]
        heard_now = [set(known) for known in heard]
        read: set[tuple[int, int]] = set()
        for rank, program in enumerate(ranks):
            for op in program.levels[level]:
                _carry_out(program, op, memories[rank], published, sent[rank], ranks, f"rank {rank}, level {level}")
                for source in op.sources:
                    if source.space is Space.PEER:
                        heard_now[rank] |= heard[source.rank]
                        read |= {(source.rank, source.index + i) for i in range(op.width)}
            if program.posts[level] != bool(sent[rank]):
                raise Fault(f"rank {rank}, level {level}: posts is {program.posts[level]} with {sent[rank]} to send")
        if read != {(rank, piece) for rank, message in enumerate(published) for piece in message}:
            raise Fault(f"level {level}: of {published}, {read} is read")
        published, heard = sent, heard_now
    if any(published):
        raise Fault(f"nobody reads the last messages, {published}")
    if ranks[0].synchronising != all(len(known) == n for known in heard):
        raise Fault(f"synchronising is {ranks[0].synchronising}, and the ends depend on {heard}")
    return memories


def _carry_out(
    program: Program,
    op: Instruction,
    memory: Memory,
    published: Sequence[Message],
    sent: Message,
    ranks: Sequence[Program],
    where: str,
) -> None:
    if [source.rank for source in op.sources] != sorted({source.rank for source in op.sources}):
        raise Fault(f"{where}: operands are not in the order of ranks")
    if op.block + op.width > program.blocks:
        raise Fault(f"{where}: block {op.block} + {op.width} of {program.blocks}")
    for i in range(op.width):
        operands = []
        for source in op.sources:
            if source.space is Space.PEER:
                if program.rank not in ranks[source.rank].readers:
                    raise Fault(f"{where}: reads from rank {source.rank}, which does not know it")
                value = published[source.rank].get(source.index + i)
            else:
                value = memory.get((source.space, source.index + i))
            if value is None:
                raise Fault(f"{where}: {source} + {i} holds nothing")
            operands.append(value)
        result = frozenset().union(*operands)
        if len(result) != sum(map(len, operands)):
            raise Fault(f"{where}: a contribution is counted twice")
        if op.completes != (len(op.sources) > 1 and len(result) == len(ranks)):
            raise Fault(f"{where}: completes is {op.completes} with {len(result)} of {len(ranks)}")
        if op.destinations & TO_OUTPUT:
            memory[Space.OUTPUT, op.memory_index + i] = result
        if op.destinations & TO_SCRATCH:
            if op.memory_index + i >= program.scratch_blocks:
                raise Fault(f"{where}: scratch {op.memory_index + i} of {program.scratch_blocks}")
            memory[Space.SCRATCH, op.memory_index + i] = result
        if op.destinations & TO_OUTBOX:
            if op.piece + i in sent or op.piece + i >= program.piece_blocks:
                raise Fault(f"{where}: piece {op.piece + i} is written twice or beyond the end")
            sent[op.piece + i] = result


def check(collective: Collective, ranks: Sequence[Program], root: int) -> None:
    n, blocks = len(ranks), ranks[0].blocks
    memories = run(ranks, inputs(collective, n, blocks, root))
    for rank, want in enumerate(wanted(collective, n, blocks, root)):
        got = {index: value for (space, index), value in memories[rank].items() if space is Space.OUTPUT}
        if got != (dict(enumerate(want)) if want is not None else {}):
            raise Fault(f"rank {rank} ends with {got}, not {want}")


@pytest.mark.parametrize("n", range(1, 10))
@pytest.mark.parametrize("collective", Collective)
def test_programs_do_what_their_collective_means(collective: Collective, n: int) -> None:
    for name in names(collective, n):
        for root in {0, n // 2, n - 1} if collective.has_root else {0}:
            check(collective, programs(collective, name, n, root), root)


def mutants(ranks: Sequence[Program]) -> Iterator[list[Program]]:
    """Programs with one instruction dropped or changed, all of them wrong."""
    for rank, program in enumerate(ranks):
        for at, level in enumerate(program.levels):
            for number, op in enumerate(level):
                changed: list[tuple[Instruction, ...]] = [
                    (),
                    (replace(op, completes=not op.completes),),
                    (replace(op, sources=op.sources[::-1]),) if len(op.sources) > 1 else (),
                    (replace(op, sources=op.sources[:1]),) if len(op.sources) > 1 else (),
                    (replace(op, destinations=op.destinations ^ TO_OUTBOX),),
                ]
                for instructions in changed:
                    levels = list(program.levels)
                    levels[at] = (*level[:number], *instructions, *level[number + 1 :])
                    mutant = replace(program, levels=tuple(levels))
                    yield [*ranks[:rank], mutant, *ranks[rank + 1 :]]
        for reader in program.readers:
            others = tuple(other for other in program.readers if other != reader)
            yield [*ranks[:rank], replace(program, readers=others), *ranks[rank + 1 :]]
        for at, posts in enumerate(program.posts):
            changed_posts = (*program.posts[:at], not posts, *program.posts[at + 1 :])
            yield [*ranks[:rank], replace(program, posts=changed_posts), *ranks[rank + 1 :]]
    yield [replace(program, synchronising=not program.synchronising) for program in ranks]


@pytest.mark.parametrize(
    ("collective", "name", "n"),
    [
        (Collective.ALL_REDUCE, "ring", 3),
        (Collective.ALL_REDUCE, "direct", 4),
        (Collective.BROADCAST, "tree", 5),
        (Collective.GATHER, "tree", 4),
        (Collective.ALL_TO_ALL, "bruck", 3),
    ],
)
def test_the_interpreter_sees_every_mutant(collective: Collective, name: str, n: int) -> None:
    wrong = list(mutants(programs(collective, name, n, 0)))
    assert len(wrong) > 30
    for mutant in wrong:
        with pytest.raises(Fault):
            check(collective, mutant, 0)


@pytest.mark.parametrize("zero_copy", [False, True])
def test_flatten_says_everything_the_executor_needs(zero_copy: bool) -> None:
    """Read back in the order that csrc/program.cc reads."""
    if zero_copy:
        order = (1, 2, 0)
        schedule = build(Collective.BROADCAST, "ring", 3)
        program = compile_zero_copy(Collective.BROADCAST, schedule, order, in_place=False)[2]
        assert program.final_waits
        assert any(op.stores for level in program.levels for op in level)
        assert any(op.waits for level in program.levels for op in level)
    else:
        program = programs(Collective.ALL_REDUCE, "bruck", 5, 0)[3]
    words = iter(program.flatten())

    def several() -> tuple[int, ...]:
        return tuple(next(words) for _ in range(next(words)))

    def places() -> list[tuple[int, ...]]:
        return [tuple(next(words) for _ in range(3)) for _ in range(next(words))]

    assert [next(words) for _ in range(14)] == [
        program.n_ranks,
        program.rank,
        program.blocks,
        0,  # horizontal
        program.scratch_blocks,
        program.piece_blocks,
        program.synchronising,
        program.exchanges,
        program.zero_copy,
        program.single_copy,
        program.in_place,
        program.shares_input,
        program.shares_output,
        program.lossy,
    ]
    assert several() == program.readers
    assert several() == program.final_waits
    levels, posts = [], []
    for _ in range(next(words)):
        n_instructions, announces, n_remote_readers = next(words), next(words), next(words)
        posts.append(bool(announces))
        assert n_remote_readers == 0  # one host
        levels.append([])
        for _ in range(n_instructions):
            numbers = [next(words) for _ in range(8)]
            levels[-1].append((*numbers, places(), places(), several()))
    assert list(words) == []
    assert tuple(posts) == program.posts
    assert levels == [
        [
            (
                *(op.destinations, op.memory_index, op.piece, op.width, op.block, op.completes),
                *(0 if op.charged is None else 1 + op.charged, op.divided),
                [(int(s.space), s.rank, s.index) for s in op.sources],
                [(int(s.space), s.rank, s.index) for s in op.stores],
                op.waits,
            )
            for op in level
        ]
        for level in program.levels
    ]


def test_ranks_of_other_hosts_get_the_pieces_that_they_read() -> None:
    """direct all_reduce over 4 ranks on hosts (0 1) (2 3): each reader has one block to combine, and then reads one."""
    schedule = build(Collective.ALL_REDUCE, "direct", 4)
    program = compile_program(Collective.ALL_REDUCE, schedule, 1, (0, 1, 2, 3), host_of=(0, 0, 1, 1))
    assert program.remote_readers == (
        (RemoteReader(2, ((1, 1),)), RemoteReader(3, ((2, 1),))),  # its message has blocks 0, 2 and 3
        (RemoteReader(2, ((0, 1),)), RemoteReader(3, ((0, 1),))),
        (),
    )
    ring = compile_program(
        Collective.ALL_GATHER, build(Collective.ALL_GATHER, "ring", 4), 1, (0, 1, 2, 3), host_of=(0, 0, 1, 1)
    )
    assert {reader.rank for level in ring.remote_readers for reader in level} == {2}
    inside = compile_program(Collective.ALL_REDUCE, schedule, 1, (0, 1, 2, 3))
    assert inside.remote_readers == ()
    assert program.levels == inside.levels  # the way of the messages changes nothing else
